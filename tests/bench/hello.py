"""The least that aiohttp can serve, as a process of its own: what our answers are held to."""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator

from aiohttp import web


async def hello(_: web.Request) -> web.Response:
    return web.json_response({"hello": "world"})


async def main() -> None:
    app = web.Application()
    app.router.add_get("/", hello)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"listening on {runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


@contextlib.contextmanager
def running() -> Iterator[tuple[str, int]]:
    """The server in a process; its address and pid."""
    process = subprocess.Popen([sys.executable, "-m", "tests.bench.hello"], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        port = re.search(r"\d+", line)
        assert port is not None, line
        yield f"http://127.0.0.1:{port[0]}", process.pid
    finally:
        process.terminate()
        process.wait(10)
        if process.stdout is not None:
            process.stdout.close()


if __name__ == "__main__":
    asyncio.run(main())
