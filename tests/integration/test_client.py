"""The client against the API over a real Redis, with faults between them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aioanalysis.client import AnalysisClient, ApiProblem, JobFailed, NotReached, open_client
from aioanalysis.client.events import Event
from aioanalysis.client.outputs import GAP, after_mark
from aioanalysis.domain.exchange import Container, Ending, RunMark, progress_log_name, sidecar_name
from aioanalysis.domain.job import Job
from aioanalysis.domain.states import State
from aioanalysis.errors import Damaged, NotFound, Unavailable
from tests.support.apiserver import Api, make_zip, stem_of
from tests.support.faultproxy import FaultProxy, http_reply
from tests.support.waiting import eventually

PACKAGE = make_zip(
    {
        "analysis_report.html": b"<h1>report</h1>",
        "summary.tsv": "name\tdistance\nÉ\t0.5\n".encode(),
        "noise": random.Random(1).randbytes(3_000_000),
    }
)
SHA256 = hashlib.sha256(PACKAGE).hexdigest()


@pytest.fixture
async def proxy(api: Api) -> AsyncIterator[FaultProxy]:
    async with FaultProxy((api.host, api.port), "http") as proxy:
        yield proxy


@asynccontextmanager
async def connected(api: Api, proxy: FaultProxy, *, patience: float = 20) -> AsyncIterator[AnalysisClient]:
    async with open_client(f"http://127.0.0.1:{proxy.port}", api.keys["ann"], patience=patience) as client:
        yield client


async def complete(api: Api, *, sha256: str = SHA256, told: str | None = SHA256) -> Job:
    """A complete job; `sha256` is what its package's ETag says, `told` what its sidecar says."""
    job = await api.add_job(state=State.COMPLETE)
    await api.add_result(job, PACKAGE, sha256=sha256)
    if told is not None:
        body = json.dumps({"result": {"sha256": told, "size": len(PACKAGE)}}).encode()
        mark = RunMark(uid=job.uid, attempt=1).to_metadata()
        name = sidecar_name(stem_of(job), Ending.COMPLETE)
        await api.storage.write(Container.RESULTS, name, body, metadata=mark)
    return job


def parts(folder: Path) -> list[Path]:
    """What cut downloads have left."""
    return list(folder.glob("*.part"))


# --- repeated calls ---


@pytest.mark.parametrize("attached", [False, True])
async def test_a_submission_whose_answer_is_lost_makes_one_job(
    api: Api, proxy: FaultProxy, tmp_path: Path, attached: bool
) -> None:
    records = tmp_path / "records.jsonl"
    records.write_text('{"record_id": "A"}\n')
    fault = proxy.drop_reply("^POST /v1/jobs ", times=2)
    async with connected(api, proxy) as client:
        job = await (
            client.submit("slow", file=records) if attached else client.submit("slow", recordset="DS-ONE")
        )
        assert fault.hits == 2
        assert [one["id"] for one in await client.jobs()] == [job["id"]]


async def test_a_resubmission_whose_answer_is_lost_makes_one_job(api: Api, proxy: FaultProxy) -> None:
    fault = proxy.drop_reply("^POST .*/actions/resubmit ", times=2)
    async with connected(api, proxy) as client:
        job = await client.submit("slow", recordset="DS-ONE")
        twin = await client.resubmit(job["id"], tags=["b"], idempotency_key="k")
        assert fault.hits == 2
        assert {one["id"] for one in await client.jobs()} == {job["id"], twin["id"]}
        assert (await client.resubmit(job["id"], tags=["b"], idempotency_key="k"))["id"] == twin["id"]
        assert (await client.resubmit(job["id"], tags=["b"]))["id"] != twin["id"]


async def test_reading_and_removing_are_repeated_an_action_that_may_have_arrived_is_not(
    api: Api, proxy: FaultProxy
) -> None:
    async with connected(api, proxy) as client:
        job = await client.submit("slow", recordset="DS-ONE", hold=True)
        busy = http_reply(503, b"{}", headers={"Retry-After": "1"})
        proxy.answer(f"^GET /v1/jobs/{job['id']}", reply=busy)
        proxy.lose_request(f"^GET /v1/jobs/{job['id']}")
        assert (await client.job(job["id"]))["id"] == job["id"]
        kill = proxy.drop_reply("^POST .*/actions/kill", times=None)
        with pytest.raises(NotReached) as lost:
            await client.action(job["id"], "kill")
        assert (kill.hits, lost.value.sent) == (1, True)
        assert (await client.job(job["id"]))["state"] == "killed"
        proxy.drop_reply("^DELETE ")
        await client.remove(job["id"])
        with pytest.raises(ApiProblem) as gone:
            await client.remove(job["id"])
        assert gone.value.status == 404


async def test_a_service_that_starts_again_is_waited_for_and_one_that_does_not_is_named(
    api: Api, proxy: FaultProxy
) -> None:
    said: list[str] = []
    address = f"http://127.0.0.1:{proxy.port}"
    async with open_client(address, api.keys["ann"], patience=20, on_retry=said.append) as client:
        await proxy.refuse()
        submitting = asyncio.create_task(client.submit("slow", recordset="DS-ONE", hold=True))
        await eventually(lambda: said, what="the client tries again")
        await proxy.accept()
        job = await submitting
        assert (await client.action(job["id"], "unblock"))["state"] == "waiting"
    async with open_client(address, api.keys["ann"], patience=0) as client:
        await proxy.refuse()
        with pytest.raises(Unavailable, match=f"{address} cannot be reached"):
            await client.jobs()


# --- downloads ---


async def test_a_download_that_is_cut_goes_on_by_itself(api: Api, proxy: FaultProxy, tmp_path: Path) -> None:
    job = await complete(api)
    cut = proxy.cut_reply("^GET .*/result", after=1_000_000, times=2)
    seen: list[tuple[int, int | None]] = []
    async with connected(api, proxy) as client:
        saved = await client.result(
            job.id, tmp_path / "r.zip", on_progress=lambda done, total: seen.append((done, total))
        )
    assert (cut.hits, saved.verified, saved.sha256, saved.resumed_at) == (2, True, SHA256, 0)
    assert saved.path.read_bytes() == PACKAGE
    assert seen == sorted(seen)
    assert seen[-1] == (len(PACKAGE), len(PACKAGE))
    assert parts(tmp_path) == []


async def test_a_later_process_goes_on_where_the_download_was_cut(
    api: Api, proxy: FaultProxy, tmp_path: Path
) -> None:
    job, target = await complete(api), tmp_path / "r.zip"
    proxy.cut_reply("^GET .*/result", after=1_000_000)
    async with connected(api, proxy, patience=0) as client:
        with pytest.raises(NotReached):
            await client.result(job.id, target)
        assert not target.exists()
        [part] = parts(tmp_path)
        came = part.stat().st_size
        assert 0 < came <= 1_000_000
        saved = await client.result(job.id, target)
    assert (saved.resumed_at, saved.verified) == (came, True)
    assert target.read_bytes() == PACKAGE


async def test_a_file_of_a_package_goes_on_where_it_was_cut_and_is_held_against_its_crc(
    api: Api, proxy: FaultProxy, tmp_path: Path
) -> None:
    job, target = await complete(api), tmp_path / "noise"
    noise = random.Random(1).randbytes(3_000_000)
    cut = proxy.cut_reply("^GET .*/files/noise", after=1_000_000, times=2)
    async with connected(api, proxy, patience=0) as client:
        with pytest.raises(NotReached):
            await client.file(job.id, "noise", target)
        [part] = parts(tmp_path)
        came = part.stat().st_size
    async with connected(api, proxy) as client:
        saved = await client.file(job.id, "noise", target)
        assert (cut.hits, saved.resumed_at, saved.verified) == (2, came, True)
        assert target.read_bytes() == noise
        target.unlink()
        part.write_bytes(bytes(came))  # as much, and all of it wrong
        with pytest.raises(Damaged):
            await client.file(job.id, "noise", target)
        assert (target.exists(), parts(tmp_path)) == (False, [])
        with pytest.raises(NotFound):
            await client.file(job.id, "no such file", target)


async def test_what_is_left_of_another_version_is_not_used(api: Api, tmp_path: Path) -> None:
    job, target = await complete(api), tmp_path / "r.zip"
    (tmp_path / f"r.zip.{'0' * 64}.part").write_bytes(b"of another package")
    async with open_client(api.url, api.keys["ann"]) as client:
        saved = await client.result(job.id, target)
    assert (saved.resumed_at, target.read_bytes()) == (0, PACKAGE)
    assert parts(tmp_path) == []


@pytest.mark.parametrize(("left", "resumed_at"), [(PACKAGE, len(PACKAGE)), (PACKAGE + b"more", 0)])
async def test_a_part_that_is_whole_is_taken_and_one_that_is_too_long_is_not(
    api: Api, tmp_path: Path, left: bytes, resumed_at: int
) -> None:
    job, target = await complete(api), tmp_path / "r.zip"
    (tmp_path / f"r.zip.{SHA256}.part").write_bytes(left)
    async with open_client(api.url, api.keys["ann"]) as client:
        saved = await client.result(job.id, target)
    assert (saved.resumed_at, target.read_bytes()) == (resumed_at, PACKAGE)


@pytest.mark.parametrize(("etag", "told"), [(SHA256, "0" * 64), ("0" * 64, None)])
async def test_a_package_with_another_checksum_is_refused_and_not_kept(
    api: Api, tmp_path: Path, etag: str, told: str | None
) -> None:
    job, target = await complete(api, sha256=etag, told=told), tmp_path / "new" / "r.zip"
    target.parent.mkdir()
    async with open_client(api.url, api.keys["ann"]) as client:
        with pytest.raises(Damaged, match="checksum"):
            await client.result(job.id, target)
    assert list(target.parent.iterdir()) == []


async def test_a_part_with_bytes_gone_wrong_is_found_by_the_checksum(api: Api, tmp_path: Path) -> None:
    job, target = await complete(api), tmp_path / "r.zip"
    (tmp_path / f"r.zip.{SHA256}.part").write_bytes(b"X" * 1000)
    async with open_client(api.url, api.keys["ann"]) as client:
        with pytest.raises(Damaged):
            await client.result(job.id, target)
        assert (await client.result(job.id, target)).verified
    assert target.read_bytes() == PACKAGE


# --- results ---


async def test_a_result_is_opened_read_and_closed(api: Api, tmp_path: Path) -> None:
    job = await complete(api)
    async with open_client(api.url, api.keys["ann"]) as client:
        with await client.open_result(job.id) as result:
            assert dict(result.tables) == {"summary.tsv": [{"name": "É", "distance": "0.5"}]}
            with pytest.raises(KeyError, match=r"the tables are summary\.tsv"):
                result.tables["other"]
            assert result.report.read_text() == "<h1>report</h1>"
            assert sorted(result.files) == ["analysis_report.html", "noise", "summary.tsv"]
            assert len(result.read("noise")) == 3_000_000
            assert sorted(file.name for file in result.unpack().iterdir()) == sorted(result.files)
            place = result.package
        assert not place.parent.exists()
        with await client.open_result(job.id, folder=tmp_path) as kept:
            assert kept.package == tmp_path / f"{job.title}.{job.id}.zip"
        assert kept.package.exists()
        [table] = [file for file in await client.files(job.id) if file["path"] == "summary.tsv"]
        saved = await client.file(job.id, table["path"], tmp_path / "table")
        assert saved.size == table["size"]


async def test_a_run_that_does_not_complete_tells_why(api: Api) -> None:
    async def kill_it() -> None:
        [job] = await eventually(lambda: listed(api), what="the job is submitted")
        assert (await api.call("POST", f"/v1/jobs/{job['id']}/actions/kill")).status == 200

    async with open_client(api.url, api.keys["ann"]) as client, asyncio.TaskGroup() as group:
        group.create_task(kill_it())
        with pytest.raises(JobFailed, match="is killed") as failed:
            await client.run("slow", records=[{"record_id": "A"}], timeout=30)
        assert failed.value.job["attached"]


async def listed(api: Api) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await api.get("/v1/jobs")).json()["jobs"]
    return found


# --- events and output ---


async def test_events_go_on_over_a_cut_connection_and_none_is_missed(api: Api, proxy: FaultProxy) -> None:
    seen: list[Event] = []
    async with connected(api, proxy) as client:

        async def listen() -> None:
            async with aclosing(client.events()) as events:
                async for event in events:
                    seen.append(event)

        listening = asyncio.create_task(listen())
        await eventually(lambda: "GET /v1/events HTTP/1.1" in proxy.requests)
        first = await client.submit("slow", recordset="DS-ONE", hold=True)
        await eventually(lambda: len(seen) == 1)
        await proxy.refuse()
        second = (await api.call("POST", "/v1/jobs", json={"title": "slow", "recordset": "DS-ONE"})).json()
        await proxy.accept()
        await client.action(first["id"], "kill")
        await eventually(lambda: len(seen) >= 3, within=20)
        listening.cancel()
        await asyncio.wait([listening])
        places = [event.id for event in seen]
        async with aclosing(client.events(since=places[0])) as events:
            again = [await anext(events) for _ in places[1:]]
    assert [(event.name, event.job) for event in seen] == [
        ("job", first["id"]),
        ("job", second["id"]),
        ("job", first["id"]),
    ]
    assert again == seen[1:]


async def test_a_stream_of_events_that_is_refused_says_so(api: Api) -> None:
    async with open_client(api.url, "nobodys-key") as client, aclosing(client.events()) as events:
        with pytest.raises(ApiProblem) as refused:
            await anext(events)
    assert refused.value.status == 401


async def test_output_is_followed_over_a_cut_connection_to_the_end_of_the_job(
    api: Api, proxy: FaultProxy
) -> None:
    job = await api.add_job(state=State.RUNNING)
    name = progress_log_name(stem_of(job))
    mark = RunMark(uid=job.uid, attempt=1).to_metadata()

    async def print_(text: bytes) -> None:
        await api.storage.write(Container.RESULTS, name, text, metadata=mark)

    await print_(b"one\n")
    seen = bytearray()

    async def follow() -> None:
        async with aclosing(client.follow_log(job.id)) as pieces:
            async for piece in pieces:
                seen.extend(piece)

    async with connected(api, proxy) as client:
        following = asyncio.create_task(follow())
        await eventually(lambda: seen == b"one\n", within=20)
        await proxy.drop_connections()
        await print_(b"one\ntwo\n")
        await eventually(lambda: seen == b"one\ntwo\n", within=20)
        await api.call("PUT", f"/v1/jobs/{job.id}/state", by="system", json={"state": "killed"})
        async with asyncio.timeout(20):
            await following
    assert seen == b"one\ntwo\n"


def test_what_has_been_seen_of_an_output_is_left_out() -> None:
    assert after_mark(b"a\nb\nc\n", b"b\n") == b"c\n"
    assert after_mark(b"c\n", b"b\n") == GAP + b"c\n"
    assert after_mark(b"", b"b\n") == b""
