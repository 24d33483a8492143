"""What the API answers: how JSON is written, and the models of a job, which OpenAPI describes as well."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Self

from aiohttp import web
from pydantic import BaseModel, ConfigDict, PlainSerializer, WithJsonSchema

from aioanalysis.domain.job import HistoryEvent, Job
from aioanalysis.domain.outcomes import JobError, Reason
from aioanalysis.domain.records import Selection
from aioanalysis.domain.states import State
from aioanalysis.domain.usage import Usage
from aioanalysis.domain.why import Code, Why, why

ERROR_IN_LIST_CHARACTERS = 2000


def rfc3339(moment: datetime) -> str:
    """RFC 3339 in UTC, to the millisecond."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Time = Annotated[
    datetime, PlainSerializer(rfc3339), WithJsonSchema({"type": "string", "format": "date-time"})
]


class View(BaseModel):
    """What is given out. Numbers that JSON does not know are written as null."""

    model_config = ConfigDict(frozen=True)


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


class WhyView(View):
    """Why the job is not finished. `position` counts from 1; what is not known is null."""

    code: Code
    text: str
    until: Time | None
    position: int | None
    expected_start: Time | None
    expected_finish: Time | None

    @classmethod
    def of(cls, reason: Why | None) -> Self | None:
        if reason is None:
            return None
        return cls(
            code=reason.code,
            text=reason.text,
            until=reason.until,
            position=reason.position,
            expected_start=reason.expected_start,
            expected_finish=reason.expected_finish,
        )


class HistoryView(View):
    at: Time
    event: str
    from_: State | None
    to: State
    by: str
    note: str | None

    model_config = ConfigDict(
        frozen=True, alias_generator=lambda name: name.rstrip("_"), validate_by_name=True
    )

    @classmethod
    def of(cls, event: HistoryEvent) -> Self:
        return cls(
            at=event.at,
            event=event.event,
            from_=event.from_state,
            to=event.to_state,
            by=event.by,
            note=event.note,
        )


class SelectionView(View):
    """Which records the job is about: only these ids, or all but these. Exactly one of the two is given."""

    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None

    @classmethod
    def of(cls, selection: Selection | None) -> Self | None:
        if selection is None:
            return None
        ids = tuple(sorted(selection.ids))
        return cls(include=ids) if selection.mode == "include" else cls(exclude=ids)


class LinksView(View):
    """Where more of the job is; null where there is nothing (yet)."""

    self: str
    result: str | None
    failed_result: str | None
    report: str | None

    @classmethod
    def of(cls, job: Job) -> LinksView:
        place = job_path(job.id)
        complete, failed = job.state is State.COMPLETE, job.state is State.FAILED
        return cls(
            self=place,
            result=f"{place}/result" if complete else None,
            failed_result=f"{place}/failed-result" if failed else None,
            report=f"{place}/report" if complete else None,
        )


class JobSummary(View):
    """A job in a list: without selection and history, its error and usage in short."""

    id: str
    title: str
    params: dict[str, Any]
    recordset: str | None
    set_token: str | None
    attached: bool
    record_count: int | None
    packaged_count: int | None
    tags: tuple[str, ...]
    submitter: str
    state: State
    submitted_at: Time
    expires_at: Time
    deadline: Time
    last_updated: Time
    state_changed_at: Time
    attempt: int
    recoveries: int
    error: ErrorView | None
    usage: UsageView | None
    why: WhyView | None
    links: LinksView

    @classmethod
    def of(cls, job: Job, now: datetime) -> Self:
        error = ErrorView.of(job.error, characters=ERROR_IN_LIST_CHARACTERS)
        return cls(**_facts(job, now), error=error, usage=UsageView.of(job.usage, series=False))


class JobView(JobSummary):
    """One job, whole. The submitter's key is nowhere."""

    selection: SelectionView | None
    history: tuple[HistoryView, ...]
    resubmitted_from: str | None

    @classmethod
    def of(cls, job: Job, now: datetime) -> Self:
        return cls(
            **_facts(job, now),
            error=ErrorView.of(job.error),
            usage=UsageView.of(job.usage),
            selection=SelectionView.of(job.selection),
            history=tuple(HistoryView.of(event) for event in job.history),
            resubmitted_from=job.resubmitted_from,
        )


class ListLinks(View):
    next: str | None


class JobList(View):
    """Jobs, newest first; `cursor` asks for the next page, null at the end."""

    jobs: tuple[JobSummary, ...]
    cursor: str | None
    links: ListLinks


def job_path(job_id: str) -> str:
    return f"/v1/jobs/{job_id}"


def dumps(value: Mapping[str, Any]) -> bytes:
    """JSON in UTF-8; raises ValueError rather than write what is no JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def answer(view: View, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """`view` as a JSON answer that no cache keeps."""
    return web.Response(
        status=status,
        body=view.model_dump_json(by_alias=True).encode(),
        content_type="application/json",
        headers={"Cache-Control": "no-store", **(headers or {})},
    )


def _facts(job: Job, now: datetime) -> dict[str, Any]:
    source = job.source
    return {
        "id": job.id,
        "title": job.title,
        "params": dict(job.params),
        "recordset": source.value if source.kind == "recordset" else None,
        "set_token": source.value if source.kind == "set_token" else None,
        "attached": source.kind == "attached",
        "record_count": job.record_count,
        "packaged_count": job.packaged_count,
        "tags": job.tags,
        "submitter": job.submitter,
        "state": job.state,
        "submitted_at": job.submitted_at,
        "expires_at": job.expires_at,
        "deadline": job.deadline,
        "last_updated": job.last_updated,
        "state_changed_at": job.state_changed_at,
        "attempt": job.attempt,
        "recoveries": job.recoveries,
        "why": WhyView.of(why(job, now)),
        "links": LinksView.of(job),
    }


def _zulu(text: str | None) -> str | None:
    return None if text is None else text.replace("+00:00", "Z")


def _point(point: Mapping[str, Any]) -> PointView:
    return PointView(
        at=_zulu(point.get("at")),
        cpu_percent=point.get("cpu_percent"),
        memory_bytes=point.get("memory_bytes"),
    )
