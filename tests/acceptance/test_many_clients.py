"""Many listeners and slow downloads while jobs run: nothing is lost, memory and connections are bounded."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import AsyncIterator

import aiohttp
import psutil
import pytest
from redis.asyncio import Redis

from aioanalysis.domain.exchange import Container
from aioanalysis.storage.directory import DirectoryStorage
from tests.support.deployment import Deployment
from tests.support.storages import MIB, block
from tests.support.waiting import eventually

LISTENERS = 200
DOWNLOADS = 50
JOBS = 8
SIZE = 12 * MIB  # more than the sockets' buffers hold
GROWTH = DOWNLOADS * 2 * MIB + LISTENERS * MIB // 4  # a piece each and what is being sent of it; a queue
CONNECTIONS = 100


class Listener:
    """What one stream of events has told: (id, job, state) of each change, in order."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._content = response.content
        self.heard: list[tuple[str, str, str]] = []
        self.others: Counter[str] = Counter()

    async def placed(self) -> None:
        while not (await self._content.readline()).startswith(b"id: "):
            pass

    async def listen(self, *, until: int) -> None:
        """Until so many jobs are complete."""
        place = name = ""
        while sum(state == "complete" for _, _, state in self.heard) < until:
            field, _, value = (await self._content.readline()).decode().rstrip("\n").partition(": ")
            if field == "id":
                place = value
            elif field == "event":
                name = value
            elif field == "data" and name == "job":
                told = json.loads(value)
                self.heard.append((place, told["job"], told["state"]))
            elif field == "data":
                self.others[name] += 1


@pytest.fixture
async def session(quick: Deployment) -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"Authorization": f"Bearer {quick.keys['root']}"}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(
        headers=headers, connector=connector, read_bufsize=2**16, timeout=aiohttp.ClientTimeout(total=200)
    ) as session:
        yield session


async def test_many_listeners_and_slow_downloads_lose_nothing_while_jobs_run(
    quick: Deployment, session: aiohttp.ClientSession, redis_url: str
) -> None:
    content = b"".join(block(number) for number in range(SIZE // MIB))
    storage = DirectoryStorage(quick.folder / "storage")
    await storage.prepare()
    await storage.write(Container.RESULTS, "big.zip", content)
    process = quick.serve(watch_interval=0.2)
    server = psutil.Process(process.process.pid)
    async with Redis.from_url(redis_url) as redis, asyncio.TaskGroup() as group, quick.client() as client:
        others = len(await redis.client_list())
        before = server.memory_info().rss
        done = asyncio.Event()
        digests = [
            group.create_task(download(session, f"{quick.server}/v1/packages/results/big.zip", done))
            for _ in range(DOWNLOADS)
        ]
        responses = await asyncio.gather(
            *(session.get(f"{quick.server}/v1/events") for _ in range(LISTENERS))
        )
        assert [response.status for response in responses] == [200] * LISTENERS
        listeners = [Listener(response) for response in responses]
        await asyncio.gather(*(listener.placed() for listener in listeners))
        await eventually(lambda: downloads_of(session, quick.server), within=30)
        quick.worker(worker_jobs=2)
        jobs = [(await client.submit("noop", recordset="DS-TWO"))["id"] for _ in range(JOBS)]
        async with asyncio.timeout(120):
            await asyncio.gather(*(listener.listen(until=JOBS) for listener in listeners))
        grown = server.memory_info().rss - before
        connections = len(await redis.client_list()) - others
        done.set()
        for response in responses:
            response.close()
    first = listeners[0].heard
    assert all(listener.heard == first for listener in listeners)
    assert all(listener.others["reset"] == 0 for listener in listeners)
    assert len({place for place, _, _ in first}) == len(first)
    for job in jobs:
        states = [state for _, one, state in first if one == job]
        assert states[0] == "waiting"
        assert states[-1] == "complete"
        assert "queued" in states
    assert {task.result() for task in digests} == {hashlib.sha256(content).hexdigest()}
    print(f"memory grew by {grown / MIB:.1f} MiB, {connections} connections to Redis more")
    assert grown < GROWTH
    assert connections < CONNECTIONS


async def download(session: aiohttp.ClientSession, url: str, done: asyncio.Event) -> str:
    """Take the beginning, the rest when it is `done`; the SHA-256 of both."""
    async with session.get(url) as response:
        assert response.status == 200
        found = hashlib.sha256(await response.content.readexactly(1000))
        await done.wait()
        async for piece in response.content.iter_any():
            found.update(piece)
        return found.hexdigest()


async def downloads_of(session: aiohttp.ClientSession, server: str) -> bool:
    async with session.get(f"{server}/metrics") as response:
        return f"aioanalysis_http_downloads {DOWNLOADS}\n" in await response.text()
