"""A worker in the test's own process, on a directory and child processes or any other parts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aioanalysis.domain.exchange import Sidecar
from aioanalysis.interfaces import ExchangeStorage, Runtime
from aioanalysis.runtime.opening import open_runtime
from aioanalysis.settings import Settings
from aioanalysis.worker.loop import run_worker
from tests.support.exchange import directory_exchange
from tests.support.packages import outcome_of
from tests.support.runs import METHODS
from tests.support.waiting import eventually


@dataclass
class Parts:
    """What a worker works with."""

    storage: ExchangeStorage
    runtime: Runtime
    settings: Settings

    async def once(self, **changes: Any) -> int:
        settings = self.settings.model_copy(update=changes)
        return await run_worker(self.storage, self.runtime, settings, asyncio.Event(), once=True)

    @asynccontextmanager
    async def worker(self, **changes: Any) -> AsyncIterator[None]:
        """A worker that runs until the context is left."""
        stop = asyncio.Event()
        settings = self.settings.model_copy(update=changes)
        task = asyncio.create_task(run_worker(self.storage, self.runtime, settings, stop), name="worker")
        try:
            yield
        finally:
            stop.set()
            async with asyncio.timeout(60):
                assert await task == 0

    async def ended(self, stem: str, *, within: float = 30) -> Sidecar:
        async def look() -> Sidecar | None:
            return await outcome_of(self.storage, stem)

        found = await eventually(look, within=within, every=0.1, what=f"an outcome of {stem}")
        assert found is not None
        return found


@asynccontextmanager
async def worker_parts(folder: Path, **settings: Any) -> AsyncIterator[Parts]:
    """A directory as storage and child processes as runtime, unless `settings` say otherwise."""
    chosen = {
        "data_dir": folder / "data",
        "methods_dir": METHODS,
        "runtime": "process",
        "worker_id": "w",
        "sample_interval": 0.5,
        "poll_interval": 0.1,
        "disk_reserve_bytes": 0,
        **settings,
    }
    async with directory_exchange(folder / "blobs") as exchange:
        made = exchange.worker_settings(**chosen)
        async with open_runtime(made) as runtime:
            yield Parts(exchange.storage, runtime, made)
