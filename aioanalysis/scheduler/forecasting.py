"""Foresees when waiting jobs start and end, for those who ask why theirs is not finished."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from aioanalysis import logs
from aioanalysis.aio import in_thread
from aioanalysis.domain.admission import Run, line
from aioanalysis.domain.job import Job
from aioanalysis.domain.observation import Observation
from aioanalysis.domain.outlook import Farm, Outlook, PastRun, outlooks, past_runs, remembered
from aioanalysis.errors import AnalysisError
from aioanalysis.interfaces import ExchangeStorage, Outlooks
from aioanalysis.scheduler.workers import farm_of, worker_signs

FEW: Final = 1_000
"""So many unfinished jobs are foreseen anew in any pass that changed something; more in full passes only."""

log = logs.get()


class Forecaster:
    """One scheduler's foresight. A fault of its own never stops a pass: it is made good by the next."""

    def __init__(self, outlooks: Outlooks, storage: ExchangeStorage) -> None:
        self._outlooks = outlooks
        self._storage = storage
        self._past: dict[str, Sequence[PastRun]] | None = None
        self._farm = Farm()
        self._places: Mapping[str, object] | None = None

    async def review(
        self,
        changed: Sequence[tuple[Job, Job]],
        jobs: Sequence[Job],
        seen: Observation,
        now: datetime,
        *,
        busy: Collection[Run],
        full: bool,
    ) -> None:
        """Remember the runs that ended in a pass ((before, after) of its jobs), and foresee `jobs`."""
        try:
            past = await self._remember(changed)
            if full or (jobs and not self._farm.workers):  # one that has just come is not to be missed
                self._farm = farm_of(await worker_signs(self._storage, now))
            if full or len(jobs) <= FEW:
                await self._foresee(jobs, seen, now, past, busy=busy, full=full)
        except AnalysisError as error:
            log.warning("forecast_failed", error=str(error))

    async def _remember(self, changed: Sequence[tuple[Job, Job]]) -> Mapping[str, Sequence[PastRun]]:
        if self._past is None:
            self._past = dict(await self._outlooks.past_runs())
        for before, after in changed:
            new = tuple(past_runs(before, after))
            if new:
                self._past[after.title] = remembered(self._past.get(after.title, ()), new)
                await self._outlooks.set_past_runs(after.title, self._past[after.title])
        return self._past

    async def _foresee(
        self,
        jobs: Sequence[Job],
        seen: Observation,
        now: datetime,
        past: Mapping[str, Sequence[PastRun]],
        *,
        busy: Collection[Run],
        full: bool,
    ) -> None:
        def work() -> dict[str, Outlook]:
            waiting = line(jobs, seen, now, busy=busy)
            return outlooks(jobs, seen, now, line=waiting, past=past, farm=self._farm)

        found = await in_thread(work)
        places = {
            job_id: (outlook.phase, outlook.position, outlook.workers) for job_id, outlook in found.items()
        }
        if full or places != self._places:
            await self._outlooks.foretell(found)
            self._places = places
