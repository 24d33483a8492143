"""Jobs: submission, listing, one job, removal, and the manual override."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import web

from aioanalysis.api.access import check_parents, glance_of, job_of, require_all, require_system
from aioanalysis.api.attached import MULTIPART, AttachedJobRequest, Receive, drop, read_attached
from aioanalysis.api.bodies import read_body
from aioanalysis.api.context import CALLER, CONTEXT, ApiContext, job_store_time
from aioanalysis.api.endpoints import Endpoint
from aioanalysis.api.methods import CHECKS
from aioanalysis.api.problems import HttpProblem, InvalidQuery
from aioanalysis.api.requests import JobRequest, JobsQuery, RemoveQuery, StateRequest, read_query
from aioanalysis.api.responses import (
    JobList,
    JobSummary,
    JobView,
    Known,
    ListLinks,
    answer,
    answered,
    dumps,
    job_path,
)
from aioanalysis.api.shown import SHOWN
from aioanalysis.domain.job import Job
from aioanalysis.domain.states import FINISHED, State
from aioanalysis.errors import Forbidden, Invalid, RequestError
from aioanalysis.interfaces import JobFilter, User
from aioanalysis.operations import Once

IDEMPOTENCY_KEY: Final = re.compile(r"[ -~]{1,255}")


async def submit(request: web.Request) -> web.StreamResponse:
    """Checked before anything is stored. With an Idempotency-Key, a repeat within 24 h gives the same job."""
    if request.content_type == MULTIPART:
        wanted, receive = await read_attached(request)
        return await create(request, wanted, receive=receive)
    return await create(request, await read_body(request, JobRequest))


async def create(
    request: web.Request,
    wanted: JobRequest,
    *,
    resubmitted_from: str | None = None,
    receive: Receive | None = None,
    asked: Mapping[str, Any] | None = None,
) -> web.StreamResponse:
    """Check and record what is wanted, under the caller's identity and key; 201.

    With `receive`, on the records that it gives, which are read after all else has been checked. `asked` is
    what a repeat with the same Idempotency-Key must be like, if that is not all that is wanted.
    """
    context, caller = request.app[CONTEXT], request[CALLER]
    token = _idempotency_key(request)
    await request.app[CHECKS].check(wanted.title, wanted.params, wanted.frames or ())
    new = replace(wanted.new_job(), resubmitted_from=resubmitted_from)
    await check_parents(request, [one.job for one in wanted.after])
    attachment = await receive() if receive is not None else None
    once = None
    if attachment is not None:
        new = attachment.given_to(new)
    if token is not None:
        content = {**(wanted.model_dump() if asked is None else asked), "resubmitted_from": resubmitted_from}
        if attachment is not None:
            content["records"] = attachment.sha256
        once = Once(token=token, content=dumps(content))
    try:
        async with job_store_time():
            job = await context.operations.submit(new, caller.user, caller.key, once=once)
    except RequestError:
        if attachment is not None:
            await drop(request, attachment.id)
        raise
    if attachment is not None and job.source.value != attachment.id:  # made by an earlier request
        await drop(request, attachment.id)
    view = JobView.of(job, context.operations.clock())
    return answer(view, status=201, headers={"Location": job_path(job.id)})


def _idempotency_key(request: web.Request) -> str | None:
    token = request.headers.get("Idempotency-Key")
    if token is not None and not IDEMPOTENCY_KEY.fullmatch(token):
        raise HttpProblem(400, "An Idempotency-Key has 1 to 255 printable ASCII characters.")
    return token


async def listing(request: web.Request) -> web.StreamResponse:
    """A user's own jobs; all of them for administrators and the system token."""
    context = request.app[CONTEXT]
    query = read_query(request, JobsQuery)
    wanted = filter_of(query, request[CALLER].user)
    try:
        async with job_store_time():
            page = await context.jobs.page(wanted, limit=query.limit, cursor=query.cursor)
    except Invalid as error:
        raise InvalidQuery(str(error), [("cursor", "is not one that this service gave")]) from None
    now = context.operations.clock()
    known = await known_of(context, page.jobs)
    following = None
    if page.cursor is not None:
        pairs = [(name, value) for name, value in request.query.items() if name != "cursor"]
        following = f"{request.path}?{urlencode([*pairs, ('cursor', page.cursor)])}"
    return answer(
        JobList(
            jobs=tuple(JobSummary.of(job, now, known[job.id]) for job in page.jobs),
            cursor=page.cursor,
            links=ListLinks(next=following),
        )
    )


def filter_of(query: JobsQuery, user: User) -> JobFilter:
    """What to look for; a user finds the own jobs only. Raises `Forbidden`."""
    submitter = query.submitter
    if not user.sees_all:
        if submitter not in {None, user.name}:
            raise Forbidden("The filter by submitter is for administrators and the system token.")
        submitter = user.name
    return JobFilter(
        submitter=submitter,
        states=query.states,
        title=query.title,
        recordset=query.recordset,
        since=query.since,
    )


async def show(request: web.Request) -> web.StreamResponse:
    glance = await glance_of(request)
    return answered(request.app[SHOWN].of(glance, request.app[CONTEXT].operations.clock()))


async def known_of(context: ApiContext, jobs: Sequence[Job]) -> Mapping[str, Known]:
    """What is known of these unfinished jobs beside their records, by their ids."""
    running = {job.id: [f.number for f in job.frames if f.phase is State.RUNNING] for job in jobs}
    unfinished = [job.id for job in jobs if job.state not in FINISHED]
    async with job_store_time():
        progress = await context.progress.latest(running)
        outlooks = await context.outlooks.outlooks(unfinished)
    return {job.id: Known(outlooks.get(job.id), progress.get(job.id, ())) for job in jobs}


async def remove(request: web.Request) -> web.StreamResponse:
    force = read_query(request, RemoveQuery).force
    if force:
        require_all(request, "Removal by force")
    job = await job_of(request)
    await request.app[CONTEXT].operations.remove(job.id, request[CALLER].user, force=force)
    return web.Response(status=204)


async def override(request: web.Request) -> web.StreamResponse:
    require_system(request, "The manual override")
    job = await job_of(request)
    wanted = await read_body(request, StateRequest)
    operations = request.app[CONTEXT].operations
    changed = await operations.override(job.id, wanted.state, request[CALLER].user)
    return answer(JobView.of(changed, operations.clock()))


ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path="/v1/jobs",
        handler=submit,
        summary="Submit a job on a stored recordset, a set, or attached records",
        body=JobRequest,
        attached=AttachedJobRequest,
        headers={"Idempotency-Key": {"type": "string", "minLength": 1, "maxLength": 255}},
        answer=JobView,
        status=201,
        problems=(400, 408, 409, 413, 415, 422, 507),
    ),
    Endpoint(
        method="GET",
        path="/v1/jobs",
        handler=listing,
        summary="List jobs, newest first",
        query=JobsQuery,
        answer=JobList,
        problems=(403, 422),
    ),
    Endpoint(
        method="GET",
        path="/v1/jobs/{id}",
        handler=show,
        summary="One job",
        answer=JobView,
        problems=(404,),
    ),
    Endpoint(
        method="DELETE",
        path="/v1/jobs/{id}",
        handler=remove,
        summary="Remove a job with all its files",
        query=RemoveQuery,
        answer=None,
        status=204,
        problems=(403, 404, 409, 422),
    ),
    Endpoint(
        method="PUT",
        path="/v1/jobs/{id}/state",
        handler=override,
        summary="Set a job's state by hand",
        body=StateRequest,
        answer=JobView,
        problems=(400, 403, 404, 408, 413, 415, 422),
    ),
)
