"""The two blob containers as administrators and the ingest pipeline see them: files by storage name."""

from __future__ import annotations

import re
from typing import Final, Self
from urllib.parse import quote, urlencode

from aiohttp import web

from aioanalysis.api.access import require_all
from aioanalysis.api.context import CALLER, CONTEXT, job_store_time
from aioanalysis.api.endpoints import Endpoint
from aioanalysis.api.problems import InvalidQuery
from aioanalysis.api.requests import PackagesQuery, read_query
from aioanalysis.api.responses import ListLinks, answer
from aioanalysis.api.runviews import Time, View
from aioanalysis.api.serving import send_blob
from aioanalysis.domain.exchange import (
    ATTEMPTS,
    Container,
    PackageMeta,
    parse_result,
    parse_stem,
    stem_of_package,
)
from aioanalysis.errors import Invalid, NotFound
from aioanalysis.interfaces import BlobInfo, LeaseState

NAME: Final = re.compile(
    r"(?=.{1,512}$)[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*", re.ASCII
)
"""A storage name of ours: parts that begin with no dot, so that none leads anywhere else."""


class BlobView(View):
    """A file in storage; what its metadata does not tell is null. `held`: a worker has a lease on it."""

    container: Container
    name: str
    size: int
    modified_at: Time
    held: bool
    job: str | None
    attempt: int | None
    owner: str | None
    worker: str | None
    sha256: str | None
    link: str

    @classmethod
    def of(cls, container: Container, blob: BlobInfo) -> Self:
        meta = PackageMeta.from_metadata(blob.metadata)
        stem = re.search(r"\.([0-9a-hjkmnp-tv-z]{8})(?=[.-])", blob.name)
        return cls(
            container=container,
            name=blob.name,
            size=blob.size,
            modified_at=blob.modified_at,
            held=blob.lease is LeaseState.HELD,
            job=stem[1] if stem else None,
            attempt=meta.attempt if "attempt" in blob.metadata else None,
            owner=meta.owner,
            worker=meta.worker,
            sha256=meta.sha256,
            link=f"/v1/packages/{container}/{quote(blob.name)}",
        )


class BlobList(View):
    """Files in order of name; `after` asks for the next page, null at the end."""

    files: tuple[BlobView, ...]
    after: str | None
    links: ListLinks


async def listing(request: web.Request) -> web.StreamResponse:
    """One container's files in order of name, those of its folders too."""
    require_all(request, "The list of packages")
    query = read_query(request, PackagesQuery)
    storage = request.app[CONTEXT].storage
    try:
        page = await storage.page(query.container, query.prefix, limit=query.limit, place=query.after)
    except Invalid as error:
        raise InvalidQuery(str(error), [("after", "is not one that this service gave")]) from None
    pairs = [(name, value) for name, value in request.query.items() if name != "after"]
    link = f"{request.path}?{urlencode([*pairs, ('after', page.place)])}" if page.place else None
    views = tuple(BlobView.of(query.container, blob) for blob in page.blobs)
    return answer(BlobList(files=views, after=page.place, links=ListLinks(next=link)))


async def show(request: web.Request) -> web.StreamResponse:
    """Any file for administrators and the system token; for a job's owner the files of that job."""
    name = request.match_info["name"]
    try:
        container = Container(request.match_info["container"])
    except ValueError:
        raise NotFound("There is no such container.") from None
    if not NAME.fullmatch(name):
        raise NotFound("There is no such file.")
    sees_all = request[CALLER].user.sees_all
    uid = None if sees_all else await _uid_of_own_job(request, name)
    blob = await request.app[CONTEXT].storage.stat(container, name)
    if blob is None or (not sees_all and PackageMeta.from_metadata(blob.metadata).uid not in {None, uid}):
        raise NotFound("There is no such file.")
    return await send_blob(request, container, blob)


async def _uid_of_own_job(request: web.Request, name: str) -> str:
    """The uid of the caller's job that a file of this name belongs to; raises `NotFound`."""
    stem = _stem_of(name)
    parsed = parse_stem(stem) if stem else None
    if parsed is None:
        raise NotFound("There is no such file.")
    async with job_store_time():
        job = await request.app[CONTEXT].jobs.get(parsed.job_id)
    if job is None or job.submitter != request[CALLER].user.name or job.title != parsed.title:
        raise NotFound("There is no such file.")
    return job.uid


def _stem_of(name: str) -> str | None:
    if package := stem_of_package(name):
        return package
    if name.startswith(ATTEMPTS):
        attempt = re.fullmatch(r"(.+?\.[^.]+)\.[0-9]+\.[a-z.]+", name.removeprefix(ATTEMPTS))
        return attempt[1] if attempt else None
    result = parse_result(name)
    return result[0] if result else None


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/v1/packages",
        handler=listing,
        summary="What is in queue or results",
        query=PackagesQuery,
        answer=BlobList,
        problems=(403, 422),
    ),
    Endpoint(
        method="GET",
        path="/v1/packages/{container}/{name}",
        handler=show,
        summary="One file by its storage name",
        answer="*/*",
        problems=(404, 416),
    ),
)
