"""Jobs that keep coming while the service under them is restarted, followed as clients do; then the count."""

from __future__ import annotations

import asyncio
import zipfile
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aioanalysis.client import AnalysisClient, JobJson

END_SECONDS = 180.0
Restart = Callable[[], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Flow:
    """`count` jobs of one method through each client, `at_once` at a time, results kept in `folder`."""

    clients: Sequence[AnalysisClient]
    title: str
    recordset: str
    folder: Path
    params: Mapping[str, Any]
    count: int
    at_once: int

    async def through(self, restarts: Sequence[Restart]) -> list[JobJson]:
        """The jobs as they ended; meanwhile the restarts, one after the other."""
        flowing = asyncio.create_task(self._all(), name="jobs flow")
        try:
            await self._begun(flowing)
            for restart in restarts:
                await restart()
            return await flowing
        finally:
            flowing.cancel()
            await asyncio.wait([flowing])

    async def _begun(self, flowing: asyncio.Task[list[JobJson]]) -> None:
        async with aclosing(self.clients[0].events()) as events:
            async for event in events:
                if event.data.get("state") == "running" or flowing.done():
                    return

    async def _all(self) -> list[JobJson]:
        turn = asyncio.Semaphore(self.at_once)

        async def one(client: AnalysisClient) -> JobJson:
            async with turn, asyncio.timeout(END_SECONDS):
                return await self._follow(client)

        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(one(client), name="a job's client")
                for _ in range(self.count)
                for client in self.clients
            ]
        return [task.result() for task in tasks]

    async def _follow(self, client: AnalysisClient) -> JobJson:
        """Submit a job, watch it by events until it has ended, download what it left, checksum verified."""
        job = await client.submit(self.title, recordset=self.recordset, params=self.params)
        async with aclosing(client.watch(job["id"])) as updates:
            async for update in updates:
                job = update.job
        if job["state"] == "complete":
            saved = await client.result(job["id"], self.folder / f"{job['id']}.zip")
            with zipfile.ZipFile(saved.path) as package:
                assert saved.verified
                assert package.testzip() is None
        return job


async def problems(client: AnalysisClient, jobs: Sequence[JobJson]) -> list[str]:
    """What is wrong with jobs that should have completed exactly once each; `client` sees all of them."""
    found = [f"{job['id']} is {job['state']}: {job['error']}" for job in jobs if job["state"] != "complete"]
    known = {job["id"] for job in await client.jobs(limit=10 * len(jobs) + 500)}
    ids = Counter(job["id"] for job in jobs)
    found += [f"{job_id} was given to {count} submissions" for job_id, count in ids.items() if count > 1]
    found += [f"{job_id} is gone" for job_id in ids.keys() - known]
    found += [f"{job_id} was submitted by nobody" for job_id in known - ids.keys()]
    for job in jobs:
        ends = [event for event in job["history"] if event["to"] == "complete" != event["from"]]
        sidecar = await client.metadata(job["id"])
        if len(ends) != 1:
            found.append(f"{job['id']} became complete {len(ends)} times")
        if sidecar["attempt"] != job["attempt"]:
            found.append(f"{job['id']}: result of attempt {sidecar['attempt']}, not {job['attempt']}")
    return found
