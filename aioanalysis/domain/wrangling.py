"""Methods whose packages fail in a row for reasons of their own: counted over jobs, and held (PROTOCOL 6)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from aioanalysis.domain.frames import Attempt, Frame, Hold
from aioanalysis.domain.job import Job
from aioanalysis.domain.outcomes import Reason
from aioanalysis.domain.states import State

OWN_REASONS: Final = frozenset({Reason.IMAGE, Reason.METHOD})
SAYS_NOTHING: Final = frozenset({Reason.INPUT, Reason.KILLED, Reason.WORKER_LOST})
EVIDENCE_KEPT: Final = 20
WORKER_SEEN: Final = timedelta(minutes=5)
"""A worker whose last sign of life is older is not counted upon."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MethodHealth:
    """Packages of a method (of one digest) that failed in a row, each (job id, worker).

    `held_since`: what has not started is blocked since then, with `evidence`.
    """

    title: str
    digest: str | None
    failures: tuple[tuple[str, str], ...]
    held_since: datetime | None = None

    @property
    def evidence(self) -> str:
        jobs = ", ".join(dict.fromkeys(job for job, _ in self.failures))
        workers = ", ".join(sorted({worker for _, worker in self.failures}))
        return (
            f"{len(self.failures)} packages of {self.title} failed in a row (jobs {jobs}; workers {workers})"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerSeen:
    """A worker's sign of life: its name, when it was written, and the digests of its methods by title."""

    name: str
    at: datetime
    methods: Mapping[str, str]


def counted(health: MethodHealth | None, title: str, job_id: str, attempt: Attempt) -> MethodHealth | None:
    """The method's health after a run of it has ended; None: nothing is the matter.

    A run that got past the image build ends the row; so does a failure of another digest, which begins one.
    """
    error = attempt.error
    if attempt.ending not in {"failed", "complete"} or (error is not None and error.reason in SAYS_NOTHING):
        return health
    if error is None or error.reason not in OWN_REASONS:
        return None
    failure = (job_id, attempt.worker or attempt.host or "unknown")
    if health is None or health.digest != attempt.digest:
        return MethodHealth(title=title, digest=attempt.digest, failures=(failure,))
    return replace(health, failures=(*health.failures, failure)[-EVIDENCE_KEPT:])


def is_to_be_held(health: MethodHealth, limit: int, workers: Collection[WorkerSeen]) -> bool:
    """Whether its packages failed `limit` times in a row, on two workers if two are seen. 0: never."""
    failed_on = {worker for _, worker in health.failures}
    return 0 < limit <= len(health.failures) and len(failed_on) >= min(2, max(1, len(workers)))


def has_changed(health: MethodHealth, workers: Sequence[WorkerSeen]) -> bool:
    """Whether a worker seen since has another digest of the method: it is tried again."""
    digests = {
        worker.methods.get(health.title)
        for worker in workers
        if health.held_since is not None and worker.at > health.held_since
    }
    return bool(digests - {health.digest, None})


def held(job: Job, health: MethodHealth, *, by: str, now: datetime) -> Job:
    """`job` with what has not started blocked."""
    waiting = {State.WAITING, State.QUEUED}

    def hold(frame: Frame) -> Frame:
        if frame.phase not in waiting:
            return frame
        return frame.entered(State.BLOCKED, holds=frozenset({Hold.METHOD}))

    frames = job.with_frames(hold)
    if frames == job.frames:
        return job
    return job.noted("wrangle", by=by, at=now, frames=frames, note=health.evidence, wrangled=health.evidence)


def released(job: Job, *, by: str, now: datetime, note: str) -> Job:
    """`job` with what only its method held put back."""

    def release(frame: Frame) -> Frame:
        if Hold.METHOD not in frame.holds:
            return frame
        rest = frame.holds - {Hold.METHOD}
        return replace(frame, holds=rest) if rest else frame.entered(State.WAITING)

    frames = job.with_frames(release)
    return job.noted("release", by=by, at=now, frames=frames, note=note, wrangled=None)


def is_held(job: Job) -> bool:
    """Whether a run of it is blocked because of its method."""
    return any(Hold.METHOD in frame.holds for frame in job.frames)
