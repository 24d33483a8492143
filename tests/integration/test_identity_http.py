"""Identity from an HTTP service: believed for a short while, and never a way in when it is out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from aioanalysis.errors import Unavailable
from aioanalysis.identity import InTurn
from aioanalysis.identity.http import HttpIdentity
from aioanalysis.identity.keyfile import KeyFileIdentity
from aioanalysis.interfaces import User


class Service:
    """Answers as it is told to, and counts."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[str] = []
        self.answer: Any = {"user": "ann"}
        self.status = 200

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.headers.get("Authorization") or request.headers.get("api-key", ""))
        await asyncio.sleep(0)
        if isinstance(self.answer, list) and all(isinstance(one, bytes) for one in self.answer):
            response = web.StreamResponse(status=self.status)
            await response.prepare(request)
            for piece in self.answer:
                await response.write(piece)
                await asyncio.sleep(0.05)
            return response
        if isinstance(self.answer, bytes):
            return web.Response(body=self.answer, status=self.status)
        return web.json_response(self.answer, status=self.status, headers={"Retry-After": "7"})


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    service, app = Service(), web.Application()
    app.router.add_get("/who", service.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    service.url = f"http://127.0.0.1:{runner.addresses[0][1]}/who"
    yield service
    await runner.cleanup()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def test_an_answer_is_believed_for_a_while(service: Service, session: aiohttp.ClientSession) -> None:
    identity = HttpIdentity(session, service.url, good_seconds=60, bad_seconds=60)
    assert await asyncio.gather(*(identity.identify("key") for _ in range(20))) == [User(name="ann")] * 20
    assert service.asked == ["Bearer key"]
    service.status = 401
    assert [await identity.identify("other") for _ in range(3)] == [None] * 3
    assert len(service.asked) == 2
    assert await identity.identify("key") == User(name="ann")
    service.status, service.answer = 200, {"user": "root", "role": "administrator"}
    once = HttpIdentity(session, service.url, header="api-key", good_seconds=0, bad_seconds=0)
    assert await once.identify("third") == User(name="root", role="administrator")
    assert service.asked[-1] == "third"
    service.status = 404
    assert await once.identify("third") is None


async def test_an_answer_may_come_in_pieces(service: Service, session: aiohttp.ClientSession) -> None:
    service.answer = [b'{"us', b'er": "a', b'nn"}']
    assert await HttpIdentity(session, service.url).identify("key") == User(name="ann")


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (500, {"user": "ann"}),
        (302, {}),
        (204, b""),
        (200, b"<html>"),
        (200, {"user": ""}),
        (200, {"user": "system"}),
        (200, {"user": "ann", "role": "system"}),
        (200, {"user": 7}),
        (200, ["ann"]),
        (200, {"user": "ann", "more": "x" * 100_000}),
    ],
)
async def test_an_outage_lets_nobody_in(
    service: Service, session: aiohttp.ClientSession, status: int, answer: Any
) -> None:
    service.status, service.answer = status, answer
    identity = HttpIdentity(session, service.url)
    for _ in range(2):
        with pytest.raises(Unavailable) as caught:
            await identity.identify("key")
    assert caught.value.retry_after in {None, 5.0, 7.0}
    assert len(service.asked) == 2


async def test_a_service_that_is_not_there_is_an_outage_for_keys_that_the_file_does_not_know(
    session: aiohttp.ClientSession,
) -> None:
    identity = InTurn(KeyFileIdentity(None, "the-token"), HttpIdentity(session, "http://127.0.0.1:9/"))
    assert await identity.identify("the-token") == User(name="system", role="system")
    with pytest.raises(Unavailable):
        await identity.identify("key")
