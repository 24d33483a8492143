"""Both package storages for tests, with the means to let leases lapse, workers crash, and jobs recover."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from azure.storage.blob.aio import BlobServiceClient

from aioanalysis.domain.exchange import (
    Container,
    Ending,
    PackageMeta,
    claim_name,
    package_name,
)
from aioanalysis.interfaces import BlobInfo, Condition, ExchangeStorage, LeaseState
from aioanalysis.settings import Settings, load
from aioanalysis.storage.azure import connect
from aioanalysis.storage.directory import DirectoryStorage
from tests.support.packages import sidecar_of
from tests.support.servers import Azurite
from tests.support.waiting import eventually

LEASE_SECONDS = 15


@dataclass
class Exchange:
    """One pair of containers. `clock_offset` moves the directory's clock of leases; Azurite's is real."""

    storage: ExchangeStorage
    settings: dict[str, Any]
    clock_offset: list[float] = field(default_factory=lambda: [0.0])
    real_time: bool = False

    async def lapse(self, container: Container, name: str) -> BlobInfo | None:
        """Let time pass until the blob's lease has run out; the blob, None when it is not there."""
        if not self.real_time:
            self.clock_offset[0] += 2 * LEASE_SECONDS

        async def free() -> bool:
            info = await self.storage.stat(container, name)
            return info is None or info.lease is not LeaseState.HELD

        await eventually(free, within=2 * LEASE_SECONDS, every=0.2)
        return await self.storage.stat(container, name)

    def worker_settings(self, **changes: Any) -> Settings:
        return load(lease_seconds=LEASE_SECONDS, lease_grace_seconds=2, **self.settings, **changes)


@asynccontextmanager
async def directory_exchange(root: Path) -> AsyncIterator[Exchange]:
    offset = [0.0]
    storage = DirectoryStorage(root, clock=lambda: time.monotonic() + offset[0])
    await storage.prepare()
    yield Exchange(storage, {"storage_directory": root}, offset)


@asynccontextmanager
async def azurite_exchange(
    azurite: Azurite, unique: str, *, port: int | None = None
) -> AsyncIterator[Exchange]:
    """Two fresh containers; `port` is a proxy's."""
    queue, results = f"{unique}-queue", f"{unique}-results"
    async with BlobServiceClient.from_connection_string(azurite.connection_string) as client:
        for name in (queue, results):
            await client.create_container(name)
    connection = azurite.through(port) if port else azurite.connection_string
    async with connect(
        connection_string=connection, queue=queue, results=results, lease_seconds=LEASE_SECONDS
    ) as storage:
        settings = {
            "azure_connection_string": connection,
            "queue_container": queue,
            "results_container": results,
        }
        yield Exchange(storage, settings, real_time=True)


class Crash(BaseException):
    """The process is gone: nothing catches this, and nothing works after it."""


class CrashingStorage:
    """Storage of a process that dies at its `at`-th call: before it acts, or `acted` but unheard."""

    def __init__(self, storage: ExchangeStorage, at: int, *, acted: bool) -> None:
        self._storage = storage
        self._at = at
        self._acted = acted
        self.calls: list[str] = []

    @property
    def crashed(self) -> bool:
        return len(self.calls) >= self._at

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._storage, name)
        if name in {"names", "list"}:
            return lambda *args, **options: self._listed(name, call(*args, **options))
        if name == "open":
            return lambda *args, **options: self._opened(call(*args, **options))
        return lambda *args, **options: self._called(name, call, args, options)

    def _count(self, name: str) -> bool:
        """Whether this call is the last one."""
        if self.crashed:
            raise Crash(f"{name} after the end")
        self.calls.append(name)
        if self.crashed and not self._acted:
            raise Crash(f"before {name}")
        return self.crashed

    async def _called(self, name: str, call: Any, args: Any, options: Any) -> Any:
        last = self._count(name)
        answer = await call(*args, **options)
        if last:
            raise Crash(f"after {name}")
        return answer

    async def _listed(self, name: str, listing: Any) -> AsyncIterator[Any]:
        self._count(name)
        async for item in listing:
            yield item

    @asynccontextmanager
    async def _opened(self, opening: Any) -> AsyncIterator[Any]:
        self._count("open")
        async with opening as stream:
            yield stream


async def recover(storage: ExchangeStorage, stem: str) -> bool:
    """The scheduler's step for a lost worker, by hand (PROTOCOL.md 2); whether there was anything to do."""
    claim = await storage.stat(Container.RESULTS, claim_name(stem))
    if claim is None or await storage.stat(Container.QUEUE, package_name(stem)) is not None:
        return False
    meta = PackageMeta.from_metadata(claim.metadata)
    for ending in Ending:
        sidecar = await sidecar_of(storage, stem, ending)
        if sidecar is not None and sidecar.attempt == meta.attempt:
            return False
    lease = str(uuid4())
    await storage.acquire_lease(Container.RESULTS, claim.name, lease, LEASE_SECONDS)
    await storage.copy(
        (Container.RESULTS, claim.name),
        (Container.QUEUE, package_name(stem)),
        metadata=replace(meta, attempt=meta.attempt + 1, nonce=None, worker=None).to_metadata(),
        source_etag=claim.etag,
        condition=Condition(absent=True),
    )
    await storage.delete(Container.RESULTS, claim.name, lease=lease)
    return True


async def forget_task(task: asyncio.Task[Any]) -> None:
    """Await a task that is to die of a `Crash`."""
    await asyncio.wait({task})
    assert isinstance(task.exception(), Crash), task
