"""Submission with attached records: what is kept, what is refused, and what becomes of it."""

from __future__ import annotations

import gzip
import io
import json
import random
import tarfile
import tracemalloc
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from aioanalysis.aio import Tasks
from aioanalysis.client import open_client
from aioanalysis.domain.exchange import Container
from aioanalysis.errors import Missing
from aioanalysis.recordstore.absent import NoRecordStore
from aioanalysis.scheduler.packaging import Packager
from aioanalysis.storage.directory import DirectoryStorage
from tests.support.apiserver import Api, Reply, open_api
from tests.support.waiting import eventually

JOB = {"title": "noop", "params": {}}
LINES = b"".join(b'{"record_id": "R%d", "nuc": "ACGT"}\n' % number for number in range(50))
TYPE = "multipart/form-data; boundary=edge"


@pytest.fixture
async def api(redis_url: str, unique: str, tmp_path: Path) -> AsyncIterator[Api]:
    storage = DirectoryStorage(tmp_path / "blobs")
    await storage.prepare()
    async with open_api(
        storage,
        redis_url=redis_url,
        prefix=unique,
        folder=tmp_path,
        attached_max_bytes=2 * 1024 * 1024,
        attached_expanded_max_bytes=64 * 1024 * 1024,
    ) as api:
        yield api


def multipart(*parts: tuple[str, bytes], end: bytes = b"--edge--\r\n", more: bytes = b"") -> bytes:
    body = b""
    for name, data in parts:
        head = f'--edge\r\nContent-Disposition: form-data; name="{name}"\r\n'.encode() + more + b"\r\n"
        body += head + data + b"\r\n"
    return body + end


async def send(api: Api, body: bytes, *, by: str = "ann", **headers: str) -> Reply:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    headers_ = {"Content-Type": TYPE, **names}
    return await api.call("POST", "/v1/jobs", by=by, data=io.BytesIO(body), headers=headers_)


def job_part(**changes: Any) -> tuple[str, bytes]:
    return "job", json.dumps({**JOB, **changes}).encode()


async def kept(api: Api, job_id: str) -> bytes:
    job = await api.parts.store.get(job_id)
    assert job is not None
    assert job.source.value is not None
    data = b"".join([chunk async for chunk in api.parts.attached.chunks(job.source.value)])
    return gzip.decompress(data)


async def left(api: Api, unique: str) -> list[str]:
    found = await keyspace_of(api, unique)
    return sorted(key for key in found if key.startswith("attached:"))


async def keyspace_of(api: Api, unique: str) -> dict[str, Any]:
    keys: dict[str, Any] = {}
    async for key in api.parts.client.scan_iter(match=f"{unique}:*"):
        keys[key.removeprefix(f"{unique}:")] = await api.parts.client.pexpiretime(key)
    return keys


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
async def test_attached_records_are_kept_with_the_job_and_go_with_it(
    api: Api, unique: str, pack: Any
) -> None:
    reply = await send(api, multipart(job_part(), ("records", pack(LINES))))
    assert reply.status == 201, reply.body
    job = reply.json()
    assert (job["attached"], job["recordset"], job["record_count"]) == (True, None, 50)
    assert await kept(api, job["id"]) == LINES
    stored = await api.parts.store.get(job["id"])
    assert stored is not None
    keys = await keyspace_of(api, unique)
    [chunk] = [key for key in keys if key.startswith("attached:")]
    assert abs(keys[chunk] - stored.expires_at.timestamp() * 1000) < 2
    assert (await api.call("DELETE", f"/v1/jobs/{job['id']}")).status == 204
    assert await left(api, unique) == []
    assert await api.parts.client.hlen(f"{unique}:attached_sizes") == 0


async def test_many_chunks_and_members_of_gzip_come_back_in_order(api: Api) -> None:
    noise = random.Random(3)
    lines = [
        json.dumps({"record_id": f"R{n}", "nuc": noise.randbytes(400).hex()}).encode() for n in range(3000)
    ]
    half = len(lines) // 2
    body = b"".join(gzip.compress(b"\n".join(part) + b"\n") for part in (lines[:half], lines[half:])) + bytes(
        100
    )
    reply = await send(api, multipart(job_part(), ("records", body)))
    assert reply.status == 201, reply.body
    assert await kept(api, reply.json()["id"]) == b"\n".join(lines) + b"\n"


@pytest.mark.parametrize(
    ("parts", "status", "says"),
    [
        ([("records", LINES), job_part()], 400, "job comes first"),
        ([job_part()], 400, "The part records is missing"),
        ([], 400, ""),
        ([job_part(), ("records", LINES), ("records", LINES)], 400, "Nothing may follow"),
        ([job_part(), job_part(), ("records", LINES)], 400, "the part records is expected"),
        ([job_part(recordset="DS-X"), ("records", LINES)], 422, "neither recordset nor set_token"),
        ([job_part(title="nothing"), ("records", LINES)], 422, "/title"),
        ([("job", b"{"), ("records", LINES)], 400, "not JSON"),
        ([job_part(), ("records", b"")], 422, "no records"),
        ([job_part(), ("records", b"\n \n")], 422, "no records"),
        ([job_part(), ("records", gzip.compress(b""))], 422, "no records"),
        ([job_part(), ("records", b'{"a": 1}\n{"a": 1}\n{"a": \n{}\n')], 422, "line 3: not JSON"),
        ([job_part(), ("records", b'{"a": 1}\n[1]\n')], 422, "line 2: a record must be a JSON object"),
        ([job_part(), ("records", b'{"a": 1}\n{"a": "\xff"}\n')], 422, "line 2: not UTF-8"),
        ([job_part(), ("records", b'{"a": 1}\n{"a"')], 422, "the last line, 2, is incomplete"),
        ([job_part(), ("records", gzip.compress(LINES)[:-9])], 422, "ends early"),
        ([job_part(), ("records", gzip.compress(LINES)[:40] + bytes(99))], 422, "gzip"),
        ([job_part(), ("records", gzip.compress(LINES) + b"rubbish")], 422, "damaged"),
    ],
)
async def test_what_is_wrong_is_told_and_nothing_of_it_stays(
    api: Api, unique: str, parts: list[tuple[str, bytes]], status: int, says: str
) -> None:
    reply = await send(api, multipart(*parts))
    assert (reply.status, reply.headers["Content-Type"]) == (status, "application/problem+json"), reply.body
    assert says in reply.body.decode()
    assert await left(api, unique) == []
    assert (await api.get("/v1/jobs")).json()["jobs"] == []


@pytest.mark.parametrize(
    "body",
    [b"", b"rubbish", b"--edge", b"--edge\r\n\r\n", b"--edge\r\nContent-Disposition: \x01;;=\r\n\r\nx"],
)
async def test_a_body_that_is_no_multipart_is_refused(api: Api, body: bytes) -> None:
    assert (await send(api, body)).status == 400
    reply = await api.call("POST", "/v1/jobs", data=body, headers={"Content-Type": "multipart/form-data"})
    assert reply.status == 400


async def test_a_body_without_its_end_is_refused(api: Api, unique: str) -> None:
    assert (await send(api, multipart(job_part(), ("records", LINES), end=b""))).status == 400
    assert await left(api, unique) == []


async def test_a_gzip_bomb_is_refused_before_memory_grows(api: Api, unique: str) -> None:
    bomb = gzip.compress(b'{"a": "' + b"x" * 60_000_000 + b'"}\n')
    tracemalloc.start()
    try:
        reply = await send(api, multipart(job_part(), ("records", bomb)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (reply.status, reply.json()["type"]) == (413, "urn:aioanalysis:problem:too-large")
    assert peak < 16 * 1024 * 1024
    assert await left(api, unique) == []


async def test_too_much_is_refused_compressed_and_expanded(
    redis_url: str, unique: str, tmp_path: Path
) -> None:
    storage = DirectoryStorage(tmp_path / "blobs")
    await storage.prepare()
    for name, settings in (
        ("one", {"attached_max_bytes": 300}),
        ("two", {"attached_expanded_max_bytes": 500}),
    ):
        folder = tmp_path / name
        folder.mkdir()
        async with open_api(storage, redis_url=redis_url, prefix=unique, folder=folder, **settings) as api:
            noise = b"".join(
                b'{"r": "%032x"}\n' % (number * 0x9E3779B97F4A7C15F39CC0605CEDC834) for number in range(60)
            )
            for data in (noise, gzip.compress(noise)):
                assert (await send(api, multipart(job_part(), ("records", data)))).status == 413
            assert await left(api, unique) == []


async def test_no_more_is_kept_than_there_is_room_for(api: Api, unique: str) -> None:
    first = await send(api, multipart(job_part(), ("records", LINES)))
    api.parts.attached._budget = 200
    reply = await send(api, multipart(job_part(), ("records", LINES)))
    assert (reply.status, reply.json()["type"]) == (507, "urn:aioanalysis:problem:no-room")
    await api.call("DELETE", f"/v1/jobs/{first.json()['id']}")
    assert (await send(api, multipart(job_part(), ("records", LINES)))).status == 201


async def test_a_repeat_is_known_by_its_parts_not_by_its_framing(api: Api, unique: str) -> None:
    bodies = [
        multipart(job_part(), ("records", LINES)),
        multipart(job_part(), ("records", gzip.compress(LINES)), more=b"Content-Type: x/y\r\n"),
    ]
    replies = [await send(api, body, Idempotency_Key="once") for body in bodies]
    assert [reply.status for reply in replies] == [201, 201]
    assert len({reply.json()["id"] for reply in replies}) == 1
    assert len(await left(api, unique)) == 1
    other = await send(api, multipart(job_part(), ("records", LINES + b"{}\n")), Idempotency_Key="once")
    assert other.status == 422
    assert len(await left(api, unique)) == 1
    assert await kept(api, replies[0].json()["id"]) == LINES


async def test_an_attachment_can_be_copied_and_one_that_has_gone_is_missing(api: Api) -> None:
    reply = await send(api, multipart(job_part(), ("records", LINES)))
    job = await api.parts.store.get(reply.json()["id"])
    assert job is not None
    assert job.source.value is not None
    store, until = api.parts.attached, datetime.now(UTC) + timedelta(hours=1)
    await store.copy(job.source.value, "copy", until)
    await store.copy(job.source.value, "copy", until)
    await store.drop(job.source.value)
    assert gzip.decompress(b"".join([chunk async for chunk in store.chunks("copy")])) == LINES
    for gone in (store.keep(job.source.value, until), store.copy(job.source.value, "again", until)):
        with pytest.raises(Missing):
            await gone


async def test_attached_records_are_packaged_with_the_selection_and_without_them_the_job_fails(
    api: Api, tmp_path: Path
) -> None:
    selection = {"include": ["R7", "R9"]}
    good = (await send(api, multipart(job_part(selection=selection), ("records", LINES)))).json()["id"]
    lost = (await send(api, multipart(job_part(), ("records", LINES)))).json()["id"]
    jobs = {job_id: await api.parts.store.get(job_id) for job_id in (good, lost)}
    await api.parts.attached.drop(jobs[lost].source.value)  # type: ignore[union-attr,arg-type]
    async with Tasks() as tasks:
        packager = Packager(
            api.context.operations,
            NoRecordStore(),
            tasks,
            fence=1,
            spool=tmp_path / "spool",
            limit=2,
        )
        for job in jobs.values():
            packager.admit(job, None)  # type: ignore[arg-type]
        await eventually(lambda: not packager.busy)
    async with api.storage.open(Container.QUEUE, f"noop.{good}.tar") as stream:
        package = io.BytesIO(b"".join([piece async for piece in stream.chunks()]))
    with tarfile.open(fileobj=package) as tar:
        records = tar.extractfile(f"noop.{good}/records.jsonl")
        assert records is not None
        assert [json.loads(line)["record_id"] for line in records] == ["R7", "R9"]
    failed = (await api.get(f"/v1/jobs/{lost}")).json()
    assert (failed["state"], failed["error"]["reason"]) == ("failed", "records")


async def test_the_client_attaches_a_file(api: Api, tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl.gz"
    file.write_bytes(gzip.compress(LINES))
    async with open_client(api.url, api.keys["ann"]) as client:
        job = await client.submit("noop", file=file)
    assert await kept(api, job["id"]) == LINES
