"""The least that one Python process can do between a store and a client: what a hop through it costs."""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator

import aiohttp
from aiohttp import web

BUFFER_BYTES = 512 * 1024


async def main(target: str) -> None:
    async with aiohttp.ClientSession(read_bufsize=BUFFER_BYTES, auto_decompress=False) as session:

        async def forward(request: web.Request) -> web.StreamResponse:
            async with session.get(target) as source:
                response = web.StreamResponse()
                response.content_length = source.content_length
                await response.prepare(request)
                async for piece in source.content.iter_any():
                    await response.write(piece)
                return response

        app = web.Application()
        app.router.add_get("/", forward)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        print(f"listening on {runner.addresses[0][1]}", flush=True)
        await asyncio.Event().wait()


@contextlib.contextmanager
def running(target: str) -> Iterator[str]:
    """The proxy of the address `target` in a process; its own address."""
    arguments = [sys.executable, "-m", "tests.bench.proxy", target]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().decode()
            port = re.search(r"\d+", line)
            assert port is not None, line
            yield f"http://127.0.0.1:{port[0]}"
        finally:
            process.terminate()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
