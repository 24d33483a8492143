"""The unfinished jobs as a pass finds them, and which of them it has to look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from aioanalysis.domain.exchange import parse_stem
from aioanalysis.domain.frames import Hold, aggregate
from aioanalysis.domain.job import Job
from aioanalysis.domain.states import State

UNDER_WAY: Final = frozenset({State.QUEUED, State.RUNNING, State.FAILING, State.RETRYING})


class Roster:
    """Kept from pass to pass: what is known of a job is worked out anew only when its record has changed."""

    def __init__(self) -> None:
        self.jobs: Mapping[str, Job] = {}
        """By id, oldest first."""
        self._restless: set[str] = set()
        self._waiting: set[str] = set()
        self._deadline: datetime | None = None
        """No run that has not ended has an earlier one."""

    def update(self, jobs: Sequence[Job]) -> None:
        """These are all now; one that has not changed is the same object."""
        before, self.jobs = self.jobs, {job.id: job for job in jobs}
        self._restless &= self.jobs.keys()
        self._waiting &= self.jobs.keys()
        for job in jobs:
            if before.get(job.id) is not job:
                self._enter(job)

    def _enter(self, job: Job) -> None:
        for ids, belongs in ((self._restless, not _rests(job)), (self._waiting, _waits(job))):
            (ids.add if belongs else ids.discard)(job.id)
        if _is_unfinished(job) and (self._deadline is None or job.deadline < self._deadline):
            self._deadline = job.deadline

    def find(self, stem: str) -> Job | None:
        """The job with a run of this stem."""
        parts = parse_stem(stem)
        job = None if parts is None else self.jobs.get(parts.job_id)
        return job if job is not None and stem in job.stems else None

    def waiting(self) -> list[Job]:
        """Those with a run that waits for room in the queue."""
        return [self.jobs[job_id] for job_id in self._waiting]

    def concerned(self, stems: Iterable[str], now: datetime) -> list[Job]:
        """Those that something may become of: under way, tied to other jobs, overdue, or with one of `stems`.

        All others rest: of a job that waits for its turn, is held or has ended, and has no package anywhere,
        there is nothing to be said before its record changes or a result appears.
        """
        wanted = self._restless | self._overdue(now)
        wanted |= {job.id for job in map(self.find, stems) if job is not None}
        return [self.jobs[job_id] for job_id in wanted]

    def _overdue(self, now: datetime) -> set[str]:
        if self._deadline is None or now < self._deadline:
            return set()
        unfinished = [job for job in self.jobs.values() if _is_unfinished(job)]
        self._deadline = min((job.deadline for job in unfinished if now < job.deadline), default=None)
        late = {job.id for job in unfinished if job.deadline <= now}
        self._restless |= late
        return late


def _rests(job: Job) -> bool:
    if job.state in UNDER_WAY or (job.state is not State.KILLED and job.state is not aggregate(job.frames)):
        return False
    return all(Hold.DEPENDENCIES not in frame.holds for frame in job.frames)


def _is_unfinished(job: Job) -> bool:
    return not all(frame.is_finished for frame in job.frames)


def _waits(job: Job) -> bool:
    return any(frame.phase is State.WAITING for frame in job.frames)
