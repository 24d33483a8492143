"""What the API answers: how JSON is written, and the models of a job, which OpenAPI describes as well."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Self

from aiohttp import web
from pydantic import ConfigDict

from aioanalysis.api.runviews import (
    ERROR_IN_LIST_CHARACTERS,
    AttemptView,
    ErrorView,
    Time,
    UsageView,
    View,
    attempt_views,
)
from aioanalysis.domain.actions import allowed_for
from aioanalysis.domain.dependencies import Condition
from aioanalysis.domain.frames import Hold
from aioanalysis.domain.job import HistoryEvent, Job, Split
from aioanalysis.domain.outlook import Outlook
from aioanalysis.domain.records import Selection
from aioanalysis.domain.states import Action, State
from aioanalysis.domain.why import Code, Why, why
from aioanalysis.interfaces import JobProgress

JSON_HEADERS: Final = {"Content-Type": "application/json", "Cache-Control": "no-store"}


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of an unfinished job beside its record: what is foreseen of it, how far its runs are."""

    outlook: Outlook | None = None
    progress: Sequence[JobProgress] = ()


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
        return None if reason is None else cls.model_validate(reason)


class ProgressView(View):
    """How far a run under way is; as the event `progress` tells it. `frame` is null without frames."""

    frame: int | None
    stage: int
    stages: int
    name: str | None
    message: str | None
    fraction: float | None
    at: Time

    @classmethod
    def all_of(cls, job: Job, known: Known) -> tuple[Self, ...]:
        """Of the runs that a worker has now, not of their attempts before."""
        running = {frame.number: frame.attempt for frame in job.frames if frame.phase is State.RUNNING}
        return tuple(
            cls(
                frame=one.frame,
                stage=one.progress.stage,
                stages=one.progress.stages,
                name=one.progress.name,
                message=one.progress.message,
                fraction=one.progress.fraction,
                at=one.progress.at,
            )
            for one in known.progress
            if running.get(one.frame) == one.progress.attempt
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


class SplitView(View):
    """How the records are parted into frames; exactly one of the two is given."""

    records: int | None
    by: str | None

    @classmethod
    def of(cls, split: Split | None) -> Self | None:
        return None if split is None else cls.model_validate(split)


class DependencyView(View):
    """What is waited for; `seen` is how that job had ended when a pass last saw it."""

    job: str
    when: Condition
    each: bool
    seen: State | None


class FramesView(View):
    """How many frames there are, and in which states."""

    total: int
    by_state: dict[State, int]

    @classmethod
    def of(cls, job: Job) -> Self | None:
        if not job.has_frames:
            return None
        return cls(total=len(job.frames), by_state=dict(Counter(frame.state for frame in job.frames)))


class LinksView(View):
    """Where more of the job is; null where there is nothing (yet)."""

    self: str
    result: str | None
    failed_result: str | None
    report: str | None

    @classmethod
    def of(cls, job: Job) -> LinksView:
        place = job_path(job.id)
        complete = job.state is State.COMPLETE
        failed = job.state is State.FAILED and any(frame.left_failed_package for frame in job.frames)
        return cls(
            self=place,
            result=f"{place}/result" if complete else None,
            failed_result=f"{place}/failed-result" if failed else None,
            report=f"{place}/report" if complete else None,
        )


class JobSummary(View):
    """A job in a list: without selection and history, its error and usage in short.

    `frames` is null for a job of one run. `holds` are what keeps it, or frames of it, from starting;
    `actions` what fits its present state (`block_now` is block with `when=now`).
    """

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
    retries: int
    frames: FramesView | None
    holds: tuple[Hold, ...]
    actions: tuple[Action, ...]
    resubmitted_from: str | None
    error: ErrorView | None
    usage: UsageView | None
    why: WhyView | None
    progress: tuple[ProgressView, ...]
    links: LinksView

    @classmethod
    def of(cls, job: Job, now: datetime, known: Known = Known()) -> Self:
        error = ErrorView.of(job.error, characters=ERROR_IN_LIST_CHARACTERS)
        return cls(**_facts(job, now, known), error=error, usage=UsageView.of(job.usage, series=False))


class JobView(JobSummary):
    """One job, whole. The submitter's key is nowhere.

    `attempts` are the ended runs of a job without frames, the last 20; those of a frame are told by it.
    `wrangled` is the evidence on which what had not started was held.
    """

    selection: SelectionView | None
    split: SplitView | None
    after: tuple[DependencyView, ...]
    wrangled: str | None
    attempts: tuple[AttemptView, ...]
    history: tuple[HistoryView, ...]

    @classmethod
    def of(cls, job: Job, now: datetime, known: Known = Known()) -> Self:
        return cls(
            **_facts(job, now, known),
            error=ErrorView.of(job.error),
            usage=UsageView.of(job.usage),
            selection=SelectionView.of(job.selection),
            split=SplitView.of(job.split),
            after=tuple(DependencyView.model_validate(dependency) for dependency in job.after),
            wrangled=job.wrangled,
            attempts=() if job.has_frames else attempt_views(job.frames[0]),
            history=tuple(HistoryView.of(event) for event in job.history),
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


def to_bytes(view: View) -> bytes:
    """`view` as JSON in UTF-8."""
    return view.model_dump_json(by_alias=True).encode()


def answer(view: View, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """`view` as a JSON answer that no cache keeps."""
    return answered(to_bytes(view), status=status, headers=headers)


def answered(body: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """JSON that is written already, likewise."""
    return web.Response(
        status=status, body=body, headers={**JSON_HEADERS, **headers} if headers else JSON_HEADERS
    )


def _facts(job: Job, now: datetime, known: Known) -> dict[str, Any]:
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
        "retries": job.retries,
        "frames": FramesView.of(job),
        "holds": tuple(sorted({hold for frame in job.frames for hold in frame.holds})),
        "actions": _actions(job),
        "resubmitted_from": job.resubmitted_from,
        "why": WhyView.of(why(job, now, known.outlook, {p.frame: p.progress for p in known.progress})),
        "progress": ProgressView.all_of(job, known),
        "links": LinksView.of(job),
    }


def _actions(job: Job) -> tuple[Action, ...]:
    """What fits the job; what is not its owner's to do is left out."""
    return tuple(a for a in allowed_for(job) if a not in {Action.FORCE, Action.OVERRIDE})
