"""One scheduler pass: observe completely, plan, perform."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from aioanalysis import logs
from aioanalysis.aio import in_thread
from aioanalysis.domain.admission import admissions
from aioanalysis.domain.commands import Admit, Recover, Save, Work
from aioanalysis.domain.dependencies import Parent
from aioanalysis.domain.exchange import parse_stem
from aioanalysis.domain.frames import Hold
from aioanalysis.domain.job import Job, Tombstone
from aioanalysis.domain.observation import Observation
from aioanalysis.domain.planning import plan
from aioanalysis.domain.roster import UNDER_WAY, Roster
from aioanalysis.domain.states import State
from aioanalysis.errors import AnalysisError, Contested, Damaged, Missing
from aioanalysis.interfaces import Tombstones
from aioanalysis.operations import Operations
from aioanalysis.scheduler.forecasting import Forecaster
from aioanalysis.scheduler.observing import Observer
from aioanalysis.scheduler.packaging import Packager
from aioanalysis.scheduler.performing import Performer
from aioanalysis.scheduler.progress import ProgressFollower
from aioanalysis.scheduler.wrangling import Wrangler

log = logs.get()


@dataclass(frozen=True, kw_only=True, slots=True)
class PassSummary:
    """What one pass did; `live` says that something may change soon: look again after the watch interval."""

    full: bool
    jobs: int
    moved: int
    admitted: int
    live: bool
    seconds: float


class Passes:
    """Makes passes over all unfinished jobs; one instance a term of office."""

    def __init__(
        self,
        operations: Operations,
        tombstones: Tombstones,
        observer: Observer,
        performer: Performer,
        packager: Packager,
        wrangler: Wrangler,
        progress: ProgressFollower,
        forecaster: Forecaster,
        *,
        queue_limit: int,
        max_recoveries: int,
        wrangle_failures: int,
    ) -> None:
        self._operations = operations
        self._jobs = operations.jobs
        self._tombstones = tombstones
        self._observer = observer
        self._performer = performer
        self._packager = packager
        self._wrangler = wrangler
        self._progress = progress
        self._forecaster = forecaster
        self._queue_limit = queue_limit
        self._max_recoveries = max_recoveries
        self._wrangle_failures = wrangle_failures
        self._roster = Roster()

    async def run(self, *, full: bool) -> PassSummary:
        """One pass. Raises `Unavailable` when job store or storage cannot be observed; nothing is lost."""
        began, began_at = time.monotonic(), self._operations.clock()
        jobs, damaged = await self._jobs.unfinished(whole=full)
        for job_id, problem in damaged.items():
            log.error("job_damaged", job_id=job_id, problem=problem)
        self._roster.update(jobs)
        tombstones = await self._tombstones.tombstones()
        packages = await self._observer.packages()
        concerned = jobs if full else self._roster.concerned(packages.stems, self._operations.clock())
        seen = await self._observer.observe(packages, concerned, full=full)
        seen = replace(seen, parents=await self._parents(concerned, tombstones))
        now = self._operations.clock()
        strangers = await self._strangers(seen)
        work = await in_thread(
            plan,
            concerned,
            seen,
            now,
            max_recoveries=self._max_recoveries,
            wrangle_failures=self._wrangle_failures,
            strangers=strangers,
            tombstones=tombstones,
        )
        moved = await self._perform(work)
        changes = self._changes(work)
        await self._wrangler.review(changes, jobs, full=full)
        admitted = self._admit([job for job in self._roster.waiting() if job.id not in moved], seen, now)
        await self._jobs.checked(began_at)
        await self._progress.look(concerned, without=moved)
        await self._forecaster.review(changes, jobs, seen, now, busy=self._packager.busy, full=full)
        live = bool(
            admitted
            or moved
            or self._packager.busy
            or seen.claims
            or any(job.state in UNDER_WAY for job in concerned)
        )
        return PassSummary(
            full=full,
            jobs=len(jobs),
            moved=len(moved),
            admitted=len(admitted),
            live=live,
            seconds=time.monotonic() - began,
        )

    async def _parents(self, jobs: Sequence[Job], tombstones: Sequence[Tombstone]) -> Mapping[str, Parent]:
        """The jobs that blocked ones wait for, as they are now; of removed ones the final state."""
        wanted = {
            dependency.job
            for job in jobs
            if any(Hold.DEPENDENCIES in frame.holds for frame in job.frames)
            for dependency in job.after
        }
        if not wanted:
            return {}
        parents = {t.id: Parent(state=t.state, frames={}) for t in tombstones if t.id in wanted}
        known = {job_id: job for job_id in wanted if (job := self._roster.jobs.get(job_id)) is not None}
        for job_id in wanted - known.keys():
            try:
                job = await self._jobs.get(job_id)
            except Damaged:
                continue
            if job is not None:
                known[job_id] = job
        return parents | {job_id: _parent(job) for job_id, job in known.items()}

    async def _strangers(self, seen: Observation) -> dict[str, Job | None]:
        """Stems in queue or claimed that belong to no unfinished job: each with its complete job, or None."""
        strangers: dict[str, Job | None] = {}
        for stem in {*seen.queue, *seen.claims}:
            parts = parse_stem(stem)
            if parts is None or self._roster.find(stem) is not None:
                continue
            try:
                job = await self._jobs.get(parts.job_id)
            except Damaged:
                continue  # told above; its files stay
            if job is None or (stem in job.stems and job.state is State.COMPLETE):
                strangers[stem] = job
        return strangers

    async def _perform(self, work: Sequence[Work]) -> set[str]:
        """Perform each job's commands in order; one job's trouble stops only its own.

        Returns the ids of the jobs whose record was (or was to be) changed.
        """
        moved = set()
        for item in work:
            if any(isinstance(command, Save | Recover) for command in item.commands):
                moved.add(item.job_id)
            try:
                await self._performer.perform(item)
            except (Contested, Missing) as error:
                log.info("work_overtaken", job_id=item.job_id, reason=str(error))
            except AnalysisError as error:
                log.warning("work_failed", job_id=item.job_id, error=str(error))
            except Exception:
                log.exception("work_broken", job_id=item.job_id)
        return moved

    def _changes(self, work: Sequence[Work]) -> list[tuple[Job, Job]]:
        """(before, after) of each job that a plan saves."""
        return [
            (self._roster.jobs[command.job.id], command.job)
            for item in work
            for command in item.commands
            if isinstance(command, Save)
        ]

    def _admit(self, jobs: Sequence[Job], seen: Observation, now: datetime) -> Sequence[Admit]:
        admitted = admissions(jobs, seen, now, limit=self._queue_limit, busy=self._packager.busy)
        for admit in admitted:
            self._packager.admit(admit.job, admit.number)
        return admitted


def _parent(job: Job) -> Parent:
    frames = {frame.number: frame.phase for frame in job.frames if frame.number is not None}
    return Parent(state=job.state, frames=frames)
