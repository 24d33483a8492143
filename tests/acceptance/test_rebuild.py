"""Redis lost with its data: records made again from storage."""

from __future__ import annotations

import json
import subprocess
import sys

from redis.asyncio import Redis

from aioanalysis.client import AnalysisClient, JobJson
from tests.support.deployment import Deployment
from tests.support.waiting import eventually

QUICK = {"watch_interval": 0.5, "pass_interval": 2}


async def test_jobs_are_made_again_from_packages_claims_and_sidecars(
    quick: Deployment, redis_url: str, unique: str
) -> None:
    api = quick.serve(**QUICK)
    first = quick.worker("w1", sample_interval=1)
    async with quick.client() as client:
        done = await client.wait((await client.submit("noop", recordset="DS-TWO"))["id"], timeout=30)
        failed = await client.wait((await client.submit("fail_stage3", recordset="DS-TWO"))["id"], timeout=30)
        running = await client.submit("slow", recordset="DS-TWO", params={"seconds": 8})
        await eventually(lambda: _is(client, running, "running"), within=20)
        queued = await client.submit("noop", recordset="DS-TWO")
        await eventually(lambda: _is(client, queued, "queued"), within=20)
    api.kill()
    async with Redis.from_url(redis_url) as redis:
        for key in [key async for key in redis.scan_iter(f"{unique}:*")]:
            await redis.delete(key)
    quick.serve("api2", **QUICK)
    async with quick.client() as client:
        assert await client.jobs() == []
        found = _rebuild(quick)
        assert sorted(found["made"]) == sorted(job["id"] for job in (done, failed, running, queued))
        assert _rebuild(quick)["made"] == []
        for job, state in (
            (done, "complete"),
            (failed, "failed"),
            (running, "complete"),
            (queued, "complete"),
        ):
            again = await client.wait(job["id"], timeout=60)
            assert (again["state"], again["submitter"]) == (state, "ada"), again
            assert again["expires_at"] == job["expires_at"]
        told = (await client.job(failed["id"]))["error"] or {}
        assert told["reason"] == "stage"
    assert first.process.poll() is None


async def _is(client: AnalysisClient, job: JobJson, state: str) -> bool:
    return (await client.job(job["id"]))["state"] == state


def _rebuild(quick: Deployment) -> dict[str, list[str]]:
    home = quick.folder / "rebuild"
    home.mkdir(exist_ok=True)
    run = subprocess.run(
        [sys.executable, "-m", "aioanalysis", "rebuild", "--json"],
        cwd=home,
        env={"PATH": "/usr/bin:/bin", **quick.environment, "AIOANALYSIS_DATA_DIR": str(home)},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert run.returncode == 0, run.stderr
    found: dict[str, list[str]] = json.loads(run.stdout)
    return found
