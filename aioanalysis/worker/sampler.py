"""Watches a run from its start to its end: samples, limits, and what it says of itself meanwhile."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from aioanalysis import logs
from aioanalysis.aio import in_thread
from aioanalysis.domain.method import Limits
from aioanalysis.domain.outcomes import Reason
from aioanalysis.domain.usage import Sample
from aioanalysis.errors import JobFailure, Unavailable
from aioanalysis.interfaces import Runtime
from aioanalysis.worker.jobtree import disk_bytes

ENGINE_SECONDS: Final = 60.0  # an engine that does not answer for so long is gone
LIMIT_SECONDS: Final = 1.0  # between looks at the clock and the log's age
DISK_FULL_BYTES: Final = 1 << 20  # with no more than this left, writing fails

log = logs.get()


class Sampler:
    """Collects a run's samples. Nothing that goes wrong with one is more than a line in the log."""

    def __init__(self, runtime: Runtime, run: str) -> None:
        self._runtime = runtime
        self._run = run
        self.samples: list[Sample] = []

    async def take(self) -> None:
        try:
            sample = await self._runtime.sample(self._run)
        except Exception as error:
            log.warning("sample_failed", cause=f"{type(error).__name__}: {error}")
            return
        if sample is not None:
            self.samples.append(sample)


class Watch:
    """Runs beside the wait for a run's end, and only beside it.

    `broken` is the limit that it has ended the run for, `disk_full` whether the host had no room left.
    """

    def __init__(
        self,
        runtime: Runtime,
        run: str,
        job_dir: Path,
        limits: Limits,
        *,
        seconds: float,
        tell: Callable[[Sample | None], Awaitable[None]],
    ) -> None:
        self.sampler = Sampler(runtime, run)
        self.broken: JobFailure | None = None
        self.disk_full = False
        self.engine_gone = asyncio.Event()
        self._runtime = runtime
        self._run = run
        self._job_dir = job_dir
        self._limits = limits
        self._seconds = seconds
        self._tell = tell
        self._began = self._answered = time.monotonic()

    async def run(self) -> None:
        """Sample at once and then every so often; look at the limits in between. Ended by cancelling it."""
        sample_due = 0.0
        while True:
            if time.monotonic() >= sample_due:
                sample_due = time.monotonic() + self._seconds
                await self._sample()
            await self._guarded(self._check())
            await asyncio.sleep(max(0.0, min(LIMIT_SECONDS, sample_due - time.monotonic())))

    async def _sample(self) -> None:
        count = len(self.sampler.samples)
        await self.sampler.take()
        await self._guarded(self._check_engine(sampled=len(self.sampler.samples) > count))
        await self._guarded(self._check_output())
        samples = self.sampler.samples
        await self._guarded(self._tell(samples[-1] if samples else None))

    async def _guarded(self, work: Awaitable[None]) -> None:
        try:
            await work
        except Exception as error:
            log.warning("watch_failed", cause=f"{type(error).__name__}: {error}", exc_info=True)

    async def _check(self) -> None:
        limits, ran = self._limits, time.monotonic() - self._began
        if limits.run_seconds is not None and ran > limits.run_seconds:
            await self._end(Reason.TIME_LIMIT, f"the run limit of {limits.run_seconds:g} s was reached")
        elif limits.silence_seconds is not None and self._silence(ran) > limits.silence_seconds:
            await self._end(Reason.SILENT, f"no output came for {limits.silence_seconds:g} s")

    async def _check_engine(self, *, sampled: bool) -> None:
        try:
            if not sampled:
                await self._runtime.check()
        except Unavailable:
            if time.monotonic() - self._answered > ENGINE_SECONDS:
                self.engine_gone.set()
            raise
        self._answered = time.monotonic()

    def _silence(self, ran: float) -> float:
        try:
            last = (self._job_dir / "job.log").lstat().st_mtime
        except OSError:
            return ran
        return min(ran, time.time() - last)

    async def _check_output(self) -> None:
        if self.broken is None and (failure := await self._overgrown()) is not None:
            await self._end(Reason.DISK, failure)

    async def _overgrown(self) -> str | None:
        limit = self._limits.output_bytes
        free, used = await in_thread(_space, self._job_dir, limit)
        self.disk_full = self.disk_full or free < DISK_FULL_BYTES
        return f"the job directory grew beyond {limit} bytes" if limit is not None and used > limit else None

    async def check_left(self) -> None:
        """Of a run that has ended: whether it has left more than it may."""
        if self.broken is None and (failure := await self._overgrown()) is not None:
            self.broken = JobFailure(Reason.DISK, failure)

    async def _end(self, reason: Reason, text: str) -> None:
        if self.broken is None:
            log.warning("run_limit_reached", reason=reason.value, text=text)
            self.broken = JobFailure(reason, text)
        await self._runtime.kill(self._run)


def _space(job_dir: Path, limit: int | None) -> tuple[int, int]:
    """Bytes that are free on its disk, and those in it, counted up to `limit`; blocks."""
    used = disk_bytes(job_dir, enough=limit) if limit is not None else 0
    return shutil.disk_usage(job_dir).free, used
