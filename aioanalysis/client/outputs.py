"""A job's output while it runs: one stream over as many connections as it takes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

import aiohttp

from aioanalysis.client.transport import ApiProblem, NotReached, Query, Transport, passes

SILENCE_SECONDS: Final = 60.0
QUIET_SECONDS: Final = 0.5
PAUSE_SECONDS: Final = 1.0
MARK_BYTES: Final = 1024
GAP: Final = b"\n[...]\n"


async def follow(
    transport: Transport, path: str, query: Query, ended: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[bytes, None]:
    """The output so far, and what comes of it until the job has `ended`.

    A connection that ends before is made again. It begins with the last part of the output, as the service
    keeps it: what of that has been given already is left out. Raises as a request does.
    """
    mark = b""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=SILENCE_SECONDS)
    while True:
        try:
            async with transport.opened(
                "GET", path, query=[*query, ("follow", "true")], timeout=timeout
            ) as response:
                if mark:
                    piece = after_mark(await _until_quiet(response.content), mark)
                    if piece:
                        yield piece
                    mark = (mark + piece)[-MARK_BYTES:]
                async for piece in response.content.iter_any():
                    yield piece
                    mark = (mark + piece)[-MARK_BYTES:]
        except (ApiProblem, NotReached) as error:
            if not passes(error):
                raise
        if await ended():
            return
        await asyncio.sleep(PAUSE_SECONDS)


def after_mark(text: bytes, mark: bytes) -> bytes:
    """What of `text` comes after `mark`, the end of what has been seen; all of it if that is not there."""
    at = text.rfind(mark)
    if at >= 0:
        return text[at + len(mark) :]
    return GAP + text if text else b""


async def _until_quiet(content: aiohttp.StreamReader) -> bytes:
    """What the service sends at once."""
    text = bytearray()
    try:
        while True:
            async with asyncio.timeout(QUIET_SECONDS):
                piece = await content.readany()
            if not piece:
                break
            text += piece
    except TimeoutError:
        pass
    return bytes(text)
