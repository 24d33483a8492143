"""Which job a request is about, and whether the caller may see it."""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from aioanalysis.api.context import CALLER, CONTEXT, job_store_time
from aioanalysis.api.links import LINKS
from aioanalysis.domain.job import Job, is_job_id
from aioanalysis.errors import Forbidden, Invalid, NotFound, Unauthorized
from aioanalysis.interfaces import Glance, User


async def job_of(request: web.Request) -> Job:
    """The job of the path; another's is as absent as one that is not there. Raises `NotFound`."""
    job_id = _id_of(request)
    async with job_store_time():
        job = await request.app[CONTEXT].jobs.get(job_id)
    return _admitted(request, job)


async def glance_of(request: web.Request) -> Glance:
    """The job of the path with what is known of it; raises as `job_of`."""
    job_id = _id_of(request)
    glance = await request.app[CONTEXT].glances.glance(job_id)
    _admitted(request, None if glance is None else glance.job)
    if glance is None:
        raise NotFound("There is no such job.")
    return glance


def _id_of(request: web.Request) -> str:
    job_id = request.match_info["id"]
    if not is_job_id(job_id):
        raise NotFound("There is no such job.")
    return job_id


def _admitted(request: web.Request, job: Job | None) -> Job:
    """The job, if it is there for this caller."""
    caller = request[CALLER]
    if caller.link is not None:
        now = request.app[CONTEXT].operations.clock().timestamp()
        if job is None or not request.app[LINKS].opens(request, job, caller.link, now):
            raise Unauthorized("The link does not fit, or holds no more.")
    elif job is None or not may_see(caller.user, job):
        raise NotFound("There is no such job.")
    return job


def may_see(user: User, job: Job) -> bool:
    return user.sees_all or job.submitter == user.name


async def check_parents(request: web.Request, after: Sequence[str]) -> None:
    """Raises `Invalid` for a job to wait for that is not there, or that the caller may not see."""
    jobs, user = request.app[CONTEXT].jobs, request[CALLER].user
    unknown = []
    async with job_store_time():
        for index, job_id in enumerate(after):
            parent = await jobs.get(job_id)
            if parent is None or not may_see(user, parent):
                unknown.append((f"/after/{index}", f"there is no job {job_id}"))
    if unknown:
        raise Invalid("It cannot wait for a job that is not there.", unknown)


def require_all(request: web.Request, what: str) -> None:
    """Raises `Forbidden` unless the caller is an administrator or the system token."""
    if not request[CALLER].user.sees_all:
        raise Forbidden(f"{what} is for administrators and the system token.")


def require_system(request: web.Request, what: str) -> None:
    """Raises `Forbidden` unless the caller has the system token."""
    if request[CALLER].user.role != "system":
        raise Forbidden(f"{what} is for the system token.")
