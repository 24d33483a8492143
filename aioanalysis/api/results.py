"""What a job leaves: its result package, its failed package, and the report inside."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Final

from aiohttp import web

from aioanalysis.api.access import job_of
from aioanalysis.api.context import CONTEXT
from aioanalysis.api.downloads import DOWNLOADS
from aioanalysis.api.endpoints import Endpoint
from aioanalysis.api.problems import HttpProblem
from aioanalysis.api.ranges import Part, Unchanged, Unsatisfiable, decide
from aioanalysis.api.zipread import ZipReader
from aioanalysis.domain.exchange import REPORT_MEMBER, Container, Ending, RunMark, result_name
from aioanalysis.domain.job import Job
from aioanalysis.domain.states import State
from aioanalysis.errors import NotFound, Refused
from aioanalysis.interfaces import BlobInfo, PackageStorage

STATES: Final = {Ending.COMPLETE: State.COMPLETE, Ending.FAILED: State.FAILED}
SANDBOX: Final = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; media-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""What a method wrote runs no script, sends nothing anywhere, and has no part in our origin."""

HEADERS: Final = {
    "Cache-Control": "private, no-cache",
    "Content-Security-Policy": SANDBOX,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
SHA256: Final = re.compile(r"[0-9a-f]{64}")


async def result(request: web.Request) -> web.StreamResponse:
    job, package = await _package(request, Ending.COMPLETE)
    return await _send_package(request, job, package, Ending.COMPLETE)


async def failed_result(request: web.Request) -> web.StreamResponse:
    job, package = await _package(request, Ending.FAILED)
    return await _send_package(request, job, package, Ending.FAILED)


async def report(request: web.Request) -> web.StreamResponse:
    """Out of the package by ranges: of a package of any size only the report's own part is read."""
    _, package = await _package(request, Ending.COMPLETE)
    etag = f'{_etag(package)[:-1]}-report"'
    headers = {**HEADERS, "ETag": etag, "Content-Type": "text/html; charset=utf-8"}
    if isinstance(decide("HEAD", request.headers, size=0, etag=etag), Unchanged):
        return web.Response(status=304, headers={**HEADERS, "ETag": etag})
    package_zip = ZipReader(request.app[CONTEXT].storage, package)
    member = await package_zip.find(REPORT_MEMBER)
    if member is None:
        raise NotFound(f"The result package holds no {REPORT_MEMBER}.")
    return await request.app[DOWNLOADS].send(
        request, package_zip.content(member), length=member.size, headers=headers
    )


async def _package(request: web.Request, ending: Ending) -> tuple[Job, BlobInfo]:
    """The job and its package; raises `Refused` while there can be none, `NotFound` when it is not there."""
    job = await job_of(request)
    if job.state is not STATES[ending]:
        kind = "result" if ending is Ending.COMPLETE else "failed"
        raise Refused(f"A job that is {job.state} has no {kind} package.", state=job.state.value)
    package = await request.app[CONTEXT].storage.stat(Container.RESULTS, result_name(job.name, ending))
    if package is None or RunMark.from_metadata(package.metadata).uid not in {None, job.uid}:
        raise NotFound("The job's package is not in storage; a job that failed before it ran has none.")
    return job, package


async def _send_package(
    request: web.Request, job: Job, package: BlobInfo, ending: Ending
) -> web.StreamResponse:
    etag = _etag(package)
    headers = {
        **HEADERS,
        "ETag": etag,
        "Accept-Ranges": "bytes",
        "Content-Type": "application/zip",
        "Content-Disposition": f'attachment; filename="{result_name(job.name, ending)}"',
    }
    if digest := _sha256(package):
        headers["Repr-Digest"] = f"sha-256=:{b64encode(bytes.fromhex(digest)).decode()}:"
    found = decide(request.method, request.headers, size=package.size, etag=etag)
    if isinstance(found, Unchanged):
        return web.Response(status=304, headers={**HEADERS, "ETag": etag})
    if isinstance(found, Unsatisfiable):
        raise HttpProblem(
            416,
            "Nothing of the package is in this range.",
            headers={"Content-Range": f"bytes */{package.size}"},
        )
    start, end, status = 0, package.size, 200
    if isinstance(found, Part):
        start, end, status = found.start, found.end, 206
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{package.size}"
    content = _bytes(request.app[CONTEXT].storage, package, start, end)
    return await request.app[DOWNLOADS].send(
        request, content, length=end - start, status=status, headers=headers
    )


@asynccontextmanager
async def _bytes(
    storage: PackageStorage, package: BlobInfo, start: int, end: int
) -> AsyncIterator[AsyncIterator[bytes]]:
    async with storage.open(
        Container.RESULTS, package.name, start=start, end=end, etag=package.etag
    ) as stream:
        yield stream.chunks()


def _sha256(package: BlobInfo) -> str | None:
    digest = RunMark.from_metadata(package.metadata).sha256 or ""
    return digest if SHA256.fullmatch(digest) else None


def _etag(package: BlobInfo) -> str:
    """The content's SHA-256; of a package without one, that of what changes with every write of it."""
    return f'"{_sha256(package) or sha256(package.etag.encode()).hexdigest()}"'


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
)
