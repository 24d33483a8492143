"""The scheduler's loop: passes under the lock, soon after anything happens and at least every interval."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from aioanalysis import logs
from aioanalysis.aio import Tasks
from aioanalysis.errors import AnalysisError
from aioanalysis.interfaces import (
    Bell,
    Holding,
    MethodHealthStore,
    Outlooks,
    ProgressBoard,
    RecordStore,
    SchedulerLock,
    Tombstones,
)
from aioanalysis.operations import Operations
from aioanalysis.scheduler.forecasting import Forecaster
from aioanalysis.scheduler.observing import Observer
from aioanalysis.scheduler.packaging import Packager
from aioanalysis.scheduler.passes import Passes
from aioanalysis.scheduler.performing import Performer
from aioanalysis.scheduler.progress import ProgressFollower
from aioanalysis.scheduler.wrangling import Wrangler

QUICK: Final = 0.125
SLOWING: Final = 1.25
REST: Final = 3.0
"""Times as long as it took is waited after a quick pass: passes take a quarter of a busy core at most."""

AFTER_FAULT: Final = 1.0
log = logs.get()


@dataclass(frozen=True, kw_only=True, slots=True)
class Cadence:
    """How often passes are made, in seconds, and the limits they keep."""

    pass_interval: float
    watch_interval: float
    queue_limit: int
    packaging_tasks: int
    max_recoveries: int
    wrangle_failures: int
    lease_seconds: int
    lease_grace_seconds: float
    spool: Path


class Scheduler:
    """Runs passes for as long as it holds the lock; `run` returns when `stop` is set."""

    def __init__(
        self,
        operations: Operations,
        tombstones: Tombstones,
        health: MethodHealthStore,
        progress: ProgressBoard,
        outlooks: Outlooks,
        records: RecordStore,
        lock: SchedulerLock,
        bell: Bell,
        cadence: Cadence,
        *,
        packaged: Callable[[], None] | None = None,
    ) -> None:
        """`packaged` is called after each upload of a package: for a worker in the same process."""
        self._operations = operations
        self._packaged = packaged
        self._tombstones = tombstones
        self._health = health
        self._progress = progress
        self._outlooks = outlooks
        self._records = records
        self._lock = lock
        self._bell = bell
        self._cadence = cadence
        self.last_pass: datetime | None = None
        """When this process last finished a pass; None if it never did."""
        self.pass_seconds: float | None = None
        """How long that one took."""

    async def run(self, stop: asyncio.Event) -> None:
        """Take the lock and make passes, term after term; passing faults are waited out."""
        while not stop.is_set():
            try:
                async with self._lock.hold() as holding:
                    log.info("scheduler_leads", fence=holding.fence)
                    await self._term(holding, stop)
            except AnalysisError as error:
                log.warning("scheduler_waits", error=str(error))
                await self._pause(AFTER_FAULT, stop)

    async def _term(self, holding: Holding, stop: asyncio.Event) -> None:
        async with Tasks() as tasks:
            passes = self.passes(holding, tasks)
            pace = Pace(self._cadence)
            while not stop.is_set() and not holding.lost:
                full = pace.full_is_due()
                began = time.monotonic()
                try:
                    summary = await passes.run(full=full)
                except AnalysisError as error:
                    log.warning("pass_failed", full=full, error=str(error))
                    pace.failed()
                except Exception:
                    log.exception("pass_broken", full=full)
                    pace.failed()
                else:
                    self.last_pass = self._operations.clock()
                    self.pass_seconds = time.monotonic() - began
                    moved = summary.moved + summary.admitted
                    pace.passed(full=full, live=summary.live, moved=moved, seconds=self.pass_seconds)
                    log.debug("pass_finished", **asdict(summary))
                if await self._wait(pace.interval(), holding, stop):
                    pace.rung()

    def passes(self, holding: Holding, tasks: Tasks) -> Passes:
        """The passes of one term of office; packages are made in `tasks`."""
        cadence = self._cadence
        observer = Observer(self._operations.storage, grace_seconds=cadence.lease_grace_seconds)
        performer = Performer(
            self._operations,
            self._tombstones,
            observer,
            fence=holding.fence,
            lease_seconds=cadence.lease_seconds,
        )
        packager = Packager(
            self._operations,
            self._records,
            tasks,
            fence=holding.fence,
            spool=cadence.spool,
            limit=cadence.packaging_tasks,
            packaged=self._packaged,
        )
        wrangler = Wrangler(
            self._operations, self._health, fence=holding.fence, limit=cadence.wrangle_failures
        )
        return Passes(
            self._operations,
            self._tombstones,
            observer,
            performer,
            packager,
            wrangler,
            ProgressFollower(self._operations.storage, self._progress),
            Forecaster(self._outlooks, self._operations.storage),
            queue_limit=cadence.queue_limit,
            max_recoveries=cadence.max_recoveries,
            wrangle_failures=cadence.wrangle_failures,
        )

    async def _wait(self, seconds: float, holding: Holding, stop: asyncio.Event) -> bool:
        """Wait for the bell, the end of the interval, the loss of the lock or the stop; whether it rang."""
        bell = asyncio.create_task(self._bell.wait(seconds), name="wait for the bell")
        ends = [
            asyncio.create_task(stop.wait(), name="wait for the stop"),
            asyncio.create_task(holding.wait_lost(), name="wait for the lock's loss"),
        ]
        try:
            await asyncio.wait([bell, *ends], return_when=asyncio.FIRST_COMPLETED)
            return bell.done() and not bell.cancelled() and bell.exception() is None and bell.result()
        finally:
            for task in (bell, *ends):
                task.cancel()
            await asyncio.gather(bell, *ends, return_exceptions=True)

    async def _pause(self, seconds: float, stop: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(seconds):
                await stop.wait()
        except TimeoutError:
            pass


class Pace:
    """When the next pass is due: quick after a change, slowing to the watch interval, or idle."""

    def __init__(self, cadence: Cadence) -> None:
        self._cadence = cadence
        self._next_full = 0.0
        self._interval = 0.0
        self._quickest = QUICK

    def full_is_due(self) -> bool:
        return time.monotonic() >= self._next_full

    def passed(self, *, full: bool, live: bool, moved: int, seconds: float) -> None:
        """A pass of so many seconds ended; `moved` says how much it changed, `live` whether more may soon."""
        if full:
            self._next_full = time.monotonic() + self._cadence.pass_interval
        else:
            self._quickest = min(max(QUICK, REST * seconds), self._cadence.watch_interval)
        if moved:
            self.rung()
        elif live:
            self._interval = min(max(self._interval, self._quickest) * SLOWING, self._cadence.watch_interval)
        else:
            self._interval = self._cadence.pass_interval

    def failed(self) -> None:
        self._interval = min(max(self._interval, self._quickest) * 2, self._cadence.watch_interval)

    def rung(self) -> None:
        self._interval = min(self._quickest, self._cadence.watch_interval)

    def interval(self) -> float:
        """Seconds to wait now; never past the next full pass."""
        return max(0.0, min(self._interval, self._next_full - time.monotonic()))
