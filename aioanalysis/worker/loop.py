"""The worker's life: claims packages for its slots until it is told to stop, then lets them end.

A slot is free again when its container has ended: what that left is packed, uploaded and committed beside the
next run.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aioanalysis import logs
from aioanalysis.aio import Tasks, finish, in_thread
from aioanalysis.errors import AnalysisError, Misconfigured, SystemFault, Unavailable
from aioanalysis.interfaces import ExchangeStorage, WorkerRuntime
from aioanalysis.settings import Settings
from aioanalysis.worker.admission import Admission
from aioanalysis.worker.claims import Claim, Claims
from aioanalysis.worker.handling import End, Handling
from aioanalysis.worker.progress import Presence
from aioanalysis.worker.recovery import clean_up
from aioanalysis.worker.run import Host
from aioanalysis.worker.sampler import DISK_FULL_BYTES
from aioanalysis.worker.slots import Slots
from aioanalysis.worker.workspace import Instance

BUSY_SECONDS: Final = 0.1  # between looks at the queue just after something was there
GROWTH: Final = 1.2  # of that pause while nothing comes
FAULT_SECONDS: Final = 5.0  # after storage or the engine could not be reached
DONE, RUN_FAILED, SET_UP_WRONG = 0, 1, 2

Committed = Callable[[], Awaitable[None]]
log = logs.get()


async def run_worker(
    storage: ExchangeStorage,
    runtime: WorkerRuntime,
    settings: Settings,
    stop: asyncio.Event,
    *,
    once: bool = False,
    abort: asyncio.Event | None = None,
    wake: asyncio.Event | None = None,
    committed: Committed | None = None,
) -> int:
    """Handle packages until `stop` is set; the exit code: 0 done, 1 the run failed (`once`), 2 set-up wrong.

    After `stop` nothing more is claimed, and what runs has `drain_seconds`; then, or when `abort` is set, it
    is ended and given back. `wake` cuts an idle pause short (a package has come), `committed` is awaited
    after each outcome: both for a scheduler in the same process.
    """
    try:
        with Instance.open(settings) as instance:
            host = Host(storage=storage, runtime=runtime, settings=settings, instance=instance)
            places = await storage.check()
            await in_thread(instance.works_on, places)
            engine = await runtime.check()
            log.info(
                "worker_started",
                worker=instance.name,
                storage=places,
                engine=engine,
                jobs=settings.worker_jobs,
            )
            worker = Worker(
                host,
                engine,
                stop,
                abort=abort or asyncio.Event(),
                wake=wake or asyncio.Event(),
                committed=committed,
            )
            return await worker.run(once=once)
    except (Misconfigured, Unavailable) as error:
        log.error("worker_cannot_start", cause=str(error), mend="`aioanalysis doctor` says how")
        return SET_UP_WRONG


class Worker:
    """Slots, what runs in them, what is being committed beside them, and what is waited for."""

    def __init__(
        self,
        host: Host,
        engine: str,
        stop: asyncio.Event,
        *,
        abort: asyncio.Event,
        wake: asyncio.Event,
        committed: Committed | None,
    ) -> None:
        settings, instance = host.settings, host.instance
        self._host = host
        self._settings = settings
        self._stop, self._abort, self._wake = stop, abort, wake
        self._committed = committed
        self._admission = Admission(settings)
        self._claims = Claims(host.storage, instance.name, settings.lease_seconds)
        self._presence = Presence(host.storage, settings, instance, runtime=host.runtime.name, engine=engine)
        self._slots = Slots(settings.worker_jobs, self._admission, self._presence, self._wake)
        self._handling: dict[asyncio.Task[End], Handling] = {}
        self._pause = BUSY_SECONDS
        self._failed = False
        self._hindered = False  # something other than an empty queue kept us from claiming
        self._doubtful = False  # the engine failed a run: ask before the next

    async def run(self, *, once: bool) -> int:
        """Raises whatever killed a side task: a worker that is only half there must end."""
        async with Tasks() as tasks:
            await clean_up(self._host)
            tasks.start(self._presence.keep(), name="presence")
            crash = tasks.start(tasks.wait_crash(), name="crash")
            try:
                code = await self._once() if once else await self._claim_on(crash)
                await self._drain()
            finally:
                await finish(self._end_runs(), name="end runs")
        await self._presence.say_goodbye()
        if crash.done() and not crash.cancelled():
            raise crash.result()
        log.info("worker_stopped", worker=self._host.instance.name)
        return RUN_FAILED if once and self._failed else code

    async def _once(self) -> int:
        claim = await self._take() if await self._may_claim() else None
        if claim is not None:
            await self._begin(claim)
        elif self._hindered:
            return SET_UP_WRONG
        while self._handling and not self._stop.is_set():
            await self._wait(set(self._handling), None)
        return DONE

    async def _claim_on(self, crash: asyncio.Task[Any]) -> int:
        while not self._stop.is_set() and not crash.done():
            claim = None
            if self._slots.free and await self._may_claim():
                claim = await self._take()
            if claim is not None:
                await self._begin(claim)
                continue
            await self._wait({*self._handling, crash}, self._next_pause() if self._slots.free else None)
        return DONE

    def _next_pause(self) -> float:
        """Grows while nothing comes; never quite the same, so that workers do not march in step."""
        pause = self._pause
        self._pause = min(self._pause * GROWTH, max(BUSY_SECONDS, self._settings.poll_interval))
        if not self._hindered:
            pause = min(pause, self._settings.poll_interval)
        return pause * random.uniform(0.8, 1.2)  # noqa: S311

    async def _wait(self, tasks: set[asyncio.Task[Any]], seconds: float | None) -> None:
        """Until one of `tasks` ends, a slot or a package is there, we are to stop, or the time has passed."""
        signals = [
            asyncio.create_task(event.wait(), name="worker signal") for event in (self._stop, self._wake)
        ]
        try:
            await asyncio.wait({*tasks, *signals}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for signal in signals:
                signal.cancel()
        if self._wake.is_set():
            self._wake.clear()
            self._pause = BUSY_SECONDS

    # --- claiming ---

    async def _may_claim(self) -> bool:
        """Room on the disk, which a run that is being committed may have filled; an engine that answers."""
        free = await in_thread(self._host.instance.free_bytes)
        reserve = max(self._settings.disk_reserve_bytes, DISK_FULL_BYTES)
        if free < reserve:
            if self._presence.state != "low_disk":
                log.error("disk_reserve_reached", free_bytes=free, reserve=reserve)
            self._presence.state = "low_disk"
            self._hindered = True
            return False
        self._hindered = False
        self._presence.state = "running"
        if self._doubtful:
            try:
                await self._host.runtime.check()
            except SystemFault as error:
                log.error("engine_unavailable", cause=str(error))
                self._put_off()
                return False
            self._doubtful = False
        return True

    async def _take(self) -> Claim | None:
        """A claim, which is never left halfway: cancelled, it is made and given back."""
        taking = asyncio.create_task(self._claims.take(self._admission), name="claim")
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            await finish(self._return(taking), name="return claim")
            raise
        except (AnalysisError, OSError) as error:
            log.error("queue_unavailable", cause=str(error))
            self._put_off()
            return None

    async def _return(self, taking: asyncio.Task[Claim | None]) -> None:
        with contextlib.suppress(AnalysisError, OSError):
            claim = await taking
            if claim is not None:
                await self._give_back(claim)

    async def _give_back(self, claim: Claim) -> None:
        self._admission.release(claim.stem)
        with contextlib.suppress(AnalysisError):
            await claim.give_back()

    def _put_off(self) -> None:
        self._hindered = True
        self._pause = FAULT_SECONDS

    async def _begin(self, claim: Claim) -> None:
        try:
            folder = self._host.instance.new_run(claim.stem, claim.package.attempt)
        except OSError as error:
            log.error("no_run_folder", cause=str(error))
            self._put_off()
            await self._give_back(claim)
            return
        slot = self._slots.take(claim)
        handling = Handling(self._host, claim, folder, slot=slot, committed=self._committed)
        log.info("package_claimed", stem=claim.stem, attempt=claim.package.attempt, bytes=claim.size)
        task = asyncio.create_task(handling.handle(), name=f"handle {claim.stem}")
        self._handling[task] = handling
        task.add_done_callback(self._ended)
        task.add_done_callback(lambda _: slot.close())
        self._pause = BUSY_SECONDS

    def _ended(self, task: asyncio.Task[End]) -> None:
        handling = self._handling.pop(task)
        self._pause = BUSY_SECONDS
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            log.error("handling_failed", stem=handling.claim.stem, exc_info=error)
        self._failed = error is not None or task.result() is not End.COMPLETE
        self._doubtful = self._doubtful or (error is None and handling.engine_failed)

    # --- stopping ---

    async def _drain(self) -> None:
        """Let runs finish, for so long; then `_end_runs` gives back what is left."""
        if not self._handling:
            return
        self._presence.state = "draining"
        log.info("worker_draining", runs=len(self._handling), seconds=self._settings.drain_seconds)
        until = time.monotonic() + self._settings.drain_seconds
        aborted = asyncio.create_task(self._abort.wait(), name="abort")
        try:
            while self._handling and not aborted.done() and (left := until - time.monotonic()) > 0:
                await asyncio.wait(
                    {*self._handling, aborted}, timeout=left, return_when=asyncio.FIRST_COMPLETED
                )
        finally:
            aborted.cancel()

    async def _end_runs(self) -> None:
        for handling in self._handling.values():
            handling.abort()
        while self._handling:
            await asyncio.wait(set(self._handling))
