"""A record store to test against: answers whatever a test tells it to, and remembers what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class RecordStub:
    """`replies` by path, percent-encoded as it came; 404 for any other. `answer_all` answers in its stead."""

    url: str = ""
    replies: dict[str, Handler] = field(default_factory=dict)
    asked: list[web.Request] = field(default_factory=list)
    answer_all: Handler | None = None

    @property
    def paths(self) -> list[str]:
        return [request.raw_path for request in self.asked]

    def put(
        self, path: str, body: bytes = b"", *, status: int = 200, content_type: str = "", **headers: str
    ) -> None:
        """Answer `path` with this; `_` in header names reads `-`."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        given["Content-Type"] = content_type or "application/x-ndjson"

        async def reply(request: web.Request) -> web.StreamResponse:
            return web.Response(body=body, status=status, headers=given)

        self.replies[path] = reply

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if self.answer_all is not None:
            return await self.answer_all(request)
        self.asked.append(request)
        handler = self.replies.get(request.raw_path)
        if handler is None:
            return web.json_response({"detail": f"there is no {request.path}"}, status=404)
        return await handler(request)


@asynccontextmanager
async def record_stub() -> AsyncIterator[RecordStub]:
    stub = RecordStub()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", stub.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        stub.url = f"http://{host}:{port}"
        yield stub
    finally:
        await runner.cleanup()


@asynccontextmanager
async def raw_stub(reply: bytes) -> AsyncIterator[str]:
    """The address of a server that answers every request with these bytes and closes the connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}"
    finally:
        server.close()
        await server.wait_closed()
