"""What a job leaves: its package, the package's members (the report is one), its sidecar and its output."""

from __future__ import annotations

from contextlib import suppress
from typing import Final
from urllib.parse import quote

from aiohttp import web

from aioanalysis.api.access import job_of
from aioanalysis.api.context import CONTEXT
from aioanalysis.api.endpoints import Endpoint
from aioanalysis.api.responses import answer, job_path
from aioanalysis.api.runviews import View
from aioanalysis.api.serving import media_type, send_blob, send_member
from aioanalysis.api.zipread import ZipReader
from aioanalysis.domain.exchange import (
    REPORT_MEMBER,
    Container,
    Ending,
    RunMark,
    progress_log_name,
    result_name,
    sidecar_name,
)
from aioanalysis.domain.job import Job
from aioanalysis.domain.states import State
from aioanalysis.errors import NotFound, Refused
from aioanalysis.interfaces import BlobInfo

ENDINGS: Final = {State.COMPLETE: Ending.COMPLETE, State.FAILED: Ending.FAILED}
LOG_MEMBER: Final = "job.log"
PATH_CHARACTERS: Final = 4096


class FileView(View):
    """A member of a package; sizes in bytes."""

    path: str
    size: int
    compressed_size: int
    crc32: str
    media_type: str
    link: str


class FileList(View):
    """What is in the package of that name."""

    package: str
    files: tuple[FileView, ...]


async def result(request: web.Request) -> web.StreamResponse:
    package = await _package(request, await job_of(request), Ending.COMPLETE)
    return await send_blob(request, Container.RESULTS, package)


async def failed_result(request: web.Request) -> web.StreamResponse:
    package = await _package(request, await job_of(request), Ending.FAILED)
    return await send_blob(request, Container.RESULTS, package)


async def report(request: web.Request) -> web.StreamResponse:
    """Out of the package by ranges: of a package of any size only the report's own part is read."""
    package = await _package(request, await job_of(request), Ending.COMPLETE)
    return await _send_member(request, package, REPORT_MEMBER)


async def files(request: web.Request) -> web.StreamResponse:
    """The members of the package that the job left, complete or failed; odd names are left out."""
    job = await job_of(request)
    package = await _package(request, job)
    members = await ZipReader(request.app[CONTEXT].storage, package).members()
    place = f"{job_path(job.id)}/files/"
    views = (
        FileView(
            path=member.name,
            size=member.size,
            compressed_size=member.compressed,
            crc32=f"{member.crc:08x}",
            media_type=media_type(member.name),
            link=place + quote(member.name),
        )
        for member in members
        if is_file(member.name)
    )
    return answer(FileList(package=package.name, files=tuple(views)))


async def file(request: web.Request) -> web.StreamResponse:
    """A member by its very name: a path here leads nowhere, it is only text to compare."""
    package = await _package(request, await job_of(request))
    return await _send_member(request, package, request.match_info["path"])


async def metadata(request: web.Request) -> web.StreamResponse:
    job = await job_of(request)
    sidecar = await _stat(request, job, sidecar_name(job.name, _ending(job)))
    return await send_blob(request, Container.RESULTS, sidecar, shown="inline")


async def log(request: web.Request) -> web.StreamResponse:
    """Of a running job the last part of its output so far; of one that has ended, all of it."""
    job = await job_of(request)
    if job.state in ENDINGS:
        with suppress(NotFound):  # failed by its time limit, it may run on
            return await _send_member(request, await _package(request, job), LOG_MEMBER)
    progress = await _stat(request, job, progress_log_name(job.name), "There is no output yet.")
    return await send_blob(request, Container.RESULTS, progress, shown="inline")


def is_file(name: str) -> bool:
    """Whether a member is shown: no folder, and nothing that a client could unpack beside its target."""
    return (
        len(name) <= PATH_CHARACTERS
        and name.isprintable()
        and not {"\\", "\ufffd"} & set(name)
        and not {"", ".", ".."} & set(name.split("/"))
    )


async def _send_member(request: web.Request, package: BlobInfo, name: str) -> web.StreamResponse:
    member = await ZipReader(request.app[CONTEXT].storage, package).find(name) if is_file(name) else None
    if member is None:
        raise NotFound("The package holds no such file.")
    return await send_member(request, package, member)


def _ending(job: Job, wanted: Ending | None = None) -> Ending:
    """How the job ended; raises `Refused` while it has not, or not in the wanted way."""
    ending = ENDINGS.get(job.state)
    if ending is None or wanted not in {None, ending}:
        kind = "failed package" if wanted is Ending.FAILED else "result package"
        raise Refused(f"A job that is {job.state} has no {kind}.", state=job.state.value)
    return ending


async def _package(request: web.Request, job: Job, wanted: Ending | None = None) -> BlobInfo:
    return await _stat(request, job, result_name(job.name, _ending(job, wanted)))


async def _stat(
    request: web.Request,
    job: Job,
    name: str,
    absent: str = "It is not in storage; a job that failed before it ran has left nothing.",
) -> BlobInfo:
    """The blob, if it is this job's; raises `NotFound`."""
    blob = await request.app[CONTEXT].storage.stat(Container.RESULTS, name)
    if blob is None or RunMark.from_metadata(blob.metadata).uid not in {None, job.uid}:
        raise NotFound(absent)
    return blob


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/v1/jobs/{id}/result",
        handler=result,
        summary="A complete job's result package",
        answer="application/zip",
        problems=(404, 409, 416),
    ),
    Endpoint(
        method="GET",
        path="/v1/jobs/{id}/failed-result",
        handler=failed_result,
        summary="A failed job's package",
        answer="application/zip",
        problems=(404, 409, 416),
    ),
    Endpoint(
        method="GET",
        path="/v1/jobs/{id}/report",
        handler=report,
        summary="analysis_report.html of a complete job",
        answer="text/html",
        problems=(404, 409),
    ),
    Endpoint(
        method="GET",
        path="/v1/jobs/{id}/files",
        handler=files,
        summary="The members of the package that a job left",
        answer=FileList,
        problems=(404, 409),
    ),
    Endpoint(
        method="GET",
        path="/v1/jobs/{id}/files/{path}",
        handler=file,
        summary="One member of the package",
        answer="*/*",
        problems=(404, 409),
    ),
    Endpoint(
        method="GET",
        path="/v1/jobs/{id}/metadata",
        handler=metadata,
        summary="The sidecar of an ended job",
        answer="application/json",
        problems=(404, 409, 416),
    ),
    Endpoint(
        method="GET",
        path="/v1/jobs/{id}/log",
        handler=log,
        summary="A job's output, so far or whole",
        answer="text/plain",
        problems=(404, 416),
    ),
)
