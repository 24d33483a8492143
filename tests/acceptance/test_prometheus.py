"""Alerts and dashboard on a real Prometheus that scrapes a real API process."""

from __future__ import annotations

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import yaml

from aioanalysis.client import AnalysisClient, open_client
from aioanalysis.errors import AnalysisError
from tests.support.deployment import Deployment
from tests.support.parts import require
from tests.support.prometheus import Prometheus, at_once
from tests.support.servers import RedisServer
from tests.support.waiting import eventually

RULES = Path(__file__).parents[2] / "aioanalysis" / "operating" / "alerts.yaml"
DASHBOARD = RULES.with_name("grafana.json")
CASES = Path(__file__).with_name("alerts_test.yaml")
QUICK = {"pass_interval": 1, "watch_interval": 0.3}
NOT_WITHIN_MINUTES = {"PassesAreSlow"}  # promtool alone


def all_alerts() -> set[str]:
    return {rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]}


def test_every_alert_fires_when_it_is_to_and_not_before() -> None:
    done = subprocess.run(
        [require("promtool"), "test", "rules", CASES], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_of_every_alert_both_is_tested() -> None:
    expected: defaultdict[str, set[bool]] = defaultdict(set)
    for case in yaml.safe_load(CASES.read_text())["tests"]:
        for rule in case["alert_rule_test"]:
            expected[rule["alertname"]].add(bool(rule.get("exp_alerts")))
    assert expected == {alert: {True, False} for alert in all_alerts()}


async def test_with_a_well_service_the_dashboard_shows_data_and_no_alert_fires(quick: Deployment) -> None:
    quick.serve(**QUICK)
    quick.worker(sample_interval=1)
    rules = at_once(RULES.read_text())
    with Prometheus(require("prometheus"), quick.server, rules) as prometheus:
        async with quick.client() as client:
            job = await client.wait((await client.submit("noop", recordset="DS-TWO"))["id"], timeout=60)
            assert job["state"] == "complete"
            await client.result(job["id"], quick.folder / "result.zip")

            def empty() -> list[str]:
                return [expression for expression in panels() if not prometheus.query(expression)]

            await eventually(lambda: not empty(), within=30, every=0.5, what="every panel has data")
        ((_, completed),) = [
            series["value"]
            for series in prometheus.query('sum(aioanalysis_http_requests_total{route="/v1/jobs"})')
        ]
        assert float(completed) >= 1
        for label, match in variables():
            assert prometheus.ask(f"label/{label}/values", **{"match[]": match}) == [quick.server[7:]]
        await eventually(lambda: evaluated(prometheus), within=10, every=0.5, what="all rules were evaluated")
        assert prometheus.firing() == set()


def panels() -> Iterator[str]:
    """The dashboard's expressions, its variables filled in as Grafana does for "All"."""
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            yield target["expr"].replace("$instance", ".*").replace("$__rate_interval", "30s")


def variables() -> Iterator[tuple[str, str]]:
    """Label and metric of each variable that is a query."""
    for variable in json.loads(DASHBOARD.read_text())["templating"]["list"]:
        if variable["type"] == "query":
            found = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["query"]["query"])
            assert found, variable
            yield found[2], found[1]


def evaluated(prometheus: Prometheus) -> bool:
    """Whether every rule has been looked at, without a fault."""
    rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    assert {rule["name"] for rule in rules} == all_alerts()
    assert [rule["lastError"] for rule in rules if rule.get("lastError")] == []
    return all(rule["health"] == "ok" for rule in rules)


async def test_alerts_fire_for_real(quick: Deployment, own_redis: RedisServer) -> None:
    settings = {**QUICK, "redis_url": own_redis.url}
    api = quick.serve(**settings)
    rules = at_once(RULES.read_text()).replace("pass_age_seconds) > 120", "pass_age_seconds) > 3")
    fired: set[str] = set()
    with Prometheus(require("prometheus"), quick.server, rules) as prometheus:

        async def fires(*alerts: str, meanwhile: AnalysisClient | None = None) -> None:
            async def all_fire() -> bool:
                if meanwhile:
                    await ask(meanwhile)
                return set(alerts) <= prometheus.firing()

            await eventually(all_fire, within=30, every=0.25, what=f"{alerts} fire")
            fired.update(alerts)

        async with open_client(quick.server, quick.keys["ada"], patience=0) as client:
            assert prometheus.firing() == set()
            await eventually(lambda: prometheus.query('aioanalysis_jobs{state="failed"}'), within=10)
            for _ in range(25):
                await client.submit("noop", recordset="NOT-THERE")
            job = await client.submit("noop", recordset="DS-TWO")
            await fires("ManyJobsFail", "NoWorker", "QueueStandsStill")

            damage(own_redis, f"{quick.environment['AIOANALYSIS_REDIS_PREFIX']}job:{job['id']}")
            await fires("JobRecordDamaged")

            storage, away = quick.folder / "storage", quick.folder / "away"
            storage.rename(away)
            await fires("StorageAway", "PartFails", "NoPass")
            away.rename(storage)

            own_redis.stop()
            await fires("JobStoreAway", "ServerErrors", meanwhile=client)
        api.kill()
        await fires("ApiDown")
    assert fired == all_alerts() - NOT_WITHIN_MINUTES


async def ask(client: AnalysisClient) -> None:
    """One request that the API cannot answer."""
    with suppress(AnalysisError):
        await client.jobs(limit=1)


def damage(server: RedisServer, key: str) -> None:
    with server.connect() as connection:
        connection.sendall(f"HSET {key} doc damaged version 99\r\n".encode())
        assert connection.recv(100).startswith(b":")
