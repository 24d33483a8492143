"""Figures over all recorded jobs: states, failures, throughput, waiting times and who uses how much."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from aioanalysis.domain import foreign
from aioanalysis.domain.job import Job
from aioanalysis.domain.outcomes import Reason
from aioanalysis.domain.states import FINISHED, State

WINDOW: Final = timedelta(days=7)
HOUR: Final = timedelta(hours=1)
SUBMITTERS_MAX: Final = 500
FAILURES_MAX: Final = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """Seconds from submission to the first run's start, over `jobs` jobs."""

    jobs: int
    median: float
    p95: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Bucket:
    """A stretch of time: jobs submitted, jobs ended by how, and what those had waited that began in it."""

    start: datetime
    submitted: int
    ended: dict[State, int]
    waiting: Waiting | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """Runs that have failed for good, by method and reason; `last_job` is the one that failed last."""

    title: str
    reason: Reason
    runs: int
    jobs: int
    last_at: datetime
    last_job: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """One submitter's jobs, and what their runs used, failed ones too; what is not known counts as none."""

    submitter: str
    unfinished: int
    ended: int
    failed: int
    cpu_seconds: float
    run_seconds: float
    result_bytes: int


@dataclass(slots=True)
class _Hour:
    submitted: int = 0
    ended: Counter[State] = field(default_factory=Counter)
    waits: array[float] = field(default_factory=lambda: array("d"))


@dataclass(slots=True)
class _Failure:
    runs: int = 0
    jobs: int = 0
    last: tuple[datetime, str] | None = None


@dataclass(slots=True)
class _Load:
    unfinished: int = 0
    ended: int = 0
    failed: int = 0
    cpu_seconds: float = 0.0
    run_seconds: float = 0.0
    result_bytes: int = 0


class Tally:
    """Takes jobs one by one, keeps counts and the waiting times, by hours of the 7 days before `now`."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.jobs = 0
        self.states: Counter[State] = Counter()
        self._since = now - WINDOW
        self._hours: dict[int, _Hour] = defaultdict(_Hour)
        self._failures: dict[tuple[str, Reason], _Failure] = defaultdict(_Failure)
        self._loads: dict[str, _Load] = defaultdict(_Load)

    def add(self, job: Job) -> None:
        self.jobs += 1
        self.states[job.state] += 1
        self._add_times(job)
        self._add_failures(job)
        self._add_load(job)

    def _add_times(self, job: Job) -> None:
        if (hour := self._hour(job.submitted_at)) is not None:
            hour.submitted += 1
        if job.state in FINISHED and (hour := self._hour(job.state_changed_at)) is not None:
            hour.ended[job.state] += 1
        started = first_start(job)
        if started is not None and (hour := self._hour(started)) is not None:
            hour.waits.append(max(0.0, (started - job.submitted_at).total_seconds()))

    def _hour(self, at: datetime) -> _Hour | None:
        """None outside of the window, the future included (clocks differ)."""
        return self._hours[_index(at)] if self._since < at <= self.now else None

    def _add_failures(self, job: Job) -> None:
        reasons = Counter(
            frame.error.reason for frame in job.frames if frame.phase is State.FAILED and frame.error
        )
        for reason, runs in reasons.items():
            failure = self._failures[job.title, reason]
            failure.runs += runs
            failure.jobs += 1
            last = (job.state_changed_at, job.id)
            failure.last = max(failure.last, last) if failure.last else last

    def _add_load(self, job: Job) -> None:
        load = self._loads[job.submitter]
        if job.state in FINISHED:
            load.ended += 1
            load.failed += job.state is State.FAILED
        else:
            load.unfinished += 1
        for frame in job.frames:
            for attempt in frame.attempts:
                load.result_bytes += attempt.result_bytes or 0
                if attempt.usage is not None:
                    load.cpu_seconds += attempt.usage.cpu_seconds or 0.0
                    load.run_seconds += attempt.usage.wall_seconds or 0.0

    # --- what it has come to ---

    def buckets(self, hours: int) -> list[Bucket]:
        """The window in stretches of so many hours, whole ones by UTC, oldest first; empty ones too."""
        first, last = _index(self._since) // hours, _index(self.now) // hours
        return [
            _bucket(number, hours, [self._hours[h] for h in _span(number, hours) if h in self._hours])
            for number in range(first, last + 1)
        ]

    def waiting(self) -> Waiting | None:
        """Over the whole window; None when no job has begun in it."""
        return _waiting(hour.waits for hour in self._hours.values())

    def failures(self) -> list[Failure]:
        """Those with the most runs first."""
        found = [
            Failure(
                title=title,
                reason=reason,
                runs=one.runs,
                jobs=one.jobs,
                last_at=one.last[0],
                last_job=one.last[1],
            )
            for (title, reason), one in self._failures.items()
            if one.last is not None
        ]
        return sorted(found, key=lambda one: (-one.runs, one.title, one.reason))[:FAILURES_MAX]

    def loads(self) -> list[Load]:
        """Those with the most unfinished jobs first, then by CPU time."""
        found = [
            Load(
                submitter=submitter,
                unfinished=one.unfinished,
                ended=one.ended,
                failed=one.failed,
                cpu_seconds=round(one.cpu_seconds, 3),
                run_seconds=round(one.run_seconds, 3),
                result_bytes=one.result_bytes,
            )
            for submitter, one in self._loads.items()
        ]
        return sorted(found, key=lambda one: (-one.unfinished, -one.cpu_seconds, one.submitter))[
            :SUBMITTERS_MAX
        ]


def first_start(job: Job) -> datetime | None:
    """When the first of its runs began: as its worker says, else when a pass first saw it running."""
    told = [foreign.moment(attempt.started_at) for frame in job.frames for attempt in frame.attempts]
    seen = next((event.at for event in job.history if event.to_state is State.RUNNING), None)
    return min((at for at in (*told, seen) if at is not None), default=None)


def _index(at: datetime) -> int:
    return int(at.timestamp() // HOUR.total_seconds())


def _span(number: int, hours: int) -> range:
    return range(number * hours, (number + 1) * hours)


def _bucket(number: int, hours: int, parts: Sequence[_Hour]) -> Bucket:
    ended: Counter[State] = Counter()
    for part in parts:
        ended.update(part.ended)
    return Bucket(
        start=datetime.fromtimestamp(number * hours * HOUR.total_seconds(), UTC),
        submitted=sum(part.submitted for part in parts),
        ended=dict(ended),
        waiting=_waiting(part.waits for part in parts),
    )


def _waiting(parts: Iterable[array[float]]) -> Waiting | None:
    """Median and 95th percentile, each a time that a job did wait (the nearest rank)."""
    waits = sorted(wait for part in parts for wait in part)
    if not waits:
        return None
    return Waiting(jobs=len(waits), median=_ranked(waits, 50), p95=_ranked(waits, 95))


def _ranked(waits: Sequence[float], percent: int) -> float:
    return waits[max(0, -(-len(waits) * percent // 100) - 1)]
