"""A job's frames: their list, and one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

from aiohttp import web

from aioanalysis.api.access import job_of
from aioanalysis.api.endpoints import Endpoint
from aioanalysis.api.requests import FramesQuery, read_query
from aioanalysis.api.responses import answer, job_path
from aioanalysis.api.runviews import (
    ERROR_IN_LIST_CHARACTERS,
    AttemptView,
    ErrorView,
    UsageView,
    View,
    attempt_views,
)
from aioanalysis.domain.frames import Frame, Hold
from aioanalysis.domain.job import FRAMES_MAX, Job
from aioanalysis.domain.states import State
from aioanalysis.errors import NotFound


class FrameLinks(View):
    """Where more of the frame is; null where there is nothing (yet)."""

    self: str
    result: str | None
    failed_result: str | None
    report: str | None

    @classmethod
    def of(cls, job: Job, frame: Frame) -> FrameLinks:
        place, query = job_path(job.id), f"?frame={frame.number}"
        complete, failed = frame.phase is State.COMPLETE, frame.left_failed_package
        return cls(
            self=f"{place}/frames/{frame.number}",
            result=f"{place}/result{query}" if complete else None,
            failed_result=f"{place}/failed-result{query}" if failed else None,
            report=f"{place}/report{query}" if complete else None,
        )


class FrameSummary(View):
    """A frame in a list. `params` are what differs from the job's; `value` is that of a split's field.

    `records` is the size of its part of a split, null without one.
    """

    number: int
    state: State
    params: dict[str, Any]
    value: str | None
    records: int | None
    packaged_count: int | None
    holds: tuple[Hold, ...]
    attempt: int
    recoveries: int
    retried: int
    error: ErrorView | None
    usage: UsageView | None
    links: FrameLinks

    @classmethod
    def of(cls, job: Job, frame: Frame) -> Self:
        return cls(**_facts(job, frame, characters=ERROR_IN_LIST_CHARACTERS))


class FrameView(FrameSummary):
    """One frame, with its ended runs, the last 20."""

    attempts: tuple[AttemptView, ...]

    @classmethod
    def of(cls, job: Job, frame: Frame) -> Self:
        return cls(**_facts(job, frame), attempts=attempt_views(frame))


class FrameList(View):
    """Frames by number, `total` of them in the job; `cursor` asks for the next page, null at the end."""

    total: int
    frames: tuple[FrameSummary, ...]
    cursor: int | None


def _facts(job: Job, frame: Frame, *, characters: int | None = None) -> Mapping[str, Any]:
    part = frame.part
    return {
        "number": frame.number,
        "state": frame.state,
        "params": dict(frame.params),
        "value": part.value if part else None,
        "records": part.records if part else None,
        "packaged_count": frame.packaged_count,
        "holds": tuple(sorted(frame.holds)),
        "attempt": frame.attempt,
        "recoveries": frame.recoveries,
        "retried": frame.retried,
        "error": ErrorView.of(frame.error, characters=characters),
        "usage": UsageView.of(frame.usage),
        "links": FrameLinks.of(job, frame),
    }


async def listing(request: web.Request) -> web.StreamResponse:
    """Empty for a job of one run, and of a split one until its records have been fetched and cut."""
    query = read_query(request, FramesQuery)
    job = await job_of(request)
    frames = job.frames if job.has_frames else ()
    left = [
        frame
        for frame in frames
        if (frame.number or 0) > query.cursor and (not query.states or frame.state in query.states)
    ]
    shown = left[: query.limit]
    return answer(
        FrameList(
            total=len(frames),
            frames=tuple(FrameSummary.of(job, frame) for frame in shown),
            cursor=shown[-1].number if len(left) > len(shown) else None,
        )
    )


async def show(request: web.Request) -> web.StreamResponse:
    job, text = await job_of(request), request.match_info["number"]
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= len(str(FRAMES_MAX)) else 0
    frame = job.frame(number)
    if frame is None:
        raise NotFound("The job has no such frame.")
    return answer(FrameView.of(job, frame))


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/v1/jobs/{id}/frames",
        handler=listing,
        summary="A job's frames",
        query=FramesQuery,
        answer=FrameList,
        problems=(404, 422),
    ),
    Endpoint(
        method="GET",
        path="/v1/jobs/{id}/frames/{number}",
        handler=show,
        summary="One frame",
        answer=FrameView,
        problems=(404,),
    ),
)
