"""What a job leaves: its package, the package's members (the report is one), its sidecar and its output."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from aiohttp import web

from aioanalysis.api.access import job_of
from aioanalysis.api.context import CONTEXT
from aioanalysis.api.endpoints import Endpoint
from aioanalysis.api.following import follow, wants_to_follow
from aioanalysis.api.framebundle import send_frames
from aioanalysis.api.problems import InvalidQuery
from aioanalysis.api.requests import FrameQuery, LogQuery, read_frame
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
from aioanalysis.domain.states import FINISHED, State
from aioanalysis.errors import Contested, Missing, NotFound, Refused
from aioanalysis.interfaces import BlobInfo

ENDINGS: Final = {State.COMPLETE: Ending.COMPLETE, State.FAILED: Ending.FAILED}
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


@dataclass(frozen=True, kw_only=True, slots=True)
class _Run:
    """One run of a job: a frame, or (without a number) its only one."""

    job: Job
    stem: str
    state: State
    number: int | None

    @property
    def query(self) -> str:
        return "" if self.number is None else f"?frame={self.number}"

    def ending(self, wanted: Ending | None = None) -> Ending:
        """How it ended; raises `Refused` while it has not, or not in the wanted way."""
        ending = ENDINGS.get(self.state)
        if ending is None or wanted not in {None, ending}:
            kind = "failed package" if wanted is Ending.FAILED else "result package"
            what = "job" if self.number is None else "frame"
            raise Refused(f"A {what} that is {self.state} has no {kind}.", state=self.state.value)
        return ending


async def result(request: web.Request) -> web.StreamResponse:
    """Of a finished job with frames one zip of the packages of those that are complete."""
    return await _send_package(request, Ending.COMPLETE)


async def failed_result(request: web.Request) -> web.StreamResponse:
    """Of a finished job with frames one zip of the packages that failed frames have left."""
    return await _send_package(request, Ending.FAILED)


async def report(request: web.Request) -> web.StreamResponse:
    """Out of the package by ranges: of a package of any size only the report's own part is read."""
    package = await _package(request, await _run_of(request), Ending.COMPLETE)
    return await _send_member(request, package, REPORT_MEMBER)


async def files(request: web.Request) -> web.StreamResponse:
    """The members of the package that the job left, complete or failed; odd names are left out."""
    run = await _run_of(request)
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
    package = await _package(request, await _run_of(request))
    return await _send_member(request, package, request.match_info["path"])


async def metadata(request: web.Request) -> web.StreamResponse:
    run = await _run_of(request)
    sidecar = await _stat(request, run.job, sidecar_name(run.stem, run.ending()))
    return await send_blob(request, Container.RESULTS, sidecar, shown="inline")


async def log(request: web.Request) -> web.StreamResponse:
    """Of a running job the last part of its output so far; of one that has ended, all of it."""
    if wants_to_follow(request):
        return await follow(request, lambda: _log_so_far(request))
    run = await _run_of(request)
    if run.state in ENDINGS:
        with suppress(NotFound):  # failed by its time limit, it may run on
            return await _send_member(request, await _package(request, run), LOG_MEMBER)
    progress = await _stat(request, run.job, progress_log_name(run.stem), "There is no output yet.")
    return await send_blob(request, Container.RESULTS, progress, shown="inline")


async def _log_so_far(request: web.Request) -> tuple[bytes, bool]:
    """The end of the output, and whether the run is over."""
    run, storage = await _run_of(request), request.app[CONTEXT].storage
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
        blob = await _stat(request, run.job, progress_log_name(run.stem))
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
    package = await _package(request, _run(job, number), wanted)
    return await send_blob(request, Container.RESULTS, package)


async def _run_of(request: web.Request) -> _Run:
    """The run of the path's job that the query names, which it must if there are frames."""
    job, number = await job_of(request), read_frame(request)
    if job.has_frames and number is None:
        raise InvalidQuery("The job has frames.", [("frame", f"1 to {len(job.frames)} must be given")])
    return _run(job, number)


def _run(job: Job, number: int | None) -> _Run:
    frame = job.frame(number)
    if frame is None:
        raise NotFound("The job has no such frame.")
    return _Run(
        job=job, stem=job.stem(frame), state=job.state if number is None else frame.state, number=number
    )


async def _package(request: web.Request, run: _Run, wanted: Ending | None = None) -> BlobInfo:
    return await _stat(request, run.job, result_name(run.stem, run.ending(wanted)))


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
        problems=(404, 409, 422),
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
        problems=(404, 409, 422),
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
