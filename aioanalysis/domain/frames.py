"""One run of a job, and how the states of many make the job's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from aioanalysis.domain.outcomes import JobError
from aioanalysis.domain.states import FINISHED, State
from aioanalysis.domain.usage import Usage

ATTEMPTS_KEPT: Final = 20


class Hold(StrEnum):
    """What keeps a run blocked; it starts when nothing does."""

    DEPENDENCIES = "dependencies"
    USER = "user"
    WRANGLED = "wrangled"  # too many frames of this job have failed in a row
    METHOD = "method"  # too many packages of its method have failed in a row


@dataclass(frozen=True, kw_only=True, slots=True)
class Packaging:
    """The intent to package: which scheduler (by its lock's fencing number) is at it, since when."""

    fence: int
    since: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Postponement:
    """Records that could not be had for now: tried `tries` times, not again before `until`."""

    until: datetime
    tries: int
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """A run that is over: `ending` is complete, failed, lost, interrupted or killed.

    `host` is the analysis host, `worker` the worker's name, `digest` that of the method as it had it,
    `result_bytes` the size of the package that the run left.
    """

    number: int
    ending: str
    digest: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    host: str | None = None
    worker: str | None = None
    exit_code: int | None = None
    error: JobError | None = None
    usage: Usage | None = None
    result_bytes: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A frame's share of a split: its field's value, and the bytes of the snapshot that hold it."""

    start: int
    end: int
    records: int
    value: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """One run: a frame of a job, or (without a number) the only one.

    `phase` is a state other than failing and retrying; `state` is what is shown. `attempt` is the number of
    the attempt that counts: all that an earlier one leaves is stale.
    """

    number: int | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    part: Part | None = None
    phase: State = State.WAITING
    holds: frozenset[Hold] = frozenset()
    attempt: int = 1
    recoveries: int = 0
    retried: int = 0
    packaged_count: int | None = None
    packaging: Packaging | None = None
    postponed: Postponement | None = None
    error: JobError | None = None
    usage: Usage | None = None
    attempts: tuple[Attempt, ...] = ()

    @property
    def state(self) -> State:
        """Its phase, but `retrying` while it is under way again after an automatic retry."""
        under_way = self.phase in {State.WAITING, State.QUEUED, State.RUNNING}
        return State.RETRYING if under_way and self.retried else self.phase

    @property
    def is_finished(self) -> bool:
        return self.phase in FINISHED

    @property
    def left_failed_package(self) -> bool:
        """Whether it failed in a run: without one, as for want of records, there is no package."""
        over = (attempt for attempt in self.attempts if attempt.number == self.attempt)
        return self.phase is State.FAILED and any(attempt.ending == "failed" for attempt in over)

    def entered(self, phase: State, **changes: Any) -> Frame:
        """A copy in `phase`; what only matters to an earlier phase is cleared."""
        cleared: dict[str, Any] = {"packaging": None, "postponed": None}
        if phase is not State.BLOCKED:
            cleared["holds"] = frozenset()
        if phase not in FINISHED:
            cleared["error"] = None
        return replace(self, phase=phase, **{**cleared, **changes})

    def ended(self, attempt: Attempt) -> tuple[Attempt, ...]:
        """Its attempts with one more."""
        return (*self.attempts, attempt)[-ATTEMPTS_KEPT:]


def aggregate(frames: Sequence[Frame]) -> State:
    """The state of a job from its runs: the first rule that matches (PROTOCOL.md section 5)."""
    phases = [frame.phase for frame in frames]
    unfinished = [frame for frame in frames if not frame.is_finished]
    if all(phase is State.COMPLETE for phase in phases):
        return State.COMPLETE
    if not unfinished:
        return State.FAILED if State.FAILED in phases else State.KILLED
    if all(frame.phase is State.BLOCKED for frame in unfinished):
        return State.BLOCKED
    if State.FAILED in phases:
        return State.FAILING
    if any(frame.retried and frame.phase is not State.BLOCKED for frame in unfinished):
        return State.RETRYING
    if State.RUNNING in phases or State.COMPLETE in phases:
        return State.RUNNING
    return State.QUEUED if State.QUEUED in phases else State.WAITING
