"""Control: an action on one job, or on all that a filter finds; a new job from the definition of another."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, Final
from uuid import uuid4

from aiohttp import web

from aioanalysis.api.access import job_of, may_see
from aioanalysis.api.attached import AttachedJobRequest, Attachment, Receive
from aioanalysis.api.bodies import parse, read_body
from aioanalysis.api.context import CALLER, CONTEXT, job_store_time
from aioanalysis.api.endpoints import Endpoint
from aioanalysis.api.jobs import create, filter_of
from aioanalysis.api.problems import InvalidQuery, problem_of
from aioanalysis.api.requests import ActionQuery, BulkRequest, JobRequest, ResubmitRequest, read_query
from aioanalysis.api.responses import JobView, answer
from aioanalysis.api.runviews import View
from aioanalysis.domain.frames import Hold
from aioanalysis.domain.job import Job
from aioanalysis.domain.states import Action, State
from aioanalysis.errors import AnalysisError, Invalid, Missing, NotFound, Refused

ACTIONS: Final = {
    action.value: action
    for action in (
        Action.BLOCK,
        Action.UNBLOCK,
        Action.INTERRUPT,
        Action.SUSPEND,
        Action.KILL,
        Action.RETRY,
    )
}
COPY_TIME: Final = timedelta(hours=1)


class OutcomeView(View):
    """What an action did to one job: 200 and its state, or the status and detail of the refusal."""

    id: str
    status: int
    state: State | None
    detail: str | None
    allowed: tuple[str, ...]


class OutcomeList(View):
    """The outcome for each job; `cursor` asks for the next ones, null at the end."""

    action: str
    outcomes: tuple[OutcomeView, ...]
    cursor: str | None


async def act(request: web.Request) -> web.StreamResponse:
    """By the owner or an administrator. What does not fit the state is a 409 that says what would."""
    query = read_query(request, ActionQuery)
    action = _action(request, when=query.when, all_frames=query.all)
    job = await job_of(request)
    operations = request.app[CONTEXT].operations
    async with job_store_time():
        job = await operations.act(job.id, action, request[CALLER].user, all_frames=query.all)
    return answer(JobView.of(job, operations.clock()))


async def act_on_many(request: web.Request) -> web.StreamResponse:
    """On the jobs named, or found as in the list; each by itself: a refusal keeps none of the others."""
    wanted = await read_body(request, BulkRequest)
    action = _action(request, when=wanted.when, all_frames=wanted.all)
    if wanted.ids is not None:
        ids, cursor = list(dict.fromkeys(wanted.ids)), None
    else:
        ids, cursor = await _found(request, wanted)
    outcomes = [outcome async for outcome in _outcomes(request, ids, action, all_frames=wanted.all)]
    return answer(OutcomeList(action=request.match_info["action"], outcomes=tuple(outcomes), cursor=cursor))


async def _found(request: web.Request, wanted: BulkRequest) -> tuple[list[str], str | None]:
    found = filter_of(wanted.query(), request[CALLER].user)
    try:
        async with job_store_time():
            page = await request.app[CONTEXT].jobs.page(found, limit=wanted.limit, cursor=wanted.cursor)
    except Invalid as error:
        raise Invalid(str(error), [("/cursor", "is not one that this service gave")]) from None
    return [job.id for job in page.jobs], page.cursor


async def _outcomes(
    request: web.Request, ids: list[str], action: Action, *, all_frames: bool
) -> AsyncIterator[OutcomeView]:
    context, user = request.app[CONTEXT], request[CALLER].user
    for job_id in ids:
        try:
            async with job_store_time():
                job = await context.jobs.get(job_id)
                if job is None or not may_see(user, job):
                    raise NotFound("There is no such job.")
                job = await context.operations.act(job_id, action, user, all_frames=all_frames)
        except AnalysisError as error:
            problem = problem_of(error)
            state, allowed = problem.members.get("state"), problem.members.get("allowed", ())
            yield OutcomeView(
                id=job_id, status=problem.status, state=state, detail=problem.detail, allowed=tuple(allowed)
            )
        else:
            yield OutcomeView(id=job_id, status=200, state=job.state, detail=None, allowed=())


def _action(request: web.Request, *, when: str | None, all_frames: bool) -> Action:
    action = ACTIONS.get(request.match_info["action"])
    if action is None:
        raise NotFound(f"There is no such action; there are {', '.join(ACTIONS)}, and resubmit of one job.")
    if when is not None and action is not Action.BLOCK:
        raise InvalidQuery("The action is not as it should be.", [("when", "is of block only")])
    if all_frames and action is not Action.RETRY:
        raise InvalidQuery("The action is not as it should be.", [("all", "is of retry only")])
    return Action.BLOCK_NOW if when is not None else action


# --- resubmission ---


async def resubmit(request: web.Request) -> web.StreamResponse:
    """A new job as the old one was asked for, the fields of the body changed, run for the caller.

    It waits for what the old one still waits for. Records that were attached are taken along. With an
    Idempotency-Key, a repeat within 24 h gives the same job, also when the old one has changed.
    """
    job = await job_of(request)
    changes: dict[str, Any] = {}
    if request.can_read_body:
        body = await read_body(request, ResubmitRequest)
        changes = body.model_dump(exclude_unset=True)
    asked = {"of": job.uid, "changes": changes}
    fields = _changed(_definition(job), changes)
    if job.source.kind == "attached" and not {"recordset", "set_token"} & changes.keys():
        wanted: JobRequest = parse(AttachedJobRequest, fields)
        receive = _copied(request, job)
        return await create(request, wanted, resubmitted_from=job.id, receive=receive, asked=asked)
    return await create(request, parse(JobRequest, fields), resubmitted_from=job.id, asked=asked)


def _definition(job: Job) -> dict[str, Any]:
    """What was asked for, as a submission's body; without conditions that hold already."""
    fields: dict[str, Any] = {
        "title": job.title,
        "params": dict(job.params),
        "record_count": job.record_count,
        "tags": list(job.tags),
        "retries": job.retries,
    }
    if job.source.kind != "attached":
        fields[job.source.kind] = job.source.value
    if job.selection is not None:
        fields["selection"] = {job.selection.mode: sorted(job.selection.ids)}
    if job.split is not None:
        fields["split"] = {"records": job.split.records, "by": job.split.by}
    elif job.has_frames:
        fields["frames"] = [dict(frame.params) for frame in job.frames]
    if any(Hold.DEPENDENCIES in frame.holds for frame in job.frames):
        fields["after"] = [{"job": one.job, "when": one.when.value, "each": one.each} for one in job.after]
    return fields


def _changed(fields: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """With the changes, and without what one of them takes the place of."""
    fields = dict(fields)
    if {"recordset", "set_token"} & changes.keys():
        for name in ("recordset", "set_token", "record_count"):
            fields.pop(name, None)
    if "selection" in changes:
        fields.pop("record_count", None)
    if {"frames", "split"} & changes.keys():
        fields.pop("frames", None)
        fields.pop("split", None)
    return {**fields, **changes}


def _copied(request: web.Request, job: Job) -> Receive:
    """Gives the new job a copy of the records that are attached to `job`."""
    operations, source = request.app[CONTEXT].operations, job.source.value or ""

    async def receive() -> Attachment:
        target = uuid4().hex
        try:
            async with job_store_time():
                await operations.attached.copy(source, target, operations.clock() + COPY_TIME)
        except Missing:
            raise Refused("the records that were attached to it are not there any more") from None
        return Attachment(id=target, sha256=source, records=job.record_count or 0)

    return receive


ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path="/v1/jobs/{id}/actions/resubmit",
        handler=resubmit,
        summary="A new job from this one's definition",
        body=ResubmitRequest,
        headers={"Idempotency-Key": {"type": "string", "minLength": 1, "maxLength": 255}},
        answer=JobView,
        status=201,
        problems=(400, 404, 408, 409, 413, 415, 422, 507),
    ),
    Endpoint(
        method="POST",
        path="/v1/jobs/{id}/actions/{action}",
        handler=act,
        summary="A control action on a job",
        query=ActionQuery,
        answer=JobView,
        problems=(403, 404, 409, 422),
    ),
    Endpoint(
        method="POST",
        path="/v1/actions/{action}",
        handler=act_on_many,
        summary="A control action on many jobs",
        body=BulkRequest,
        answer=OutcomeList,
        problems=(400, 403, 404, 408, 413, 415, 422),
    ),
)
