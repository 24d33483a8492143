"""Several API processes make one scheduler."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from itertools import pairwise

from tests.support.deployment import Deployment, Running
from tests.support.waiting import eventually

LOCK_SECONDS = 4


def events(process: Running, name: str) -> list[dict[str, object]]:
    lines = [line for line in process.log.splitlines() if line.startswith("{")]
    return [found for line in lines if (found := json.loads(line)).get("event") == name]


def spans(process: Running) -> list[tuple[datetime, datetime]]:
    """When its passes began and ended."""
    found = []
    for event in events(process, "pass_finished"):
        end = datetime.fromisoformat(str(event["timestamp"]).replace("Z", "+00:00"))
        found.append((end - timedelta(seconds=float(str(event["seconds"]))), end))
    return found


async def test_passes_of_two_processes_never_overlap_and_a_dead_leader_costs_at_most_the_locks_time(
    quick: Deployment,
) -> None:
    settings = {
        "log_level": "debug",
        "lock_seconds": LOCK_SECONDS,
        "watch_interval": 0.2,
        "pass_interval": 0.5,
    }
    apis = {name: quick.serve(name, **settings) for name in ("api1", "api2")}
    quick.worker(worker_jobs=2)
    async with quick.client() as client:
        jobs = [await client.submit("noop", recordset="DS-TWO") for _ in range(10)]
        leader = await eventually(
            lambda: next((name for name, api in apis.items() if events(api, "scheduler_leads")), ""),
            within=10,
        )
        other = next(name for name in apis if name != leader)
        await eventually(lambda: len(spans(apis[leader])) >= 5, within=20)
        assert spans(apis[other]) == []
        apis[leader].kill()
        killed_at = spans(apis[leader])[-1][1]
        if leader == "api2":  # the client speaks to the one that was started last
            quick.server = quick._address(apis[other])
    async with quick.client() as client:
        await eventually(lambda: len(spans(apis[other])) >= 3, within=LOCK_SECONDS + 10)
        assert (spans(apis[other])[0][0] - killed_at).total_seconds() < LOCK_SECONDS + 2
        ended = [await client.wait(job["id"], timeout=60) for job in jobs]
    assert [job["state"] for job in ended] == ["complete"] * 10
    every = sorted(span for api in apis.values() for span in spans(api))
    assert all(first[1] <= second[0] for first, second in pairwise(every))
    fences = [int(str(event["fence"])) for api in apis.values() for event in events(api, "scheduler_leads")]
    assert len(set(fences)) == 2
