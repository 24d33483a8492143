"""When waiting runs may start and end: their places in line, and how long earlier runs of a method took."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import inf
from statistics import median
from typing import Final

from aioanalysis.domain.commands import Admit
from aioanalysis.domain.frames import Attempt, Frame
from aioanalysis.domain.job import Job, ended_runs
from aioanalysis.domain.observation import Observation
from aioanalysis.domain.states import State

RUNS_KEPT: Final = 100
NEIGHBOURS: Final = 5
"""An expectation is the median of so many earlier runs, those nearest in their number of records."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PastRun:
    """A complete run of a method: how many records it had, and how long it took."""

    records: int | None
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Outlook:
    """What lies before a job's next run in `phase` (waiting, queued or running); unknown is None.

    `position` counts from 1 among those that wait for the same thing. `finishes` is of the job's last run.
    `workers` is how many are there; of none, `seen_at` is when the last of them gave a sign of life.
    """

    phase: State
    position: int | None = None
    starts: datetime | None = None
    finishes: datetime | None = None
    workers: int | None = None
    seen_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Farm:
    """The workers that are there: how many, their slots in all; `seen_at`: the newest sign of any."""

    workers: int = 0
    slots: int = 0
    seen_at: datetime | None = None


def expected_seconds(past: Sequence[PastRun], records: int | None) -> float | None:
    """How long a run over so many records may take; None without an earlier run to tell it by.

    A number of records that is not known is like all others.
    """
    if records is None:
        near = list(past)
    else:
        known = [run for run in past if run.records is not None]
        near = heapq.nsmallest(NEIGHBOURS, known, key=lambda run: abs((run.records or 0) - records))
    return median(run.seconds for run in near) if near else None


def past_runs(before: Job, after: Job) -> Iterator[PastRun]:
    """The runs that became complete between two versions of a job."""
    for frame, attempt in ended_runs(before, after):
        seconds = _seconds(attempt)
        if attempt.ending == "complete" and seconds:
            yield PastRun(records=frame.packaged_count, seconds=seconds)


def remembered(past: Sequence[PastRun], new: Iterable[PastRun]) -> tuple[PastRun, ...]:
    """`past` with `new` ones behind, the oldest dropped."""
    return (*past, *new)[-RUNS_KEPT:]


def outlooks(
    jobs: Sequence[Job],
    seen: Observation,
    now: datetime,
    *,
    line: Iterable[Admit],
    past: Mapping[str, Sequence[PastRun]],
    farm: Farm,
) -> dict[str, Outlook]:
    """The outlook of each job by id, of those whose next run is waiting in `line`, queued or running.

    Workers' slots are handed out in order, what runs first, then the queue by age, then `line`; behind a run
    of unknown length nothing is known of any time.
    """
    forecast = _Forecast(now, past, farm)
    runs = {job.stem(frame): (job, frame) for job in jobs for frame in job.frames if not frame.is_finished}
    for stem, claim in sorted(seen.claims.items(), key=lambda item: item[1].since or now):
        if stem in runs:
            forecast.runs(*runs[stem], since=claim.since or now)
    queue = sorted(seen.queue.items(), key=lambda item: (item[1].since or now, item[0]))
    for stem, _ in queue:
        if stem in runs and stem not in seen.claims:
            forecast.waits(*runs[stem], State.QUEUED)
    for admit in line:
        frame = admit.job.frame(admit.number)
        if frame is not None:
            forecast.waits(admit.job, frame, State.WAITING)
    return forecast.told({job.id: job for job in jobs})


class _Forecast:
    """Slots handed out so far: in how many seconds each comes free, infinity where nobody knows."""

    def __init__(self, now: datetime, past: Mapping[str, Sequence[PastRun]], farm: Farm) -> None:
        self._now = now
        self._past = past
        self._farm = farm
        self._free = [0.0] * farm.slots
        self._ahead: Counter[State] = Counter()
        self._lengths: dict[tuple[str, int | None], float] = {}
        self._found: dict[str, Outlook] = {}
        self._ends: dict[str, list[float]] = {}

    def runs(self, job: Job, frame: Frame, *, since: datetime) -> None:
        left = self._length(job, frame) - (self._now - since).total_seconds()
        if left < 0:
            left = inf  # it takes longer than others did, nobody knows how much
        if self._free:
            heapq.heapreplace(self._free, left)  # it has a slot already, one that we took for free
        self._tell(job, Outlook(phase=State.RUNNING), left)

    def waits(self, job: Job, frame: Frame, phase: State) -> None:
        self._ahead[phase] += 1
        start = self._free[0] if self._free else inf
        end = start + self._length(job, frame)
        if self._free:
            heapq.heapreplace(self._free, end)
        outlook = Outlook(
            phase=phase,
            position=self._ahead[phase],
            starts=self._at(start),
            workers=self._farm.workers,
            seen_at=None if self._farm.workers else self._farm.seen_at,
        )
        self._tell(job, outlook, end)

    def told(self, jobs: Mapping[str, Job]) -> dict[str, Outlook]:
        """What was found. The end of a job is known only if that of each of its unfinished runs is."""
        told = {}
        for job_id, outlook in self._found.items():
            unfinished = sum(not frame.is_finished for frame in jobs[job_id].frames)
            ends = self._ends[job_id]
            finishes = self._at(max(ends)) if len(ends) == unfinished else None
            told[job_id] = replace(outlook, finishes=finishes)
        return told

    def _length(self, job: Job, frame: Frame) -> float:
        records = frame.packaged_count if frame.packaged_count is not None else job.record_count
        place = (job.title, records)
        if place not in self._lengths:
            seconds = expected_seconds(self._past.get(job.title, ()), records)
            self._lengths[place] = inf if seconds is None else seconds
        return self._lengths[place]

    def _tell(self, job: Job, outlook: Outlook, end: float) -> None:
        self._found.setdefault(job.id, outlook)
        self._ends.setdefault(job.id, []).append(end)

    def _at(self, seconds: float) -> datetime | None:
        return None if seconds == inf else self._now + timedelta(seconds=seconds)


def _seconds(attempt: Attempt) -> float | None:
    """How long a worker had it."""
    try:
        began = datetime.fromisoformat(attempt.started_at or "")
        ended = datetime.fromisoformat(attempt.finished_at or "")
        return max((ended - began).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return attempt.usage.wall_seconds if attempt.usage is not None else None
