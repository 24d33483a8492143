"""The job record: what a client asked for, where it stands, and what has happened to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal

from aioanalysis.domain.dependencies import Dependency
from aioanalysis.domain.frames import Attempt, Frame, aggregate
from aioanalysis.domain.outcomes import JobError
from aioanalysis.domain.records import Selection
from aioanalysis.domain.states import State
from aioanalysis.domain.usage import Usage

HISTORY_LENGTH: Final = 50
ID_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
ID_LENGTH: Final = 8
ID_CHARACTERS: Final = frozenset(ID_ALPHABET)
FRAMES_MAX: Final = 1000


def is_job_id(text: str) -> bool:
    """Whether `text` is 8 characters of lower-case Crockford base32."""
    return len(text) == ID_LENGTH and ID_CHARACTERS.issuperset(text)


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Where a job's records come from; `value` is the recordset code, set token or attachment's id.

    `lost`: of a job made again from storage; its source and its submitter's key are not known.
    """

    kind: Literal["recordset", "set_token", "attached", "lost"]
    value: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """How records are parted into frames: chunks of `records`, or one a distinct value of field `by`."""

    records: int | None = None
    by: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryEvent:
    """One thing that happened to a job; `by` is a user, `scheduler` or `api`. `note` is for people."""

    at: datetime
    event: str
    from_state: State | None
    to_state: State
    by: str
    note: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One job. Frozen: every change is a copy. `version` is the job store's token for compare-and-set.

    `frames` are its runs: one without a number, or frames 1 to N. `state` is worked out from them. A job with
    `split` has one run without a number until its records have been fetched and cut.
    """

    id: str
    uid: str
    title: str
    params: Mapping[str, Any]
    source: Source
    submitter: str
    submitted_at: datetime
    expires_at: datetime
    deadline: datetime
    state_changed_at: datetime
    last_updated: datetime
    selection: Selection | None = None
    record_count: int | None = None
    tags: tuple[str, ...] = ()
    split: Split | None = None
    after: tuple[Dependency, ...] = ()
    retries: int = 0
    resubmitted_from: str | None = None
    state: State = State.WAITING
    frames: tuple[Frame, ...] = field(default=(Frame(),))
    failures_in_row: int = 0
    wrangled: str | None = None
    history: tuple[HistoryEvent, ...] = field(default=())
    version: str = ""

    # --- names ---

    @property
    def name(self) -> str:
        """`<title>.<id>`: what the names of all the job's files begin with."""
        return f"{self.title}.{self.id}"

    def stem(self, frame: Frame) -> str:
        """The stem of one of its runs."""
        return self.name if frame.number is None else f"{self.name}-{frame.number}"

    @property
    def stems(self) -> tuple[str, ...]:
        """Of all its runs, in order."""
        return tuple(self.stem(frame) for frame in self.frames)

    # --- its runs, taken together ---

    @property
    def has_frames(self) -> bool:
        return self.frames[0].number is not None

    @property
    def is_uncut(self) -> bool:
        """Whether its records are still to be split into frames."""
        return self.split is not None and not self.has_frames

    def frame(self, number: int | None) -> Frame | None:
        """The run with this number."""
        return next((frame for frame in self.frames if frame.number == number), None)

    @property
    def packaged_count(self) -> int | None:
        """Records packaged: of frames over the same records those of one, of a split's the sum."""
        counts = [frame.packaged_count for frame in self.frames if frame.packaged_count is not None]
        if not counts:
            return None
        return sum(counts) if self.split is not None else max(counts)

    @property
    def error(self) -> JobError | None:
        """Of its only run, or of the first frame that failed, naming it."""
        for frame in self.frames:
            if frame.error is not None and (frame.number is None or frame.phase is not State.COMPLETE):
                number = frame.number
                message = frame.error.message if number is None else f"frame {number}: {frame.error.message}"
                return replace(frame.error, message=message)
        return None

    @property
    def usage(self) -> Usage | None:
        """Of its only run; that of frames is told by each."""
        return None if self.has_frames else self.frames[0].usage

    @property
    def attempt(self) -> int:
        """The highest attempt of its runs."""
        return max(frame.attempt for frame in self.frames)

    @property
    def recoveries(self) -> int:
        """How often a package of a lost worker was put back, over all its runs."""
        return sum(frame.recoveries for frame in self.frames)

    # --- changes ---

    def noted(
        self,
        event: str,
        *,
        by: str,
        at: datetime,
        frames: Iterable[Frame] | None = None,
        state: State | None = None,
        note: str | None = None,
        **changes: Any,
    ) -> Job:
        """A copy with these frames, their aggregate (or `state`) as state, and the event in its history."""
        runs = self.frames if frames is None else tuple(frames)
        to = aggregate(runs) if state is None else state
        entry = HistoryEvent(at=at, event=event, from_state=self.state, to_state=to, by=by, note=note)
        return replace(
            self,
            frames=runs,
            state=to,
            state_changed_at=at if to is not self.state else self.state_changed_at,
            history=(*self.history, entry)[-HISTORY_LENGTH:],
            **changes,
        )

    def with_frame(self, changed: Frame) -> tuple[Frame, ...]:
        """Its runs with `changed` in the place of the one with its number."""
        return tuple(changed if frame.number == changed.number else frame for frame in self.frames)

    def with_frames(self, change: Callable[[Frame], Frame]) -> tuple[Frame, ...]:
        """Its runs, each changed."""
        return tuple(change(frame) for frame in self.frames)


def ended_runs(before: Job, after: Job) -> Iterator[tuple[Frame, Attempt]]:
    """The runs that ended between two versions of a job, each with its frame as it is after."""
    known = {
        (frame.number, attempt.number, attempt.ending)
        for frame in before.frames
        for attempt in frame.attempts
    }
    for frame in after.frames:
        for attempt in frame.attempts:
            if (frame.number, attempt.number, attempt.ending) not in known:
                yield frame, attempt


@dataclass(frozen=True, kw_only=True, slots=True)
class Tombstone:
    """What is left of a removed job until nothing of it can still arrive: its stems and final state."""

    id: str
    uid: str
    stems: tuple[str, ...]
    state: State
    removed_at: datetime
    keep_until: datetime
