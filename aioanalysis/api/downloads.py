"""Sends stored bytes: the one place that writes after the headers have gone, so that no error follows them.

All that can fail is done before: the first piece is read before the status is sent. Afterwards a failure cuts
the connection, which every client sees, since the length was announced.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final, Self

from aiohttp import web

from aioanalysis import logs
from aioanalysis.api.context import TRACE
from aioanalysis.errors import AnalysisError, Unavailable

WRITE_BYTES: Final = 1024 * 1024
WRITE_SECONDS: Final = 30.0
LEAST_BYTES: Final = 256 * 1024
"""A client that takes less than this of what waits for it in WRITE_SECONDS is given up."""

log = logs.get()


class Downloads:
    """Counts the downloads under way and refuses more than `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.running = 0

    async def send(
        self,
        request: web.Request,
        content: AbstractAsyncContextManager[AsyncIterator[bytes]],
        *,
        length: int,
        status: int = 200,
        headers: Mapping[str, str],
    ) -> web.StreamResponse:
        """Answer with `length` bytes of `content`; without them where the request is a HEAD."""
        response = web.StreamResponse(status=status, headers=headers)
        response.content_length = length
        if request.method == "HEAD":
            await response.prepare(request)
            return response
        if self.running >= self._most:
            raise Unavailable("too many downloads are under way", retry_after=5)
        self.running += 1
        try:
            async with content as pieces:
                begun = [await anext(pieces, b"")]
                await response.prepare(request)
                await _send(request, response, begun, pieces, length)
        finally:
            self.running -= 1
        return response


class _Patience:
    """Gives up a client that takes too little of what waits for it.

    `waits` is where the bytes begin that are being written, None while none are. A look every WRITE_SECONDS:
    a timeout for each write would cost a tenth of a download.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._seen: int | None = None
        self._left = 0
        self.waits: int | None = None
        self.over = False

    def __enter__(self) -> Self:
        self._timer = self._loop.call_later(WRITE_SECONDS, self._look)
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        left = self._transport.get_write_buffer_size()
        if self.waits is not None and self.waits == self._seen and left > self._left - LEAST_BYTES:
            self.over = True
            self._transport.abort()
            return
        self._seen, self._left = self.waits, left
        self._timer = self._loop.call_later(WRITE_SECONDS, self._look)


async def _send(
    request: web.Request,
    response: web.StreamResponse,
    begun: list[bytes],
    rest: AsyncIterator[bytes],
    length: int,
) -> None:
    """`begun` has the first piece and is emptied: nothing is held for longer than it takes to send it."""
    trace, transport, piece = request[TRACE], request.transport, begun.pop()
    if transport is None:
        trace.cut = "client"
        return
    with _Patience(transport) as patience:
        try:
            while piece:
                if trace.sent_bytes + len(piece) > length:
                    raise Unavailable(f"more than the announced {length} bytes")
                for part in _parts(piece):
                    patience.waits = trace.sent_bytes
                    await response.write(part)
                    trace.sent_bytes += len(part)
                patience.waits = None
                piece = await anext(rest, b"")
            if trace.sent_bytes < length:
                raise Unavailable(f"the source ended after {trace.sent_bytes} of {length} bytes")
        except ConnectionError:
            trace.cut = "client"
        except AnalysisError as error:
            trace.cut = "source"
            log.error("download_cut", error=str(error), sent_bytes=trace.sent_bytes)
        except Exception:
            trace.cut = "fault"
            log.exception("download_cut", sent_bytes=trace.sent_bytes)
    if patience.over:
        trace.cut = "slow client"
    if trace.cut is not None:
        transport.abort()


DOWNLOADS: Final = web.AppKey("downloads", Downloads)


def _parts(piece: bytes) -> Iterator[memoryview]:
    view = memoryview(piece)
    for start in range(0, len(view), WRITE_BYTES):
        yield view[start : start + WRITE_BYTES]
