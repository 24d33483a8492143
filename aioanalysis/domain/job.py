"""The job record: what a client asked for, where it stands, and what has happened to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal

from aioanalysis.domain.outcomes import JobError
from aioanalysis.domain.records import Selection
from aioanalysis.domain.states import State
from aioanalysis.domain.usage import Usage

HISTORY_LENGTH: Final = 50
ID_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
ID_LENGTH: Final = 8


def is_job_id(text: str) -> bool:
    """Whether `text` is 8 characters of lower-case Crockford base32."""
    return len(text) == ID_LENGTH and all(c in ID_ALPHABET for c in text)


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Where a job's records come from; `value` is the recordset code or set token, None when attached."""

    kind: Literal["recordset", "set_token", "attached"]
    value: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryEvent:
    """One thing that happened to a job; `by` is a user, `scheduler` or `api`."""

    at: datetime
    event: str
    from_state: State | None
    to_state: State
    by: str


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
class Job:
    """One job. Frozen: every change is a copy. `version` is the job store's token for compare-and-set."""

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
    packaged_count: int | None = None
    tags: tuple[str, ...] = ()
    state: State = State.WAITING
    attempt: int = 1
    recoveries: int = 0
    packaging: Packaging | None = None
    postponed: Postponement | None = None
    error: JobError | None = None
    usage: Usage | None = None
    history: tuple[HistoryEvent, ...] = field(default=())
    version: str = ""

    @property
    def stem(self) -> str:
        """The name that the job's files in storage begin with."""
        return f"{self.title}.{self.id}"

    def moved(self, to: State, *, event: str, by: str, at: datetime, **changes: Any) -> Job:
        """A copy in state `to` with the event in its history; `state_changed_at` only if the state did."""
        entry = HistoryEvent(at=at, event=event, from_state=self.state, to_state=to, by=by)
        return replace(
            self,
            state=to,
            state_changed_at=at if to is not self.state else self.state_changed_at,
            history=(*self.history, entry)[-HISTORY_LENGTH:],
            **changes,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Tombstone:
    """What is left of a removed job until nothing of it can still arrive: its stems and final state."""

    id: str
    uid: str
    stems: tuple[str, ...]
    state: State
    removed_at: datetime
    keep_until: datetime
