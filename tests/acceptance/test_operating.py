"""What `aioanalysis operating` hands out fits what the service says and stores; what monitoring is told."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from typer.testing import CliRunner

from aioanalysis.cli import app
from aioanalysis.cli.operating import FILES
from aioanalysis.domain import exchange
from aioanalysis.settings import Settings
from tests.support.deployment import Deployment
from tests.support.servers import RedisServer
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
OPERATING = ROOT / "aioanalysis" / "operating"
SCRAPE_SECONDS = 10  # Prometheus' own patience
METRIC = re.compile(r"aioanalysis_[a-z_]+")


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((OPERATING / "grafana.json").read_text())
    return found


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load((OPERATING / "alerts.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def expressions() -> Iterator[str]:
    for panel in dashboard()["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    yield from (rule["expr"] for rule in alerts())


def test_every_file_is_listed_and_printed_as_it_is() -> None:
    listed = CliRunner().invoke(app, ["operating"]).stdout
    assert {path.name for path in OPERATING.iterdir()} == set(FILES)
    for name in FILES:
        assert name in listed
        assert CliRunner().invoke(app, ["operating", name]).stdout == (OPERATING / name).read_text()
    wrong = CliRunner().invoke(app, ["operating", "../api/app.py"])
    assert wrong.exit_code == 2


async def test_every_metric_of_dashboard_and_alerts_is_one_that_the_service_tells(quick: Deployment) -> None:
    quick.serve(pass_interval=1, watch_interval=0.2)
    quick.worker()
    async with quick.client() as client, aiohttp.ClientSession() as session:
        job = await client.submit("noop", recordset="DS-TWO")
        assert (await client.wait(job["id"], timeout=60))["state"] == "complete"

        async def told() -> str:
            async with session.get(f"{quick.server}/metrics") as response:
                text = await response.text()
            assert "aioanalysis_workers_seen 1\n" in text
            return text

        text = await eventually(told, within=30)
    # `up` apart, nothing is asked for that is not one of ours.
    names = {name for expression in expressions() for name in METRIC.findall(expression)}
    assert names
    assert names <= set(re.findall(r"^(aioanalysis_[a-z_]+)", text, re.MULTILINE))
    states = set(re.findall(r'aioanalysis_jobs\{state="(\w+)"\}', text))
    named = {
        state
        for expression in expressions()
        for value in re.findall(r'state=~?"([^"]+)"', expression)
        for state in value.split("|")
    }
    assert named <= states


async def test_a_part_that_hangs_is_named_and_holds_up_no_figures_of_the_others(
    quick: Deployment, own_redis: RedisServer
) -> None:
    quick.serve(redis_url=own_redis.url)
    own_redis.suspend()
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(SCRAPE_SECONDS)) as session:
        async with session.get(f"{quick.server}/readyz") as response:
            assert response.status == 503
            checks = (await response.json())["checks"]
        async with session.get(f"{quick.server}/metrics") as response:
            told = set(re.findall(r"^(aioanalysis_[a-z_]+)", await response.text(), re.MULTILINE))
    assert checks == {"job store": "failing", "storage": "ok", "scheduler": "failing"}
    assert told >= {"aioanalysis_queue_packages", "aioanalysis_workers_seen", "aioanalysis_faults_total"}
    assert not told & {"aioanalysis_jobs", "aioanalysis_pass_age_seconds"}


def test_the_dashboard_has_nothing_that_grafanas_schema_does_not_know() -> None:
    register_default_plugins()
    ours = dashboard()
    understood = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(ours)))
    assert list(lost(ours, understood)) == []


def lost(ours: Any, understood: Any, place: str = "") -> Iterator[str]:
    """Where the schema's reading of the dashboard lacks, or changes, something of it."""
    if isinstance(ours, dict) and isinstance(understood, dict):
        for name, value in ours.items():
            yield from lost(value, understood.get(name, ...), f"{place}/{name}")
    elif isinstance(ours, list) and isinstance(understood, list) and len(ours) == len(understood):
        for at, (one, other) in enumerate(zip(ours, understood, strict=True)):
            yield from lost(one, other, f"{place}/{at}")
    elif ours != understood:
        yield place


def test_what_grafana_would_not_know_is_found() -> None:
    assert list(lost({"a": [{"b": 1, "c": None}]}, {"a": [{"c": 0}], "d": 1})) == ["/a/0/b", "/a/0/c"]


def test_panels_do_not_lie_upon_each_other_and_each_has_an_id_of_its_own() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places: set[tuple[int, int]] = set()
    for panel in panels:
        grid = panel["gridPos"]
        own = {
            (x, y)
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert max(x for x, _ in own) < 24
        assert not own & places, panel["title"]
        places |= own


def test_the_readme_says_for_every_alert_what_to_do() -> None:
    section = (ROOT / "README.md").read_text().split("### When something fails\n")[1].split("\n### ")[0]
    named = re.findall(r"`([A-Z][A-Za-z]+)` \|", section)
    assert sorted(named) == sorted(rule["alert"] for rule in alerts())
    assert set(METRIC.findall(section)) <= {m for e in expressions() for m in METRIC.findall(e)}


STEM = "noop.0123abcd"


@pytest.mark.parametrize(
    "name",
    [
        f"queue/{exchange.package_name(STEM)}",
        f"results/{exchange.claim_name(STEM)}",
        f"results/{exchange.control_name(STEM)}",
        f"results/{exchange.progress_name(STEM)}",
        f"results/{exchange.progress_log_name(STEM)}",
        f"results/{exchange.attempt_name(STEM, 1, 'failed.zip')}",
        f"results/{exchange.snapshot_name(STEM)}",
        f"results/{exchange.worker_name('w1')}",
        f"results/{STEM}.zip",
        f"results/{STEM}.metadata.json",
    ],
)
def test_lifecycle_rules_take_every_file_of_a_job_some_time_after_its_expiry(name: str) -> None:
    rules = json.loads((OPERATING / "lifecycle.json").read_text())["rules"]
    days = [
        rule["definition"]["actions"]["baseBlob"]["delete"]["daysAfterModificationGreaterThan"]
        for rule in rules
        if any(name.startswith(prefix) for prefix in rule["definition"]["filters"]["prefixMatch"])
    ]
    fields = Settings.model_fields
    containers = [fields[field].default for field in ("queue_container", "results_container")]
    assert name.split("/")[0] in containers
    expiry = fields["job_expiry"].default / 86_400
    assert days
    assert all(day > expiry for day in days)


def test_results_may_be_kept_longer_without_keeping_the_bookkeeping() -> None:
    first, second = json.loads((OPERATING / "lifecycle.json").read_text())["rules"]
    assert second["definition"]["filters"]["prefixMatch"] == ["results/"]
    folders = {
        f"results/{folder}"
        for folder in (
            exchange.ATTEMPTS,
            exchange.CLAIMED,
            exchange.CONTROL,
            exchange.PROGRESS,
            exchange.SNAPSHOTS,
            exchange.WORKERS,
        )
    }
    assert set(first["definition"]["filters"]["prefixMatch"]) == {"queue/", *folders}
