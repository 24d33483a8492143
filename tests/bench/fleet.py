"""SCALE: twenty workers at one queue, and how many storage operations and Redis commands a job costs."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from azure.storage.blob.aio import BlobServiceClient

from aioanalysis.domain.exchange import Container, PackageMeta, package_name
from aioanalysis.interfaces import ExchangeStorage
from aioanalysis.storage.azure import connect
from aioanalysis.storage.directory import DirectoryStorage
from aioanalysis.worker.claims import Claims
from tests.bench.deployments import Backend, deployed
from tests.bench.measuring import Bench, Finding
from tests.support.faultproxy import FaultProxy
from tests.support.jobs import make_job

WORKERS = 20
LEASE_SECONDS = 60
LIVE, IDLE = 6, 10.0


async def claims(bench: Bench) -> AsyncIterator[Finding]:
    count = bench.pick(40, 200)
    backends: tuple[Backend, ...] = ("directory", "azurite")
    for backend in backends:
        rates, shares, misses = [], [], []
        for _ in range(bench.pick(1, 3)):
            async with AsyncExitStack() as stack:
                storages = await _storages(bench, backend, stack)
                taken, missed, taking = await _claim_all(storages, count)
            names = [stem for stems in taken for stem in stems]
            if len(names) != count or len(set(names)) != count:
                raise RuntimeError(f"{count} packages, claimed {len(names)}, of them {len(set(names))} once")
            rates.append(count / taking)
            shares.append(min(map(len, taken)) / (count / WORKERS))
            misses.append(missed / count)
        what = f"{WORKERS} workers, {count} packages, {backend}"
        yield Finding(goal="SCALE", what=f"{what}: claims", unit="a second", ours=rates, by="value")
        yield Finding(
            goal="SCALE", what=f"{what}: refused tries a claim", unit="tries", ours=misses, by="value"
        )
        yield Finding(
            goal="SCALE",
            what=f"{what}: what the unluckiest worker got of an even share",
            unit="of 1",
            ours=shares,
            by="value",
        )
    async for finding in operations(bench):
        yield finding


async def _storages(bench: Bench, backend: Backend, stack: AsyncExitStack) -> list[ExchangeStorage]:
    """One for each worker, as each is a process of its own."""
    name = bench.fresh("fleet")
    if backend == "directory":
        folder = bench.new_folder("fleet")
        found: list[ExchangeStorage] = [DirectoryStorage(folder) for _ in range(WORKERS)]
        await found[0].prepare()  # type: ignore[attr-defined]
        return found
    connection = bench.azurite().connection_string
    async with BlobServiceClient.from_connection_string(connection) as client:
        for container in ("queue", "results"):
            await client.create_container(f"{name}-{container}")
    return [
        await stack.enter_async_context(
            connect(connection_string=connection, queue=f"{name}-queue", results=f"{name}-results")
        )
        for _ in range(WORKERS)
    ]


async def _claim_all(storages: list[ExchangeStorage], count: int) -> tuple[list[list[str]], int, float]:
    """Each worker claims, gives up what it has at once, and claims again, until nothing is left.

    Returns what each got, how many leases were refused, and the seconds.
    """
    for _ in range(count):
        job = make_job(title="noop")
        meta = PackageMeta(uid=job.uid, attempt=1, owner=job.submitter)
        await storages[0].write(
            Container.QUEUE, package_name(job.name), b"package", metadata=replace(meta).to_metadata()
        )
    refused = 0

    async def work(number: int, storage: ExchangeStorage) -> list[str]:
        nonlocal refused
        counted = _Refusals(storage)
        held = []
        try:
            while (claim := await Claims(counted, f"w{number}", LEASE_SECONDS).take()) is not None:
                held.append(claim)
            return [claim.stem for claim in held]
        finally:
            refused += counted.count
            for claim in held:
                await claim.release()

    began = time.perf_counter()
    taken = await asyncio.gather(*(work(n, storage) for n, storage in enumerate(storages)))
    return taken, refused, time.perf_counter() - began


class _Refusals:
    """A storage that counts leases on packages which others were quicker to take."""

    def __init__(self, storage: ExchangeStorage) -> None:
        self._storage = storage
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    async def acquire_lease(
        self, container: Container, name: str, lease: str, seconds: int, **terms: Any
    ) -> None:
        try:
            await self._storage.acquire_lease(container, name, lease, seconds, **terms)
        except Exception:
            self.count += 1
            raise


async def operations(bench: Bench) -> AsyncIterator[Finding]:
    """Requests on the wire, of no-op jobs one after the other, and of parts that have nothing to do."""
    azurite, redis = bench.azurite(), bench.redis()
    async with (
        FaultProxy(("127.0.0.1", azurite.port), "http") as for_api,
        FaultProxy(("127.0.0.1", azurite.port), "http") as for_worker,
        FaultProxy(("127.0.0.1", redis.port), "redis") as for_redis,
    ):
        proxies = {"scheduler": for_api, "worker": for_worker, "Redis": for_redis}
        with deployed(bench, "azurite", runtime="process") as deployment:
            await asyncio.to_thread(
                deployment.serve,
                azure_connection_string=azurite.through(for_api.port),
                redis_url=redis.through(for_redis.port),
            )
            deployment.worker("w1", azure_connection_string=azurite.through(for_worker.port))
            async with deployment.client() as client:
                await client.wait((await client.submit("noop", recordset="DS"))["id"], timeout=60)
                await asyncio.sleep(3)  # until nothing is live any more
                idle = await _counted(proxies, asyncio.sleep(IDLE))
                busy = await _counted(proxies, _jobs(client))
    for part in ("scheduler", "worker"):
        for kind in ("write", "read"):
            yield Finding(
                goal="SCALE",
                what=f"storage operations a job, {part}, {kind}s and lists"
                if kind == "write"
                else f"storage operations a job, {part}, other reads",
                unit="requests",
                ours=[busy[part][kind] / LIVE],
                by="value",
            )
        yield Finding(
            goal="SCALE",
            what=f"storage operations a minute, {part} idle",
            unit="requests",
            ours=[idle[part].total() / IDLE * 60],
            by="value",
        )
    yield Finding(
        goal="SCALE",
        what="Redis commands a job",
        unit="commands",
        ours=[busy["Redis"].total() / LIVE],
        by="value",
    )


async def _jobs(client: Any) -> None:
    for _ in range(LIVE):
        await client.wait((await client.submit("noop", recordset="DS"))["id"], timeout=60)


async def _counted(proxies: dict[str, FaultProxy], work: Any) -> dict[str, Counter[str]]:
    """What came through each proxy during `work`; Azure bills lists like writes."""
    before = {name: len(proxy.requests) for name, proxy in proxies.items()}
    await work
    return {
        name: Counter(_kind(line) for line in proxy.requests[before[name] :])
        for name, proxy in proxies.items()
    }


def _kind(line: str) -> str:
    changes = re.match(r"(PUT|POST) ", line) or "comp=list" in line
    return "write" if changes else "read"
