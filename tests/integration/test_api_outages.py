"""The API while one of the parts behind it is away, and when it is back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from cryptography.fernet import Fernet

from aioanalysis.domain.states import State
from aioanalysis.identity.http import HttpIdentity
from aioanalysis.jobstore.parts import open_job_store
from aioanalysis.storage.directory import DirectoryStorage
from tests.support.apiserver import Api, Reply, make_zip, open_api
from tests.support.events import listening
from tests.support.faultproxy import FaultProxy
from tests.support.jobs import make_job
from tests.support.servers import RedisServer
from tests.support.waiting import eventually


@pytest.fixture
async def storage(tmp_path: Path) -> DirectoryStorage:
    storage = DirectoryStorage(tmp_path / "blobs")
    await storage.prepare()
    return storage


@pytest.mark.parametrize("silent", [True, False])
async def test_streams_of_events_outlive_an_outage_of_the_job_store_and_miss_nothing(
    redis: RedisServer, storage: DirectoryStorage, unique: str, tmp_path: Path, silent: bool
) -> None:
    secret = Fernet.generate_key().decode()
    async with (
        FaultProxy(("127.0.0.1", redis.port)) as proxy,
        open_job_store(redis.url, secret=secret, prefix=f"{unique}:") as elsewhere,
        open_api(storage, redis_url=redis.through(proxy.port), prefix=unique, folder=tmp_path) as api,
        listening(api, "ann") as events,
    ):
        before = await elsewhere.store.create(make_job(), "key")
        assert (await events.next())[1]["job"] == before.id
        place = events.id
        if silent:
            proxy.pause()
        else:
            await proxy.refuse()
        meanwhile = [await elsewhere.store.create(make_job(), "key") for _ in range(3)]

        async def refused() -> Reply | None:
            reply = await api.get("/v1/events")
            return reply if reply.status == 503 else None

        reply = await eventually(refused, within=20)
        assert int(reply.headers["Retry-After"]) >= 1
        await proxy.heal()
        assert [(await events.next(30))[1]["job"] for _ in meanwhile] == [job.id for job in meanwhile]
        async with listening(api, "ann", place) as again:
            assert [(await again.next(30))[1]["job"] for _ in meanwhile] == [job.id for job in meanwhile]
        after = await api.add_job()
        assert (await events.next())[1]["job"] == after.id


class IdentityService:
    """Knows one key, and may be out."""

    def __init__(self) -> None:
        self.url = ""
        self.out = False

    async def handle(self, request: web.Request) -> web.Response:
        if self.out:
            raise web.HTTPServiceUnavailable(headers={"Retry-After": "9"})
        if request.headers.get("Authorization") != "Bearer theirs":
            raise web.HTTPUnauthorized
        return web.json_response({"user": "ann"})


@pytest.fixture
async def service() -> AsyncIterator[IdentityService]:
    service, app = IdentityService(), web.Application()
    app.router.add_get("/who", service.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    service.url = f"http://127.0.0.1:{runner.addresses[0][1]}/who"
    yield service
    await runner.cleanup()


@pytest.fixture
async def api(
    service: IdentityService, storage: DirectoryStorage, redis_url: str, unique: str, tmp_path: Path
) -> AsyncIterator[Api]:
    """Asks `service` about the keys that its own file has not, each time anew."""
    async with aiohttp.ClientSession() as session:
        identity = HttpIdentity(session, service.url, good_seconds=0, bad_seconds=0)
        async with open_api(
            storage, redis_url=redis_url, prefix=unique, folder=tmp_path, identities=[identity]
        ) as api:
            yield api


async def test_an_outage_of_the_identity_service_is_a_503_and_never_a_way_in(
    service: IdentityService, api: Api
) -> None:
    job = await api.complete_job(make_zip({"analysis_report.html": b"<p>secret"}))
    theirs = {"Authorization": "Bearer theirs"}
    nobodys = {"Authorization": "Bearer nobodys"}
    signed_in = await api.call("POST", "/v1/session", by=None, headers=theirs)
    cookie = {"Cookie": signed_in.headers["Set-Cookie"].split(";")[0]}
    csrf = {"X-CSRF-Token": signed_in.json()["csrf_token"]}
    assert (await api.get("/v1/jobs", by=None, headers=nobodys)).status == 401
    service.out = True
    for key in (theirs, nobodys, cookie):
        for method, path in (
            ("GET", "/v1/jobs"),
            ("GET", f"/v1/jobs/{job.id}/report"),
            ("GET", "/v1/events"),
            ("DELETE", f"/v1/jobs/{job.id}"),
            ("POST", "/v1/session"),
        ):
            reply = await api.call(method, path, by=None, headers={**key, **csrf})
            assert reply.status == 503, (method, path, reply.body)
            assert reply.headers["Retry-After"] == "9"
            assert b"secret" not in reply.body
    assert (await api.get("/v1/jobs")).status == 200  # the key file's keys go on
    assert (await api.get("/healthz", by=None)).status == 200
    service.out = False
    assert (await api.get("/v1/jobs", by=None, headers=theirs)).status == 200
    assert (await api.get(f"/v1/jobs/{job.id}/report", by=None, headers=cookie)).status == 200
    assert (await api.get("/v1/jobs", by=None, headers=nobodys)).status == 401
    stored = await api.parts.store.get(job.id)
    assert stored is not None
    assert stored.state is State.COMPLETE


async def test_a_listener_whose_key_is_taken_back_is_sent_away(
    service: IdentityService, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aioanalysis.api.events.HEARTBEAT_SECONDS", 0.1)
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{api.url}/v1/events", headers={"Authorization": "Bearer theirs"}) as response,
    ):
        assert response.status == 200
        assert await response.content.readline()
        service.out = True
        async with asyncio.timeout(10):
            await response.content.read()
