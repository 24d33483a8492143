"""Serves the page: its files as they are in the package, read once, told apart by their digests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Final

from aiohttp import web

from aioanalysis.api.endpoints import Endpoint
from aioanalysis.errors import NotFound

FOLDER: Final = Path(__file__).parents[1] / "page"
INDEX: Final = "index.html"
PRELOAD: Final = b"<!-- modulepreload -->"
SCRIPTS: Final = frozenset({"start.js", "theme.js"})
"""Those that are no modules."""
TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
HEADERS: Final = {
    "Cache-Control": "no-cache",  # kept, but asked for anew: a new version counts at once
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Asset:
    """One file of the page."""

    body: bytes
    media_type: str
    etag: str


@cache
def assets() -> Mapping[str, Asset]:
    """The page's files by their paths below its folder; what has no type of ours is not served.

    The index names all modules, so that a browser asks for them at once, not for each when another needs it.
    """
    found = {}
    for path in sorted(FOLDER.rglob("*")):
        media_type = TYPES.get(path.suffix)
        if media_type is not None and path.is_file():
            body = path.read_bytes()
            name = str(PurePosixPath(path.relative_to(FOLDER)))
            found[name] = _asset(body, media_type)
    index = found[INDEX]
    links = "".join(f'<link rel="modulepreload" href="page/{name}">' for name in found if _is_module(name))
    found[INDEX] = _asset(index.body.replace(PRELOAD, links.encode()), index.media_type)
    return found


def _asset(body: bytes, media_type: str) -> Asset:
    return Asset(body=body, media_type=media_type, etag=sha256(body).hexdigest()[:32])


def _is_module(name: str) -> bool:
    return name.endswith(".js") and name not in SCRIPTS


async def index(request: web.Request) -> web.StreamResponse:
    return _send(request, assets()[INDEX])


async def asset(request: web.Request) -> web.StreamResponse:
    """A file by its very name: a path here leads nowhere, it is only text to compare."""
    found = assets().get(request.match_info["path"])
    if found is None:
        raise NotFound("The page has no such file.")
    return _send(request, found)


def _send(request: web.Request, found: Asset) -> web.Response:
    headers = {**HEADERS, "ETag": f'"{found.etag}"'}
    if any(tag.value in {found.etag, "*"} for tag in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    return web.Response(body=found.body, headers={**headers, "Content-Type": found.media_type})


ENDPOINTS: Final = (
    Endpoint(method="GET", path="/", handler=index, summary="The page", answer="text/html"),
    Endpoint(
        method="GET",
        path="/page/{path}",
        handler=asset,
        summary="A file of the page",
        answer="*/*",
        problems=(404,),
    ),
)
