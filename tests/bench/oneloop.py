"""P13: status queries while, on the same event loop, a download streams and a result zip is made."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from aioanalysis import logs
from aioanalysis.aio import in_thread
from aioanalysis.domain.exchange import Container
from aioanalysis.storage.directory import DirectoryStorage
from aioanalysis.worker.archive import Archive
from tests.bench.archives import write_records
from tests.bench.load import Load, load, request_bytes
from tests.bench.measuring import MIB, Bench, Finding
from tests.support.apiserver import open_api

CONNECTIONS = 4
PAUSE = 0.01


async def measure(bench: Bench) -> AsyncIterator[Finding]:
    count = bench.pick(400, 3_000)
    folder = bench.new_folder("loop")
    await in_thread(write_records, folder / "records.jsonl", 128 * MIB)
    async with _process(folder, bench.redis().url, bench.fresh("loop")) as server:
        query = [request_bytes("GET", f"/v1/jobs/{server.job}", key=server.key)]

        async def asked() -> Load:
            return await load(query, server.url, count=count, connections=CONNECTIONS, pause=PAUSE)

        await asked()
        idle = await asked()
        async with aiohttp.ClientSession() as session:
            downloading = asyncio.create_task(_download_again_and_again(session, server))
            await server.say("zip")
            busy = await asked()
            downloading.cancel()
            await asyncio.wait({downloading})
    what = "p99 of status queries with a download and a zip on their loop"
    yield Finding(
        goal="P13",
        what=f"{what}, to idle",
        unit="ms",
        ours=[busy.percentile(0.99) * 1000],
        limit=[idle.percentile(0.99) * 1000],
        most=15,
    )
    yield Finding(goal="P13", what=what, unit="ms", ours=[busy.percentile(0.99) * 1000], by="value", most=25)


async def _download_again_and_again(session: aiohttp.ClientSession, server: Server) -> None:
    headers = {"Authorization": f"Bearer {server.key}"}
    while True:
        async with session.get(f"{server.url}/v1/jobs/{server.done}/result", headers=headers) as answer:
            answer.raise_for_status()
            async for _ in answer.content.iter_any():
                pass


@dataclass(kw_only=True)
class Server:
    """The process: where it listens, a key, a waiting job and one with a result."""

    url: str
    key: str
    job: str
    done: str
    process: asyncio.subprocess.Process

    async def say(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n".encode())
        await self.process.stdin.drain()


@asynccontextmanager
async def _process(folder: Path, redis_url: str, prefix: str) -> AsyncIterator[Server]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench.oneloop", str(folder), redis_url, prefix),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        told = json.loads(await process.stdout.readline())
        yield Server(**told, process=process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


async def serve(folder: Path, redis_url: str, prefix: str) -> None:
    """An API on a directory, until standard input ends; a line there begins to make zips."""
    with (folder / "log").open("w") as log:
        logs.configure(form="json", stream=log)
        storage = DirectoryStorage(folder / "storage")
        await storage.prepare()
        async with open_api(storage, redis_url=redis_url, prefix=prefix, folder=folder) as api:
            job = await api.add_job()
            done = await api.complete_job(bytes(128 * MIB))
            told = {"url": api.url, "key": api.keys["ann"], "job": job.id, "done": done.id}
            print(json.dumps(told), flush=True)
            zipping = None
            while await asyncio.to_thread(sys.stdin.readline):
                zipping = asyncio.create_task(_zip_again_and_again(folder, storage))
            if zipping is not None:
                zipping.cancel()
                await asyncio.wait({zipping})


async def _zip_again_and_again(folder: Path, storage: DirectoryStorage) -> None:
    job_dir = folder / "job"
    job_dir.mkdir()
    (folder / "records.jsonl").rename(job_dir / "records.jsonl")
    while True:
        made = Archive(job_dir, extra={}, about={}, max_bytes=1024 * MIB)
        await storage.write(Container.RESULTS, "noop.zzzzzzzz.zip", made.chunks())


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
