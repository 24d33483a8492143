"""Results, failed results and reports over real storage: whole, in parts, cut short, slowly, not at all."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import random
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientPayloadError, ClientSession

from aioanalysis.api import downloads
from aioanalysis.api.downloads import DOWNLOADS
from aioanalysis.domain.exchange import Container, Ending, result_name
from aioanalysis.domain.outcomes import JobError, Reason
from aioanalysis.domain.states import State
from aioanalysis.errors import Unavailable
from aioanalysis.interfaces import BlobInfo, ExchangeStorage
from aioanalysis.storage import azure
from aioanalysis.storage.directory import DirectoryStorage
from tests.support.apiserver import Api, make_zip, open_api, stem_of
from tests.support.faultproxy import FaultProxy
from tests.support.parts import require
from tests.support.servers import Azurite
from tests.support.waiting import eventually

PACKAGE = random.Random(1).randbytes(3_000_000)
REPORT = b"<html>" + b"<p>a report</p>" * 20_000 + b"</html>"
FAILED = {
    "state": State.FAILED,
    "error": JobError(reason=Reason.STAGE, message="container exited with code 3"),
}


@pytest.fixture(params=["directory", "azure"])
async def storage(
    request: pytest.FixtureRequest, tmp_path: Path, unique: str
) -> AsyncIterator[ExchangeStorage]:
    if request.param == "directory":
        directory = DirectoryStorage(tmp_path / "blobs")
        await directory.prepare()
        yield directory
        return
    azurite: Azurite = request.getfixturevalue("azurite")
    async with azure_storage(azurite.connection_string, unique) as storage:
        yield storage


@asynccontextmanager
async def azure_storage(connection_string: str, unique: str) -> AsyncIterator[azure.AzureStorage]:
    from azure.storage.blob.aio import BlobServiceClient

    names = (f"{unique}q", f"{unique}r")
    async with BlobServiceClient.from_connection_string(connection_string) as client:
        for name in names:
            await client.create_container(name)
    async with azure.connect(
        connection_string=connection_string, queue=names[0], results=names[1]
    ) as storage:
        yield storage


@pytest.fixture
async def api(storage: ExchangeStorage, redis_url: str, unique: str, tmp_path: Path) -> AsyncIterator[Api]:
    async with open_api(storage, redis_url=redis_url, prefix=unique, folder=tmp_path) as api:
        yield api


class Breaking(DirectoryStorage):
    """A directory whose reads of results end after `after` bytes, with an error or without."""

    def __init__(self, root: Path, *, after: int, error: Exception | None) -> None:
        super().__init__(root)
        self.after = after
        self.error = error

    @asynccontextmanager
    async def open(self, container: Container, name: str, **more: Any) -> AsyncIterator[Any]:
        async with super().open(container, name, **more) as stream:
            whole, outer = stream.chunks, self

            class Cut:
                info: BlobInfo = stream.info

                async def chunks(self) -> AsyncIterator[bytes]:
                    left = outer.after
                    async for chunk in whole():
                        if len(chunk) >= left:
                            if left:
                                yield chunk[:left]
                            if outer.error is not None:
                                raise outer.error
                            return
                        left -= len(chunk)
                        yield chunk

            yield Cut()


@asynccontextmanager
async def breaking_api(
    after: int, error: Exception | None, redis_url: str, unique: str, folder: Path
) -> AsyncIterator[Api]:
    storage = Breaking(folder / "blobs", after=after, error=error)
    await storage.prepare()
    async with open_api(storage, redis_url=redis_url, prefix=unique, folder=folder) as api:
        yield api


# --- whole and in parts ---


async def test_a_result_is_the_package_to_the_byte(api: Api) -> None:
    job = await api.complete_job(PACKAGE)
    digest = hashlib.sha256(PACKAGE).digest()
    for by in ("ann", "root", "system"):
        reply = await api.get(f"/v1/jobs/{job.id}/result", by=by)
        assert reply.status == 200
        assert reply.body == PACKAGE
    assert reply.headers["Content-Length"] == str(len(PACKAGE))
    assert reply.headers["Content-Type"] == "application/zip"
    assert reply.headers["ETag"] == f'"{digest.hex()}"'
    assert reply.headers["Repr-Digest"] == f"sha-256=:{base64.b64encode(digest).decode()}:"
    assert reply.headers["Content-Disposition"] == f'attachment; filename="{job.title}.{job.id}.zip"'
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert reply.headers["Content-Security-Policy"].startswith("sandbox;")
    assert "Content-Encoding" not in reply.headers


@pytest.mark.parametrize(
    ("wanted", "status", "start", "end"),
    [
        ("bytes=0-9", 206, 0, 10),
        ("bytes=2999999-", 206, 2_999_999, 3_000_000),
        ("bytes=1500000-9999999999", 206, 1_500_000, 3_000_000),
        ("bytes=-5", 206, 2_999_995, 3_000_000),
        ("bytes=0-1,3-4", 200, 0, 3_000_000),
        ("lines=1-2", 200, 0, 3_000_000),
        ("bytes=3000000-", 416, 0, 0),
    ],
)
async def test_a_range_of_a_result_is_that_part(
    api: Api, wanted: str, status: int, start: int, end: int
) -> None:
    job = await api.complete_job(PACKAGE)
    reply = await api.get(f"/v1/jobs/{job.id}/result", headers={"Range": wanted})
    assert reply.status == status
    if status == 416:
        assert reply.headers["Content-Range"] == "bytes */3000000"
        assert reply.headers["Content-Type"] == "application/problem+json"
        return
    assert reply.body == PACKAGE[start:end]
    assert reply.headers["Content-Length"] == str(end - start)
    assert reply.headers.get("Content-Range") == (
        f"bytes {start}-{end - 1}/3000000" if status == 206 else None
    )


async def test_a_download_is_resumed_only_where_the_package_is_the_same(api: Api) -> None:
    job = await api.complete_job(PACKAGE)
    path = f"/v1/jobs/{job.id}/result"
    etag = (await api.call("HEAD", path)).headers["ETag"]
    resumed = await api.get(path, headers={"Range": "bytes=1000000-", "If-Range": etag})
    assert (resumed.status, resumed.body) == (206, PACKAGE[1_000_000:])
    await api.add_result(job, PACKAGE[::-1])
    changed = await api.get(path, headers={"Range": "bytes=1000000-", "If-Range": etag})
    assert (changed.status, changed.body) == (200, PACKAGE[::-1])
    assert changed.headers["ETag"] != etag


async def test_what_the_client_has_is_not_sent_again(api: Api) -> None:
    job = await api.complete_job(make_zip({"analysis_report.html": REPORT}))
    for path in (f"/v1/jobs/{job.id}/result", f"/v1/jobs/{job.id}/report"):
        etag = (await api.call("HEAD", path)).headers["ETag"]
        for method in ("GET", "HEAD"):
            reply = await api.call(method, path, headers={"If-None-Match": etag})
            assert (reply.status, reply.body) == (304, b"")
            assert reply.headers["ETag"] == etag


async def test_a_package_of_an_older_worker_has_a_strong_etag_too(api: Api) -> None:
    job = await api.add_job(state=State.COMPLETE)
    await api.add_result(job, b"old", uid=None, attempt=None, nonce=None, sha256=None)
    reply = await api.get(f"/v1/jobs/{job.id}/result")
    assert (reply.status, reply.body) == (200, b"old")
    assert reply.headers["ETag"].startswith('"v-')  # a client takes 64 hex digits for a digest to check
    assert "Repr-Digest" not in reply.headers


async def test_curl_resumes_a_download_that_was_cut(api: Api, tmp_path: Path) -> None:
    require("curl")
    job = await api.complete_job(PACKAGE)
    target = tmp_path / "result.zip"
    target.write_bytes(PACKAGE[:1_234_567])
    assert await curl(api, job.id, target, "-C", "-") == 0
    assert target.read_bytes() == PACKAGE


async def curl(api: Api, job_id: str, target: Path, *options: str) -> int:
    process = await asyncio.create_subprocess_exec(
        *("curl", "-s", "-o", str(target), *options, "-H", f"X-API-Key: {api.keys['ann']}"),
        f"{api.url}/v1/jobs/{job_id}/result",
    )
    return await process.wait()


async def test_head_sends_no_byte_of_the_package_and_the_connection_goes_on(api: Api) -> None:
    job = await api.complete_job(PACKAGE)
    both = api.head("HEAD", f"/v1/jobs/{job.id}/result", close=False) + api.head("GET", "/healthz")
    head, _, rest = (await api.raw(both)).partition(b"\r\n\r\n")
    assert b"Content-Length: 3000000" in head
    assert rest.startswith(b"HTTP/1.1 200 OK")
    assert rest.endswith(b'{"status":"ok"}')


# --- nothing to send ---


@pytest.mark.parametrize("state", State)
async def test_a_job_without_a_result_says_its_state(api: Api, state: State) -> None:
    job = await api.add_job(state=state)
    for path, having in (
        ("result", State.COMPLETE),
        ("failed-result", State.FAILED),
        ("report", State.COMPLETE),
    ):
        for method in ("GET", "HEAD"):
            reply = await api.call(method, f"/v1/jobs/{job.id}/{path}")
            assert reply.status == (404 if state is having else 409)
            if reply.status == 409 and method == "GET":
                assert reply.json()["state"] == state


async def test_a_failed_package_is_for_the_failed_job(api: Api) -> None:
    job = await api.add_job(**FAILED)
    await api.add_result(job, PACKAGE, Ending.FAILED)
    reply = await api.get(f"/v1/jobs/{job.id}/failed-result")
    assert (reply.status, reply.body) == (200, PACKAGE)
    assert reply.headers["Content-Disposition"].endswith(f'.{job.id}.failed.zip"')
    assert (await api.get(f"/v1/jobs/{job.id}/result")).status == 409
    assert (await api.get(f"/v1/jobs/{job.id}/failed-result", by="ben")).status == 404


async def test_the_package_of_an_earlier_job_of_the_same_id_is_not_shown(api: Api) -> None:
    job = await api.add_job(state=State.COMPLETE)
    await api.add_result(job, PACKAGE, uid="somebody-else")
    assert (await api.get(f"/v1/jobs/{job.id}/result")).status == 404
    assert (await api.get(f"/v1/jobs/{job.id}/report")).status == 404


# --- reports ---


async def test_a_report_comes_out_of_the_package_sandboxed(api: Api) -> None:
    job = await api.complete_job(make_zip({"data.bin": PACKAGE, "analysis_report.html": REPORT, "z": b"z"}))
    reply = await api.get(f"/v1/jobs/{job.id}/report")
    assert (reply.status, reply.body) == (200, REPORT)
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    assert reply.headers["Content-Length"] == str(len(REPORT))
    policy = [part.strip() for part in reply.headers["Content-Security-Policy"].split(";")]
    assert "sandbox" in policy
    assert "default-src 'none'" in policy
    assert reply.headers["X-Content-Type-Options"] == "nosniff"


async def test_a_package_without_a_report_is_a_404(api: Api) -> None:
    job = await api.complete_job(make_zip({"other.html": REPORT}))
    assert (await api.get(f"/v1/jobs/{job.id}/report")).status == 404


async def test_a_changed_report_is_cut_before_its_end(api: Api) -> None:
    data = bytearray(make_zip({"analysis_report.html": REPORT * 20}, method=0))
    data[5000] ^= 1
    job = await api.complete_job(bytes(data))
    with pytest.raises(ClientPayloadError):
        await api.get(f"/v1/jobs/{job.id}/report")


# --- storage that fails (H5, H6) ---


@pytest.mark.parametrize("error", [Unavailable("gone"), ValueError("bug"), OSError("disk"), None])
async def test_storage_that_ends_in_the_midst_is_seen_by_every_client(
    error: Exception | None, redis_url: str, unique: str, tmp_path: Path
) -> None:
    async with breaking_api(1_000_000, error, redis_url, unique, tmp_path) as api:
        job = await api.complete_job(PACKAGE)
        path = f"/v1/jobs/{job.id}/result"
        async with asyncio.timeout(2):
            with pytest.raises(ClientPayloadError):
                await api.get(path)
        received = await api.raw(api.head("GET", path))
        body = received.partition(b"\r\n\r\n")[2]
        assert len(body) <= 1_000_000
        assert PACKAGE.startswith(body)
        if shutil.which("curl"):
            assert await curl(api, job.id, tmp_path / "cut.zip") != 0
        assert api.app[DOWNLOADS].running == 0
        assert (await api.get("/healthz")).status == 200


@pytest.mark.parametrize(
    ("error", "status"), [(Unavailable("gone", retry_after=3), 503), (ValueError("bug"), 500)]
)
async def test_storage_that_fails_before_the_first_byte_is_a_clean_problem(
    error: Exception, status: int, redis_url: str, unique: str, tmp_path: Path
) -> None:
    async with breaking_api(0, error, redis_url, unique, tmp_path) as api:
        job = await api.complete_job(PACKAGE)
        reply = await api.get(f"/v1/jobs/{job.id}/result")
        assert reply.status == status
        assert reply.headers["Content-Type"] == "application/problem+json"
        assert "ETag" not in reply.headers


async def test_a_cut_connection_to_blob_storage_is_never_a_short_200(
    azurite: Azurite, redis_url: str, unique: str, tmp_path: Path
) -> None:
    async with FaultProxy(("127.0.0.1", azurite.port), "http") as proxy, AsyncExitStack() as stack:
        storage = await stack.enter_async_context(azure_storage(azurite.through(proxy.port), unique))
        api = await stack.enter_async_context(
            open_api(storage, redis_url=redis_url, prefix=unique, folder=tmp_path)
        )
        job = await api.complete_job(PACKAGE)
        with proxy.cut_reply("^GET ", after=500_000), proxy.lose_request("^GET ", times=None):
            received = await api.raw(api.head("GET", f"/v1/jobs/{job.id}/result"))
        body = received.partition(b"\r\n\r\n")[2]
        assert len(body) < len(PACKAGE)
        assert PACKAGE.startswith(body)
        assert (await api.get(f"/v1/jobs/{job.id}/result")).body == PACKAGE


async def test_blob_storage_that_refuses_is_a_503_within_8_s_and_comes_back(
    azurite: Azurite, redis_url: str, unique: str, tmp_path: Path
) -> None:
    async with FaultProxy(("127.0.0.1", azurite.port), "http") as proxy, AsyncExitStack() as stack:
        storage = await stack.enter_async_context(azure_storage(azurite.through(proxy.port), unique))
        api = await stack.enter_async_context(
            open_api(storage, redis_url=redis_url, prefix=unique, folder=tmp_path)
        )
        job = await api.complete_job(PACKAGE)
        await proxy.refuse()
        async with asyncio.timeout(8):
            reply = await api.get(f"/v1/jobs/{job.id}/result")
        assert reply.status == 503
        assert reply.headers["Retry-After"]
        await proxy.heal()
        assert (await api.get(f"/v1/jobs/{job.id}/result")).status == 200


# --- clients that leave or stall (H8b, H22) ---


async def test_150_clients_that_leave_strand_no_connection_to_storage(api: Api) -> None:
    job = await api.complete_job(PACKAGE * 4)
    path = f"/v1/jobs/{job.id}/result"

    async def leave(number: int) -> None:
        reader, writer = await asyncio.open_connection(api.host, api.port)
        writer.write(api.head("GET", path))
        await reader.read(1 + number * 20_000)
        writer.transport.abort()

    for number in range(0, 150, 10):
        await asyncio.gather(*(leave(number + more) for more in range(10)))
    await eventually(lambda: api.app[DOWNLOADS].running == 0, within=30)
    assert (await api.get(path)).body == PACKAGE * 4
    session = getattr(api.storage, "_session", None)
    if session is not None:
        await eventually(lambda: len(session.connector._acquired) <= 2)


async def test_a_client_that_does_not_read_is_given_up(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "WRITE_SECONDS", 0.5)
    job = await api.complete_job(PACKAGE * 8)
    reader, writer = await asyncio.open_connection(api.host, api.port, limit=1024)
    try:
        writer.write(api.head("GET", f"/v1/jobs/{job.id}/result"))
        await eventually(lambda: api.app[DOWNLOADS].running == 1)
        await eventually(lambda: api.app[DOWNLOADS].running == 0, within=10)
        received = 0
        with suppress(ConnectionResetError):
            while piece := await reader.read(65536):
                received += len(piece)
        assert received < len(PACKAGE) * 8
        assert 'cause="slow client"' in (await api.get("/metrics")).body.decode()
    finally:
        writer.close()


async def test_a_slow_reader_gets_all_and_the_server_holds_little_of_it(api: Api) -> None:
    body = PACKAGE * 8
    job = await api.complete_job(body)
    received = 0
    async with ClientSession(read_bufsize=4096) as session:
        headers = {"X-API-Key": api.keys["ann"]}
        async with session.get(f"{api.url}/v1/jobs/{job.id}/result", headers=headers) as reply:
            async for piece in reply.content.iter_chunked(256 * 1024):
                received += len(piece)
                await asyncio.sleep(0)
    assert received == len(body)


async def test_more_downloads_than_allowed_are_told_to_come_back(
    redis_url: str, unique: str, tmp_path: Path
) -> None:
    storage = DirectoryStorage(tmp_path / "blobs")
    await storage.prepare()
    async with open_api(storage, redis_url=redis_url, prefix=unique, folder=tmp_path, downloads_max=2) as api:
        job = await api.complete_job(PACKAGE * 8)
        path = f"/v1/jobs/{job.id}/result"
        writers = []
        for _ in range(2):
            _, writer = await asyncio.open_connection(api.host, api.port, limit=1024)
            writer.write(api.head("GET", path))
            writers.append(writer)
        await eventually(lambda: api.app[DOWNLOADS].running == 2)
        reply = await api.get(path)
        assert reply.status == 503
        assert reply.headers["Retry-After"] == "5"
        assert (await api.call("HEAD", path)).status == 200
        for writer in writers:
            writer.transport.abort()
        await eventually(lambda: api.app[DOWNLOADS].running == 0)
        assert (await api.get(path)).status == 200


async def test_a_package_removed_in_between_is_absent_or_asked_for_again(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await api.complete_job(PACKAGE)
    stat = api.storage.stat

    async def stat_and_remove(container: Container, name: str) -> BlobInfo | None:
        found = await stat(container, name)
        await api.storage.delete(container, name)
        return found

    monkeypatch.setattr(api.storage, "stat", stat_and_remove)
    reply = await api.get(f"/v1/jobs/{job.id}/result")
    assert reply.status in {404, 503}  # storage may call it changed
    monkeypatch.undo()
    assert (await api.get(f"/v1/jobs/{job.id}/result")).status == 404


async def test_a_package_replaced_in_between_is_asked_for_again(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await api.complete_job(PACKAGE)
    stat = api.storage.stat

    async def stat_and_replace(container: Container, name: str) -> BlobInfo | None:
        found = await stat(container, name)
        await api.storage.write(Container.RESULTS, result_name(stem_of(job), Ending.COMPLETE), b"new")
        return found

    monkeypatch.setattr(api.storage, "stat", stat_and_replace)
    reply = await api.get(f"/v1/jobs/{job.id}/result")
    assert reply.status == 503
    assert reply.headers["Retry-After"] == "1"
