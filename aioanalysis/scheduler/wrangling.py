"""Keeps the methods' health: counts ended runs, holds what has not started, releases it for a new digest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from aioanalysis import logs
from aioanalysis.domain.frames import Attempt
from aioanalysis.domain.job import Job, ended_runs
from aioanalysis.domain.planning import SCHEDULER
from aioanalysis.domain.wrangling import (
    MethodHealth,
    counted,
    has_changed,
    held,
    is_held,
    is_to_be_held,
    released,
)
from aioanalysis.errors import Contested, Missing
from aioanalysis.interfaces import ExchangeStorage, MethodHealthStore
from aioanalysis.operations import Operations
from aioanalysis.scheduler.workers import seen_lately, worker_signs

log = logs.get()


class Wrangler:
    """One scheduler's watch over methods. A fault of its own never stops a pass."""

    def __init__(self, operations: Operations, health: MethodHealthStore, *, fence: int, limit: int) -> None:
        self._operations = operations
        self._storage: ExchangeStorage = operations.storage
        self._health = health
        self._fence = fence
        self._limit = limit

    async def review(self, changed: Sequence[tuple[Job, Job]], jobs: Sequence[Job], *, full: bool) -> None:
        """Count what ended in a pass ((before, after) of its jobs), then hold or release `jobs`."""
        if not self._limit:
            return
        ended = [(after, attempt) for before, after in changed for _, attempt in ended_runs(before, after)]
        if not ended and not full:
            return
        known = dict(await self._health.method_health())
        for job, attempt in ended:
            await self._count(known, job, attempt)
        if not known:
            return
        workers = seen_lately(await worker_signs(self._storage, self._operations.clock()))
        for title, health in known.items():
            if health.held_since is not None and has_changed(health, workers):
                await self._release(title, jobs)
            elif health.held_since is not None or is_to_be_held(health, self._limit, workers):
                await self._hold(health, jobs)

    async def _count(self, known: dict[str, MethodHealth], job: Job, attempt: Attempt) -> None:
        before = known.get(job.title)
        after = counted(before, job.title, job.id, attempt)
        if after == before or (before is not None and before.held_since is not None and after is not None):
            return
        if after is None:
            known.pop(job.title, None)
            await self._health.clear_method_health(job.title)
        else:
            known[job.title] = after
            await self._health.set_method_health(after)

    async def _hold(self, health: MethodHealth, jobs: Sequence[Job]) -> None:
        now = self._operations.clock()
        if health.held_since is None:
            health = replace(health, held_since=now)
            await self._health.set_method_health(health)
            log.warning("method_held", title=health.title, evidence=health.evidence)
        for job in jobs:
            if job.title == health.title:
                await self._change(job, lambda job: held(job, health, by=SCHEDULER, now=now))

    async def _release(self, title: str, jobs: Sequence[Job]) -> None:
        await self._health.clear_method_health(title)
        log.info("method_released", title=title)
        now, note = self._operations.clock(), "a worker has another version of the method"
        for job in jobs:
            if job.title == title and is_held(job):
                await self._change(job, lambda job: released(job, by=SCHEDULER, now=now, note=note))

    async def _change(self, job: Job, change: Callable[[Job], Job]) -> None:
        def decide(now: Job) -> Job | None:
            changed = change(now)
            return None if changed is now else changed

        try:
            await self._operations.change(job.id, decide, fence=self._fence)
        except (Contested, Missing):
            log.info("wrangling_overtaken", job_id=job.id)
