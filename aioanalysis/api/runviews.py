"""How one run is shown: its error, usage and attempts; and what every answer's JSON has in common."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, PlainSerializer, WithJsonSchema

from aioanalysis.domain.frames import Attempt, Frame
from aioanalysis.domain.outcomes import JobError, Reason
from aioanalysis.domain.usage import Usage

ERROR_IN_LIST_CHARACTERS = 2000


def rfc3339(moment: datetime) -> str:
    """RFC 3339 in UTC, to the millisecond."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Time = Annotated[
    datetime, PlainSerializer(rfc3339), WithJsonSchema({"type": "string", "format": "date-time"})
]


class View(BaseModel):
    """What is given out. Numbers that JSON does not know are written as null.

    A view of an object with the same names is `model_validate` of it; others have an `of`.
    """

    model_config = ConfigDict(frozen=True, from_attributes=True)


class ErrorView(View):
    """Why the job failed. In lists `error`, what the stage printed, is cut to its end."""

    reason: Reason
    message: str
    script: str | None
    error: str | None

    @classmethod
    def of(cls, error: JobError | None, *, characters: int | None = None) -> Self | None:
        if error is None:
            return None
        printed = error.error[-characters:] if error.error and characters else error.error
        return cls(reason=error.reason, message=error.message, script=error.script, error=printed)


class PercentView(View):
    """100 is one core."""

    mean: float | None = None
    max: float | None = None


class BytesView(View):
    mean: int | None = None
    max: int | None = None
    limit: int | None = None


class PointView(View):
    at: str | None
    cpu_percent: float | None
    memory_bytes: int | None


class UsageView(View):
    """What the run used; a figure not known is null. `series` is left out of lists."""

    started_at: str | None
    finished_at: str | None
    wall_seconds: float | None
    samples: int
    interval_seconds: float
    cpu_percent: PercentView
    memory_bytes: BytesView
    cpu_seconds: float | None
    network_bytes: int | None
    block_bytes: int | None
    series: tuple[PointView, ...]

    @classmethod
    def of(cls, usage: Usage | None, *, series: bool = True) -> Self | None:
        if usage is None:
            return None
        return cls(
            started_at=_zulu(usage.started_at),
            finished_at=_zulu(usage.finished_at),
            wall_seconds=usage.wall_seconds,
            samples=usage.samples,
            interval_seconds=usage.interval_seconds,
            cpu_percent=PercentView(**usage.cpu_percent),
            memory_bytes=BytesView(**usage.memory_bytes),
            cpu_seconds=usage.cpu_seconds,
            network_bytes=usage.network_bytes,
            block_bytes=usage.block_bytes,
            series=tuple(_point(point) for point in usage.series) if series else (),
        )


class AttemptView(View):
    """A run that is over; its usage without the series, which the sidecar keeps."""

    attempt: int
    ending: str
    started_at: str | None
    finished_at: str | None
    host: str | None
    exit_code: int | None
    error: ErrorView | None
    usage: UsageView | None

    @classmethod
    def of(cls, attempt: Attempt) -> Self:
        return cls(
            attempt=attempt.number,
            ending=attempt.ending,
            started_at=_zulu(attempt.started_at),
            finished_at=_zulu(attempt.finished_at),
            host=attempt.host,
            exit_code=attempt.exit_code,
            error=ErrorView.of(attempt.error, characters=ERROR_IN_LIST_CHARACTERS),
            usage=UsageView.of(attempt.usage, series=False),
        )


def attempt_views(frame: Frame) -> tuple[AttemptView, ...]:
    return tuple(AttemptView.of(attempt) for attempt in frame.attempts)


def _zulu(text: str | None) -> str | None:
    return None if text is None else text.replace("+00:00", "Z")


def _point(point: Mapping[str, Any]) -> PointView:
    return PointView(
        at=_zulu(point.get("at")),
        cpu_percent=point.get("cpu_percent"),
        memory_bytes=point.get("memory_bytes"),
    )
