"""A job's output as a stream that grows with it and ends with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from aioanalysis.api.context import CALLER, TRACE
from aioanalysis.api.events import HUB
from aioanalysis.api.problems import InvalidQuery
from aioanalysis.api.serving import HEADERS
from aioanalysis.api.signin import still_holds
from aioanalysis.errors import RequestError, Unavailable

POLL_SECONDS: Final = 1.0
CHECK_SECONDS: Final = 15.0  # between looks at the session or key; a link is looked at each time
WRITE_SECONDS: Final = 20.0
MARK_BYTES: Final = 1024
GAP: Final = b"\n[...]\n"

Look = Callable[[], Awaitable[tuple[bytes, bool]]]
"""The end of the output as it is now, and whether it is complete."""


def wants_to_follow(request: web.Request) -> bool:
    """Raises `InvalidQuery`."""
    value = request.query.get("follow", "false")
    if value not in {"true", "false"}:
        raise InvalidQuery("The query is not as it should be.", [("follow", "must be true or false")])
    return value == "true"


async def follow(request: web.Request, look: Look) -> web.StreamResponse:
    """What `look` gives now, then what is new of it, until it ends, or job, session or key have gone."""
    window, ended = await look()
    response = web.StreamResponse(
        headers={**HEADERS, "Content-Type": "text/plain; charset=utf-8", "X-Accel-Buffering": "no"}
    )
    await response.prepare(request)
    if request.method == "HEAD":
        return response
    hub, trace, clock = request.app[HUB], request[TRACE], asyncio.get_running_loop().time
    seen, checked = b"", clock()
    try:
        while True:
            piece = fresh(seen, window)
            if piece:
                async with asyncio.timeout(WRITE_SECONDS):
                    await response.write(piece)
                trace.sent_bytes += len(piece)
                seen = window
            if ended or hub.stopping or request.transport is None or request.transport.is_closing():
                break
            await asyncio.sleep(POLL_SECONDS)
            if request[CALLER].link is None and clock() >= checked + CHECK_SECONDS:
                if not await still_holds(request):
                    break
                checked = clock()
            try:
                window, ended = await look()
            except Unavailable:
                continue
            except RequestError:  # the job has gone
                break
    except ConnectionError:
        trace.cut = "client"
    except TimeoutError:
        trace.cut = "slow client"
        if request.transport is not None:
            request.transport.abort()
    return response


def fresh(seen: bytes, window: bytes) -> bytes:
    """What of `window`, the end of a growing text, comes after `seen`, an earlier such end."""
    if window.startswith(seen):
        return window[len(seen) :]
    mark = seen[-MARK_BYTES:]
    at = window.rfind(mark)
    if at >= 0:
        return window[at + len(mark) :]
    return GAP + window if window else b""
