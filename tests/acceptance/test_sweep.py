"""Sweeps of orphaned files beside real runs: what a job has or makes is never taken."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
from redis.asyncio import Redis

from tests.support.deployment import SYSTEM_TOKEN, Deployment

ALL = ["expired", "replaced", "worker", "unknown"]
QUICK = {"watch_interval": 0.5, "pass_interval": 2, "orphan_seconds": 0}


async def sweep(url: str, **wanted: Any) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {SYSTEM_TOKEN}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(f"{url}/v1/orphans/sweep", json=wanted) as reply,
    ):
        assert reply.status == 200, await reply.text()
        found: dict[str, Any] = await reply.json()
        return found


async def test_sweeps_that_take_all_they_may_beside_runs_take_nothing_of_a_job(
    quick: Deployment, redis_url: str, unique: str
) -> None:
    """Packaging, claims, progress, frames, failures, retries: and no age that protects a file."""
    quick.serve(**QUICK)
    for name in ("w1", "w2"):
        quick.worker(name, sample_interval=0.5)
    async with quick.client() as client:
        jobs = [
            *[await client.submit("noop", recordset="DS-TWO") for _ in range(3)],
            await client.submit("noop", recordset="DS-TWO", frames=[{}, {}]),
            await client.submit("noop", recordset="DS-TWO", split={"records": 1}),
            await client.submit("fail_stage3", recordset="DS-TWO", retries=1),
            await client.submit("slow", recordset="DS-TWO", params={"seconds": 3}),
        ]
        ends = asyncio.gather(*(client.wait(job["id"], timeout=90) for job in jobs))
        while not ends.done():
            done = await sweep(quick.server, reasons=ALL)
            assert (done["removed_files"], done["failed"]) == (0, {})
            await asyncio.sleep(0)
        assert [job["state"] for job in await ends] == ["complete"] * 5 + ["failed", "complete"]
        for job in jobs:
            failed = job["title"] == "fail_stage3"
            await client.result(job["id"], quick.folder / f"{job['id']}.zip", failed=failed)
        assert (await sweep(quick.server, reasons=ALL))["removed_files"] == 0

        # Without their records nobody knows them; only a sweep that is told to takes them.
        async with Redis.from_url(redis_url) as redis:
            for job in jobs:
                await redis.delete(f"{unique}:job:{job['id']}")
        assert (await sweep(quick.server))["removed_files"] == 0
        assert (await sweep(quick.server, reasons=["unknown"]))["removed_files"] >= 2 * len(jobs)
