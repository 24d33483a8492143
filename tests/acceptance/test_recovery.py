"""What survives when a part dies at a bad moment, and what arrives too late."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from redis.asyncio import Redis

from aioanalysis.client import ApiProblem
from tests.support.deployment import Deployment
from tests.support.waiting import eventually

EXPIRY = 20


@pytest.fixture
def results(quick: Deployment) -> Path:
    return quick.folder / "storage" / "results"


async def test_a_late_result_turns_failed_into_complete(quick: Deployment, results: Path) -> None:
    quick.serve(time_limit=10, watch_interval=0.5, pass_interval=1)
    quick.worker(sample_interval=0.5)
    async with quick.client() as client:
        job = await client.submit("slow", recordset="DS-TWO", params={"seconds": 14})
        failed = await client.wait(job["id"], timeout=40)
        assert failed["state"] == "failed"
        assert (failed["error"] or {})["reason"] == "time_limit"
        await eventually(lambda: _state(client, job["id"], "complete"), within=40)
        await client.result(job["id"], quick.folder / "late.zip")


async def _state(client: object, job_id: str, state: str) -> bool:
    job = await client.job(job_id)  # type: ignore[attr-defined]
    return bool(job["state"] == state)


async def test_no_update_extends_the_expiry(quick: Deployment, redis_url: str, unique: str) -> None:
    quick.serve(job_expiry=EXPIRY, watch_interval=0.5, pass_interval=1)
    quick.worker()
    async with quick.client() as client, Redis.from_url(redis_url, decode_responses=True) as redis:
        job = await client.submit("noop", recordset="DS-TWO")
        key = f"{unique}:job:{job['id']}"
        assert EXPIRY - 5 <= await redis.ttl(key) <= EXPIRY
        await client.wait(job["id"], timeout=20)
        moved = await client.job(job["id"])
        assert moved["expires_at"] == job["expires_at"]
        assert -1 < await redis.ttl(key) <= EXPIRY
        await eventually(lambda: _gone(client, job["id"]), within=EXPIRY + 15)
        assert await client.jobs() == []
        assert not [k async for k in redis.scan_iter(f"{unique}:job:*") if await redis.ttl(k) == -1]


async def _gone(client: object, job_id: str) -> bool:
    try:
        await client.job(job_id)  # type: ignore[attr-defined]
    except ApiProblem as problem:
        return problem.status == 404
    return False


async def test_a_removed_jobs_late_result_is_swept(quick: Deployment, results: Path) -> None:
    quick.serve(watch_interval=0.5, pass_interval=1)
    worker = quick.worker(sample_interval=30)
    async with quick.client() as client, quick.client("root") as root:
        job = await client.submit("slow", recordset="DS-TWO", params={"seconds": 3})
        await eventually(lambda: _state(client, job["id"], "running"), within=20)
        with pytest.raises(ApiProblem) as refused:
            await client.remove(job["id"])
        assert refused.value.status == 409
        assert "force" in refused.value.problem["allowed"]
        await root.remove(job["id"], force=True)
        assert await _gone(client, job["id"])
        stem = f"slow.{job['id']}"
        await eventually(lambda: not list(results.rglob(f"{stem}*")), within=40)
        again = await client.submit("noop", recordset="DS-TWO")
        assert (await client.wait(again["id"], timeout=30))["state"] == "complete"
    assert worker.process.poll() is None


async def test_one_poisonous_job_does_not_stop_the_others(
    quick: Deployment, redis_url: str, unique: str
) -> None:
    quick.serve(watch_interval=0.5, pass_interval=1)
    async with quick.client() as client, Redis.from_url(redis_url) as redis:
        poisoned = [await client.submit("noop", recordset="DS-TWO") for _ in range(2)]
        await redis.hset(f"{unique}:job:{poisoned[0]['id']}", "doc", "{not json")
        await redis.hset(f"{unique}:job:{poisoned[1]['id']}", "key", "not sealed by us")
        quick.worker()
        good = [await client.submit("noop", recordset="DS-TWO") for _ in range(3)]
        for job in good:
            assert (await client.wait(job["id"], timeout=30))["state"] == "complete"


async def test_a_scheduler_killed_after_the_upload_does_not_double_the_job(
    quick: Deployment, redis_url: str, unique: str
) -> None:
    """The record is put back to what it was before the state write, as if that had never come."""
    api = quick.serve(watch_interval=0.5, pass_interval=1)
    async with quick.client() as client, Redis.from_url(redis_url) as redis:
        job = await client.submit("noop", recordset="DS-TWO")
        key = f"{unique}:job:{job['id']}"
        before = await redis.hgetall(key)
        await eventually(lambda: _state(client, job["id"], "queued"), within=20)
        api.kill()
        await redis.hset(key, mapping=before)
    package = quick.folder / "storage" / "queue" / f"noop.{job['id']}.tar"
    uploaded = package.stat().st_mtime_ns
    quick.serve("api2", watch_interval=0.5, pass_interval=1)
    async with quick.client() as client:
        await eventually(lambda: _state(client, job["id"], "queued"), within=40)
        assert package.stat().st_mtime_ns == uploaded
        assert len(list(package.parent.glob("*.tar"))) == 1
        quick.worker()
        assert (await client.wait(job["id"], timeout=30))["state"] == "complete"


async def test_a_killed_workers_job_runs_again_within_about_a_lease(quick: Deployment) -> None:
    quick.serve()
    first = quick.worker("w1", sample_interval=1)
    async with quick.client() as client:
        job = await client.submit("slow", recordset="DS-TWO", params={"seconds": 3})
        await eventually(lambda: _state(client, job["id"], "running"), within=20)
        first.kill()
        began = asyncio.get_running_loop().time()
        quick.worker("w2", sample_interval=1)
        ended = await client.wait(job["id"], timeout=60)
        took = asyncio.get_running_loop().time() - began
    assert ended["state"] == "complete"
    assert ended["attempt"] == 2
    lease, grace, run, passes = 15, 3, 4, 8
    assert took < lease + grace + run + passes


async def test_a_service_that_is_restarted_keeps_its_jobs(quick: Deployment) -> None:
    api = quick.serve()
    async with quick.client() as client:
        job = await client.submit("noop", recordset="DS-TWO")
    assert api.stop() == 0
    quick.serve("api2")
    quick.worker()
    async with quick.client() as client:
        assert (await client.wait(job["id"], timeout=30))["state"] == "complete"


@pytest.mark.parametrize(
    ("process", "setting", "value"), [("serve", "REDIS_URL", ""), ("worker", "METHODS_DIR", "/nowhere")]
)
def test_a_set_up_that_is_wrong_stops_the_start_with_one_line_that_names_it(
    quick: Deployment, process: str, setting: str, value: str
) -> None:
    broken = quick.run("broken", process, **{setting.lower(): value})
    assert broken.process.wait(20) == 2
    last = broken.log.strip().splitlines()[-1]
    assert last.startswith("aioanalysis: ")
    assert f"AIOANALYSIS_{setting}" in last
    shutil.rmtree(quick.folder / "broken")
