"""What the API is asked: bodies and queries as strict models."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from aiohttp import web
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)

from aioanalysis.api.problems import InvalidQuery
from aioanalysis.api.runrequests import JobId, Parent, SplitRequest, Whole
from aioanalysis.domain.exchange import Container
from aioanalysis.domain.job import FRAMES_MAX, Source
from aioanalysis.domain.method import TITLE
from aioanalysis.domain.records import Selection
from aioanalysis.domain.states import State
from aioanalysis.operations import NewJob

PARAMS_MAX_BYTES: Final = 64 * 1024
FRAMES_MAX_BYTES: Final = 1024 * 1024
TAGS_MAX: Final = 32
AFTER_MAX: Final = 100
RETRIES_MAX: Final = 10
LIMIT_MAX: Final = 500
FRAME: Final = re.compile(r"[1-9][0-9]{0,3}", re.ASCII)
FILES_MAX: Final = 5000
COUNT_MAX: Final = 2**53

RecordId = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Title = Annotated[str, StringConstraints(pattern=f"^{TITLE.pattern}$")]
Recordset = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,199}$")]
SetToken = Annotated[str, StringConstraints(pattern=r"^[!-~]{1,512}$")]
T = TypeVar("T")
Tag = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]{1,64}$")]


_RFC3339: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})", re.ASCII
)


def _rfc3339(value: Any) -> Any:
    """Only a time with its offset; a number is no time here."""
    if not isinstance(value, datetime) and not _RFC3339.fullmatch(str(value)):
        raise ValueError("must be a time as in 2026-01-31T12:00:00Z")
    return value


def _utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("out of range") from None


Since = Annotated[datetime, Field(strict=False), BeforeValidator(_rfc3339), AfterValidator(_utc)]
Submitter = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Cursor = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class Body(BaseModel):
    """A request's body: no field that is not known, no type that is nearly right."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def exactly_one(*names: str) -> dict[str, Any]:
    """For a JSON Schema: one of these properties is given and is not null."""
    given = [{"required": [name], "properties": {name: {"not": {"type": "null"}}}} for name in names]
    return {"oneOf": given}


class SelectionRequest(Body):
    """Record ids or process ids: exactly one of the two lists."""

    model_config = ConfigDict(json_schema_extra=exactly_one("include", "exclude"))

    include: list[RecordId] | None = Field(None, min_length=1)
    exclude: list[RecordId] | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.include is None) == (self.exclude is None):
            raise ValueError("exactly one of include and exclude must be given")
        return self

    def selection(self) -> Selection:
        if self.include is not None:
            return Selection(mode="include", ids=frozenset(self.include))
        return Selection(mode="exclude", ids=frozenset(self.exclude or ()))


class JobFields(Body):
    """What a job is, its title apart."""

    params: dict[str, Any] = Field(default_factory=dict)
    recordset: Recordset | None = None
    set_token: SetToken | None = None
    selection: SelectionRequest | None = None
    record_count: Whole | None = Field(None, ge=0, le=COUNT_MAX)
    tags: list[Tag] = Field(default_factory=list, max_length=TAGS_MAX)
    frames: list[dict[str, Any]] | None = Field(
        None,
        min_length=1,
        max_length=FRAMES_MAX,
        description="One run each, of the same records: what differs from params. Not with split.",
    )
    split: SplitRequest | None = Field(None, description="One run for each part of the records.")
    after: list[Parent] = Field(
        default_factory=list, max_length=AFTER_MAX, description="Jobs that must have ended before it starts."
    )
    hold: bool = Field(False, description="It starts when it is unblocked.")
    retries: Whole = Field(0, ge=0, le=RETRIES_MAX, description="How often a failed run is put back.")

    @field_validator("params")
    @classmethod
    def _small(cls, params: dict[str, Any]) -> dict[str, Any]:
        return _at_most(params, PARAMS_MAX_BYTES)

    @field_validator("frames")
    @classmethod
    def _small_frames(cls, frames: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
        return _at_most(frames, FRAMES_MAX_BYTES)

    @model_validator(mode="after")
    def _frames_or_split(self) -> Self:
        if self.frames is not None and self.split is not None:
            raise ValueError("only one of frames and split can be given")
        return self


class ResubmitRequest(JobFields):
    """What is to be changed in the new job; all else is as in the old one."""

    title: Title | None = None


class JobRequest(JobFields):
    """A job to be run on a stored recordset or on a set."""

    model_config = ConfigDict(json_schema_extra=exactly_one("recordset", "set_token"))

    title: Title

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.recordset is None) == (self.set_token is None):
            raise ValueError("exactly one of recordset and set_token must be given")
        return self

    def new_job(self) -> NewJob:
        return NewJob(
            title=self.title,
            params=self.params,
            source=Source(kind="recordset", value=self.recordset)
            if self.recordset is not None
            else Source(kind="set_token", value=self.set_token),
            selection=self.selection.selection() if self.selection else None,
            record_count=self.record_count,
            tags=tuple(dict.fromkeys(self.tags)),
            frames=tuple(self.frames or ()),
            split=self.split.split() if self.split else None,
            after=tuple(dict.fromkeys(one.dependency() for one in self.after)),
            hold=self.hold,
            retries=self.retries,
        )


def _at_most(value: T, most: int) -> T:
    if len(json.dumps(value, ensure_ascii=False).encode()) > most:
        raise ValueError(f"larger than {most} bytes")
    return value


class StateRequest(Body):
    """The state to be set by hand."""

    state: Annotated[State, Field(strict=False)]


class BulkRequest(Body):
    """Which jobs an action is for: those of `ids`, or those that the other fields find, as in the list."""

    ids: list[JobId] | None = Field(None, min_length=1, max_length=LIMIT_MAX)
    state: list[Annotated[State, Field(strict=False)] | Literal["all"]] | None = None
    title: Title | None = None
    recordset: Recordset | None = None
    submitter: Submitter | None = None
    since: Since | None = None
    limit: int = Field(100, ge=1, le=LIMIT_MAX, description="Of one answer; `cursor` asks for the next.")
    cursor: Cursor | None = None
    when: Literal["now"] | None = Field(None, description="Of block: ends what runs, too.")
    all: bool = Field(False, description="Of retry: of a job with frames the complete ones, too.")

    @model_validator(mode="after")
    def _chosen(self) -> Self:
        filters = self.filters()
        if (self.ids is None) == (not filters):
            raise ValueError("either ids or a filter must be given; state: [all] is any job")
        return self

    def filters(self) -> dict[str, Any]:
        names = {"state", "title", "recordset", "submitter", "since"}
        return self.model_dump(include=names, exclude_none=True)

    def query(self) -> JobsQuery:
        return JobsQuery(**self.filters(), limit=self.limit, cursor=self.cursor)


# --- queries ---------------------------------------------------------------------------------------------


class Query(BaseModel):
    """A request's query: each parameter once, unless it is a list; none that is not known."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class JobsQuery(Query):
    """Which jobs to list."""

    state: list[State | Literal["all"]] = Field(
        default_factory=list, description="Repeatable; `all`, or none, is any."
    )
    title: Title | None = None
    recordset: Recordset | None = None
    submitter: Submitter | None = Field(
        None, description="For administrators; a user sees the own jobs only."
    )
    since: Since | None = Field(None, description="Submitted at or after this time (RFC 3339).")
    limit: int = Field(50, ge=1, le=LIMIT_MAX)
    cursor: Cursor | None = Field(None, description="The `cursor` of the page before.")

    @property
    def states(self) -> frozenset[State]:
        """The states asked for, empty for any."""
        return _states(self.state)


def _states(wanted: Sequence[State | Literal["all"]]) -> frozenset[State]:
    return frozenset() if "all" in wanted else frozenset(State(state) for state in wanted)


class PackagesQuery(Query):
    """Which files of the two containers to list."""

    container: Container = Container.QUEUE
    prefix: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._/-]{0,512}$")] = ""
    limit: int = Field(500, ge=1, le=FILES_MAX)
    after: Annotated[str, StringConstraints(pattern=r"^[!-~]{1,1000}$")] | None = Field(
        None, description="The `after` of the page before."
    )


class FramesQuery(Query):
    """Which frames to list."""

    state: list[State | Literal["all"]] = Field(default_factory=list, description="Repeatable.")
    limit: int = Field(FRAMES_MAX, ge=1, le=FRAMES_MAX)
    cursor: int = Field(0, ge=0, le=FRAMES_MAX, description="The `cursor` of the page before.")

    @property
    def states(self) -> frozenset[State]:
        """The states asked for, empty for any."""
        return _states(self.state)


class ActionQuery(Query):
    """How an action is meant."""

    when: Literal["now"] | None = Field(None, description="Of block: ends what runs, too.")
    all: bool = Field(False, description="Of retry: of a job with frames the complete ones, too.")


class FrameQuery(Query):
    """Which run of a job with frames."""

    frame: int | None = Field(None, ge=1, le=FRAMES_MAX, description="The frame's number, from 1.")


class LogQuery(FrameQuery):
    """Which run's output, and whether all that is still to come of it."""

    follow: bool = Field(False, description="As a stream that ends with the job.")


class RemoveQuery(Query):
    force: bool = Field(False, description="Remove in any state; for administrators and the system token.")


Q = TypeVar("Q", bound=Query)


def read_frame(request: web.Request) -> int | None:
    """The frame that the query names, whatever else there is in it; raises `InvalidQuery`."""
    given = request.query.getall("frame", [])
    if not given:
        return None
    if len(given) > 1 or not FRAME.fullmatch(given[0]):
        raise InvalidQuery("The query is not as it should be.", [("frame", "must be a frame's number")])
    return int(given[0])


def read_query(request: web.Request, model: type[Q]) -> Q:
    """The query as `model`; raises `InvalidQuery`."""
    given: dict[str, Any] = {}
    for name in request.query:
        values = request.query.getall(name)
        field = model.model_fields.get(name)
        is_list = field is not None and field.default_factory is list
        if len(values) > 1 and field is not None and not is_list:
            raise InvalidQuery("The query is not as it should be.", [(name, "given more than once")])
        given[name] = values if is_list else values[0]
    try:
        return model.model_validate(given)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        wrong: dict[str, list[str]] = {}
        for one in found:
            wrong.setdefault(str(one["loc"][0])[:100], []).append(one["msg"].removeprefix("Value error, "))
        places = [(name, "; ".join(texts)) for name, texts in wrong.items()]
        raise InvalidQuery("The query is not as it should be.", places) from None
