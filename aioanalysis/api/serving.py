"""Serves stored files of jobs: their headers, their ETags, and the parts that a request wants."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Final, Literal
from urllib.parse import quote

from aiohttp import web

from aioanalysis.api.context import CONTEXT
from aioanalysis.api.downloads import DOWNLOADS
from aioanalysis.api.problems import HttpProblem
from aioanalysis.api.ranges import Part, Unchanged, Unsatisfiable, decide
from aioanalysis.api.zipread import Member, ZipReader
from aioanalysis.domain.exchange import Container, RunMark
from aioanalysis.interfaces import BlobInfo, PackageStorage

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
UNKNOWN_TYPE: Final = "application/octet-stream"
TYPES: Final = {
    ".csv": "text/csv; charset=utf-8",
    ".gif": "image/gif",
    ".gz": "application/gzip",
    ".htm": "text/html; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".json": "application/json",
    ".jsonl": "application/x-ndjson",
    ".log": "text/plain; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".tar": "application/x-tar",
    ".tsv": "text/tab-separated-values; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".zip": "application/zip",
}
Shown = Literal["attachment", "inline"]
Content = AbstractAsyncContextManager[AsyncIterator[bytes]]


def media_type(name: str) -> str:
    """By the name's end only: nothing is guessed from what a file holds."""
    return TYPES.get(PurePosixPath(name).suffix.lower(), UNKNOWN_TYPE)


def disposition(shown: Shown, name: str) -> str:
    """Content-Disposition with the last part of `name`, whatever its characters (RFC 6266)."""
    last = name.rpartition("/")[2]
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", last) or "file"
    wide = "" if plain == last else f"; filename*=UTF-8''{quote(last, safe='')}"
    return f'{shown}; filename="{plain}"{wide}'


async def send_blob(
    request: web.Request, container: Container, blob: BlobInfo, *, shown: Shown = "attachment"
) -> web.StreamResponse:
    """A blob, or the part of it that the request wants."""
    headers = {}
    if digest := sha256_of(blob):
        headers["Repr-Digest"] = f"sha-256=:{b64encode(bytes.fromhex(digest)).decode()}:"

    def content(start: int, end: int) -> Content:
        return _bytes(request.app[CONTEXT].storage, container, blob, start, end)

    return await send_ranged(
        request, content, name=blob.name, size=blob.size, etag=etag_of(blob), shown=shown, headers=headers
    )


async def send_ranged(
    request: web.Request,
    content: Callable[[int, int], Content],
    *,
    name: str,
    size: int,
    etag: str,
    shown: Shown = "attachment",
    headers: Mapping[str, str] | None = None,
) -> web.StreamResponse:
    """What the request wants of a file of `size` bytes; `content` gives those from a start up to an end."""
    found = decide(request.method, request.headers, size=size, etag=etag)
    if isinstance(found, Unchanged):
        return _unchanged(etag)
    if isinstance(found, Unsatisfiable):
        raise HttpProblem(
            416, "Nothing of it is in this range.", headers={"Content-Range": f"bytes */{size}"}
        )
    told = {
        **HEADERS,
        "ETag": etag,
        "Accept-Ranges": "bytes",
        "Content-Type": media_type(name),
        "Content-Disposition": disposition(shown, name),
        **(headers or {}),
    }
    start, end, status = 0, size, 200
    if isinstance(found, Part):
        start, end, status = found.start, found.end, 206
        told["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    return await request.app[DOWNLOADS].send(
        request, content(start, end), length=end - start, status=status, headers=told
    )


async def send_member(request: web.Request, package: BlobInfo, member: Member) -> web.StreamResponse:
    """One member of a zip in results, inflated on the way; no more of the zip is read.

    Of a part of it what comes before is inflated too, and not sent.
    """
    shown: Shown = "attachment" if media_type(member.name) == UNKNOWN_TYPE else "inline"
    etag = f'{etag_of(package)[:-1]}-{member.crc:08x}-{member.offset:x}"'
    reader = ZipReader(request.app[CONTEXT].storage, package)

    def content(start: int, end: int) -> Content:
        return reader.content(member, start=start, end=end)

    return await send_ranged(request, content, name=member.name, size=member.size, etag=etag, shown=shown)


def etag_of(blob: BlobInfo) -> str:
    """The content's SHA-256; without one what changes with every write, and looks like no digest."""
    return f'"{sha256_of(blob) or "v-" + sha256(blob.etag.encode()).hexdigest()}"'


def sha256_of(blob: BlobInfo) -> str | None:
    """The content's SHA-256 as its writer has told it."""
    digest = RunMark.from_metadata(blob.metadata).sha256 or ""
    return digest if SHA256.fullmatch(digest) else None


def _unchanged(etag: str) -> web.Response:
    return web.Response(status=304, headers={**HEADERS, "ETag": etag})


@asynccontextmanager
async def _bytes(
    storage: PackageStorage, container: Container, blob: BlobInfo, start: int, end: int
) -> AsyncIterator[AsyncIterator[bytes]]:
    async with storage.open(container, blob.name, start=start, end=end, etag=blob.etag) as stream:
        yield stream.chunks()
