"""A worker commits what has run beside its next runs: bounded, still under orders, still recoverable."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aioanalysis.domain.exchange import (
    Container,
    Control,
    attempt_name,
    claim_name,
    control_name,
    package_name,
    worker_name,
)
from aioanalysis.interfaces import LeaseState
from aioanalysis.worker.loop import run_worker
from tests.support.packages import enqueue, names_in, new_stem, outcome_of, read_blob
from tests.support.runs import METHODS, write_method
from tests.support.waiting import eventually
from tests.support.workers import Parts, worker_parts

QUEUE, RESULTS = Container.QUEUE, Container.RESULTS
SLOTS = 2


class HeldUploads:
    """Storage on which result packages get through only once `let_through` is set; `under_way` are those."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage
        self.let_through = asyncio.Event()
        self.under_way: list[str] = []
        self.most = 0

    def __getattr__(self, name: str) -> Any:
        return self._write if name == "write" else getattr(self._storage, name)

    async def _write(self, container: Container, name: str, *args: Any, **options: Any) -> Any:
        if not name.endswith(".zip") or name.startswith("attempts/"):
            return await self._storage.write(container, name, *args, **options)
        self.under_way.append(name.removesuffix(".zip"))
        self.most = max(self.most, len(self.under_way))
        try:
            await self.let_through.wait()
            return await self._storage.write(container, name, *args, **options)
        finally:
            self.under_way.remove(name.removesuffix(".zip"))


class CountedRuns:
    """A runtime that counts the runs between their start and their end."""

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self.now = self.most = self.begun = 0

    def __getattr__(self, name: str) -> Any:
        return {"start": self._start, "wait": self._wait}.get(name) or getattr(self._runtime, name)

    async def _start(self, *args: Any) -> Any:
        self.now += 1
        self.begun += 1
        self.most = max(self.most, self.now)
        return await self._runtime.start(*args)

    async def _wait(self, run: str) -> Any:
        ended = await self._runtime.wait(run)
        self.now -= 1
        return ended


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    async with worker_parts(tmp_path, worker_jobs=SLOTS, drain_seconds=20) as made:
        yield made


@asynccontextmanager
async def working(
    parts: Parts, storage: Any, runtime: Any = None, **changes: Any
) -> AsyncIterator[asyncio.Event]:
    """A worker on `storage`, stopped by the event and at the end."""
    stop = asyncio.Event()
    settings = parts.settings.model_copy(update=changes)
    chosen: Any = runtime or parts.runtime
    run = run_worker(storage, chosen, settings, stop)
    task = asyncio.create_task(run, name="worker")
    try:
        yield stop
    finally:
        stop.set()
        async with asyncio.timeout(60):
            assert await task == 0


async def sign_of(parts: Parts) -> dict[str, Any]:
    if await parts.storage.stat(RESULTS, worker_name("w")) is None:
        return {"running": [], "finishing": []}
    found: dict[str, Any] = json.loads(await read_blob(parts.storage, worker_name("w")))
    return found


def folders(parts: Parts) -> list[Path]:
    return list((parts.settings.data_dir / "worker" / "w" / "runs").iterdir())


async def test_a_run_begins_while_the_one_before_it_is_still_being_uploaded(parts: Parts) -> None:
    held = HeldUploads(parts.storage)
    first = await enqueue(parts.storage)
    async with working(parts, held, worker_jobs=1):
        await eventually(lambda: held.under_way == [first], within=30)
        second = await enqueue(parts.storage, new_stem("slow"), seconds=60)

        async def told() -> bool:
            sign = await sign_of(parts)
            stems = [[run["stem"] for run in sign[key]] for key in ("running", "finishing")]
            return stems == [[second], [first]]

        await eventually(told, within=30, every=0.1, what="the sign of life tells the two apart")
        held.let_through.set()
        assert (await parts.ended(first)).error is None
        control = Control(attempt=1, action="interrupt").to_bytes()
        await parts.storage.write(RESULTS, control_name(second), control)


async def test_never_more_run_than_there_are_slots_and_never_more_commit(parts: Parts) -> None:
    held, runtime = HeldUploads(parts.storage), CountedRuns(parts.runtime)
    stems = [await enqueue(parts.storage) for _ in range(3 * SLOTS)]
    async with working(parts, held, runtime):
        await eventually(lambda: len(held.under_way) == SLOTS, within=30)

        async def settled() -> bool:
            sign = await sign_of(parts)
            return runtime.now == 0 and [len(sign[key]) for key in ("running", "finishing")] == [SLOTS, SLOTS]

        await eventually(settled, within=30, every=0.1, what="all that may have begun has run")
        assert runtime.begun == 2 * SLOTS  # the last ones keep their slots: nothing more is claimed
        assert len(await names_in(parts.storage, QUEUE)) == len(stems) - runtime.begun
        held.let_through.set()
        for stem in stems:
            assert (await parts.ended(stem)).error is None
    assert held.most == SLOTS
    assert runtime.most <= SLOTS
    assert runtime.begun == len(stems)
    assert folders(parts) == []


@pytest.mark.parametrize("action", ["kill", "interrupt"])
async def test_an_order_is_heard_by_what_is_being_committed_and_the_run_beside_it_goes_on(
    parts: Parts, action: str
) -> None:
    held = HeldUploads(parts.storage)
    first = await enqueue(parts.storage)
    async with working(parts, held, worker_jobs=1):
        await eventually(lambda: held.under_way == [first], within=30)
        second = await enqueue(parts.storage)
        await eventually(lambda: len(folders(parts)) == 2, within=30)
        await parts.storage.write(RESULTS, control_name(first), Control(attempt=1, action=action).to_bytes())

        async def released() -> bool:
            info = await parts.storage.stat(RESULTS, claim_name(first))
            return info is not None and info.lease is LeaseState.FREE

        await eventually(released, within=30, every=0.1)
        held.let_through.set()
        assert (await parts.ended(second)).error is None
    assert await outcome_of(parts.storage, first) is None
    kept = [attempt_name(first, 1, f".killed.{end}") for end in ("metadata.json", "zip")]
    assert await names_in(parts.storage, RESULTS, "attempts/") == (kept if action == "kill" else [])


async def test_a_worker_that_stops_waits_for_what_it_commits(parts: Parts) -> None:
    held = HeldUploads(parts.storage)
    stem = await enqueue(parts.storage)
    async with working(parts, held) as stop:
        await eventually(lambda: held.under_way == [stem], within=30)
        stop.set()

        async def draining() -> bool:
            return bool((await sign_of(parts)).get("state") == "draining")

        await eventually(draining, within=30, every=0.1)
        assert held.under_way == [stem]
        held.let_through.set()
    assert (await parts.ended(stem)).error is None
    assert folders(parts) == []


async def test_what_is_not_committed_within_the_drain_time_goes_back(parts: Parts) -> None:
    held = HeldUploads(parts.storage)
    stem = await enqueue(parts.storage)
    async with working(parts, held, drain_seconds=0):
        await eventually(lambda: held.under_way == [stem], within=30)
    assert await names_in(parts.storage, QUEUE) == [package_name(stem)]
    assert await outcome_of(parts.storage, stem) is None
    assert folders(parts) == []


KILLED_WORKER = """
import asyncio, os, signal, sys
from pathlib import Path
from aioanalysis.runtime.opening import open_runtime
from aioanalysis.settings import load
from aioanalysis.storage.directory import open_storage
from aioanalysis.worker.loop import run_worker
from tests.integration.test_commits_beside_runs import HeldUploads

async def main():
    settings = load()
    async with open_storage(settings) as storage, open_runtime(settings) as runtime:
        await run_worker(HeldUploads(storage), runtime, settings, asyncio.Event())

asyncio.run(main())
"""


async def test_killed_while_one_commits_and_one_runs_a_worker_does_neither_twice(
    parts: Parts, tmp_path: Path
) -> None:
    methods = tmp_path / "methods"
    write_method(methods, "long", {2: "import time\nprint('begun', flush=True)\ntime.sleep(60)\n"})
    write_method(methods, "noop")
    first, second = await enqueue(parts.storage), new_stem("long")
    environment = {
        "AIOANALYSIS_STORAGE_DIRECTORY": str(parts.settings.storage_directory),
        "AIOANALYSIS_DATA_DIR": str(parts.settings.data_dir),
        "AIOANALYSIS_METHODS_DIR": str(methods),
        "AIOANALYSIS_RUNTIME": "process",
        "AIOANALYSIS_WORKER_ID": "w",
        "AIOANALYSIS_WORKER_JOBS": "1",
        "AIOANALYSIS_DISK_RESERVE_BYTES": "0",
        "PYTHONPATH": str(METHODS.parents[2]),
        "PATH": "/usr/bin:/bin",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED_WORKER, env=environment, stderr=asyncio.subprocess.DEVNULL
    )
    try:

        def one_commits() -> bool:
            return any((run / "outcome.json").exists() for run in folders(parts))

        await eventually(lambda: (parts.settings.data_dir / "worker").exists(), within=60)
        await eventually(one_commits, within=60)
        await enqueue(parts.storage, second)

        def one_runs() -> bool:
            logs = [run / "job" / "job.log" for run in folders(parts) if run.name.startswith("long.")]
            return any(log.exists() and "begun" in log.read_text() for log in logs)

        await eventually(one_runs, within=60)
    finally:
        process.kill()
        await process.wait()
    write_method(methods, "long")  # this time it ends at once
    async with parts.worker(methods_dir=methods):
        assert (await parts.ended(first)).attempt == 1  # committed as it had run
        assert (await parts.ended(second)).attempt == 2  # given back and run anew
    for stem in (first, second):
        assert len([name for name in await names_in(parts.storage, RESULTS) if name == f"{stem}.zip"]) == 1
    assert await names_in(parts.storage, QUEUE) == []
    assert folders(parts) == []
