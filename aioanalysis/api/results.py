"""What a job leaves: its package, the package's members (the report is one), its sidecar and its output."""

from __future__ import annotations

from contextlib import suppress
from typing import Final
from urllib.parse import quote

from aiohttp import web

from aioanalysis.api.access import job_of
from aioanalysis.api.context import CONTEXT
from aioanalysis.api.endpoints import Endpoint
from aioanalysis.api.following import follow, wants_to_follow
from aioanalysis.api.framebundle import send_frames
from aioanalysis.api.requests import FrameQuery, LogQuery, read_frame
from aioanalysis.api.responses import answer, job_path
from aioanalysis.api.runs import ENDINGS, Run, run_numbered, run_of, stat
from aioanalysis.api.runviews import View
from aioanalysis.api.serving import media_type, send_blob, send_member
from aioanalysis.api.zipread import ZipReader
from aioanalysis.domain.exchange import (
    Container,
    Ending,
    progress_log_name,
    result_name,
    sidecar_name,
)
from aioanalysis.domain.members import REPORT_MEMBER
from aioanalysis.domain.states import FINISHED
from aioanalysis.errors import Contested, Missing, NotFound
from aioanalysis.interfaces import BlobInfo

LOG_TAIL_BYTES: Final = 256 * 1024
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
    """Of a finished job with frames one zip of the packages of those that are complete."""
    return await _send_package(request, Ending.COMPLETE)


async def failed_result(request: web.Request) -> web.StreamResponse:
    """Of a finished job with frames one zip of the packages that failed frames have left."""
    return await _send_package(request, Ending.FAILED)


async def report(request: web.Request) -> web.StreamResponse:
    """Out of the package by ranges: of a package of any size only the report's own part is read."""
    package = await _package(request, await run_of(request), Ending.COMPLETE)
    return await _send_member(request, package, REPORT_MEMBER)


async def files(request: web.Request) -> web.StreamResponse:
    """The members of the package that the job left, complete or failed; odd names are left out."""
    run = await run_of(request)
    package = await _package(request, run)
    members = await ZipReader(request.app[CONTEXT].storage, package).members()
    place, query = f"{job_path(run.job.id)}/files/", run.query
    views = (
        FileView(
            path=member.name,
            size=member.size,
            compressed_size=member.compressed,
            crc32=f"{member.crc:08x}",
            media_type=media_type(member.name),
            link=place + quote(member.name) + query,
        )
        for member in members
        if is_file(member.name)
    )
    return answer(FileList(package=package.name, files=tuple(views)))


async def file(request: web.Request) -> web.StreamResponse:
    """A member by its very name: a path here leads nowhere, it is only text to compare."""
    package = await _package(request, await run_of(request))
    return await _send_member(request, package, request.match_info["path"])


async def metadata(request: web.Request) -> web.StreamResponse:
    run = await run_of(request)
    sidecar = await stat(request, run.job, sidecar_name(run.stem, run.ending()))
    return await send_blob(request, Container.RESULTS, sidecar, shown="inline")


async def log(request: web.Request) -> web.StreamResponse:
    """Of a running job the last part of its output so far; of one that has ended, all of it."""
    if wants_to_follow(request):
        return await follow(request, lambda: _log_so_far(request))
    run = await run_of(request)
    if run.state in ENDINGS:
        with suppress(NotFound):  # failed by its time limit, it may run on
            return await _send_member(request, await _package(request, run), LOG_MEMBER)
    progress = await stat(request, run.job, progress_log_name(run.stem), "There is no output yet.")
    return await send_blob(request, Container.RESULTS, progress, shown="inline")


async def _log_so_far(request: web.Request) -> tuple[bytes, bool]:
    """The end of the output, and whether the run is over."""
    run, storage = await run_of(request), request.app[CONTEXT].storage
    window = bytearray()
    with suppress(NotFound, Missing, Contested):
        if run.state in ENDINGS:
            package = ZipReader(storage, await _package(request, run))
            member = await package.find(LOG_MEMBER)
            if member is not None:
                async with package.content(member) as pieces:
                    async for piece in pieces:
                        window += piece
                        del window[:-LOG_TAIL_BYTES]
                return bytes(window), True
        blob = await stat(request, run.job, progress_log_name(run.stem))
        async with storage.open(Container.RESULTS, blob.name, etag=blob.etag) as stream:
            async for piece in stream.chunks():
                window += piece
    return bytes(window), run.state in FINISHED


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


async def _send_package(request: web.Request, wanted: Ending) -> web.StreamResponse:
    job, number = await job_of(request), read_frame(request)
    if job.has_frames and number is None:
        return await send_frames(request, job, wanted)
    package = await _package(request, run_numbered(job, number), wanted)
    return await send_blob(request, Container.RESULTS, package)


async def _package(request: web.Request, run: Run, wanted: Ending | None = None) -> BlobInfo:
    return await stat(request, run.job, result_name(run.stem, run.ending(wanted)))


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/v1/jobs/{id}/result",
        handler=result,
        summary="A complete job's result package",
        query=FrameQuery,
        answer="application/zip",
        problems=(404, 409, 416, 422),
    ),
    Endpoint(
        method="GET",
        path="/v1/jobs/{id}/failed-result",
        handler=failed_result,
        summary="A failed job's package",
        query=FrameQuery,
        answer="application/zip",
        problems=(404, 409, 416, 422),
    ),
    Endpoint(
        method="GET",
        path="/v1/jobs/{id}/report",
        handler=report,
        summary="analysis_report.html of a complete job",
        query=FrameQuery,
        answer="text/html",
        problems=(404, 409, 416, 422),
    ),
    Endpoint(
        method="GET",
        path="/v1/jobs/{id}/files",
        handler=files,
        summary="The members of the package that a job left",
        query=FrameQuery,
        answer=FileList,
        problems=(404, 409, 422),
    ),
    Endpoint(
        method="GET",
        path="/v1/jobs/{id}/files/{path}",
        handler=file,
        summary="One member of the package",
        query=FrameQuery,
        answer="*/*",
        problems=(404, 409, 416, 422),
    ),
    Endpoint(
        method="GET",
        path="/v1/jobs/{id}/metadata",
        handler=metadata,
        summary="The sidecar of an ended job",
        query=FrameQuery,
        answer="application/json",
        problems=(404, 409, 416, 422),
    ),
    Endpoint(
        method="GET",
        path="/v1/jobs/{id}/log",
        handler=log,
        summary="A job's output, so far or whole",
        query=LogQuery,
        answer="text/plain",
        problems=(404, 416, 422),
    ),
)
