"""What administrators are told of workers, jobs in all and storage, and what a sweep takes and leaves."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from aioanalysis import logs
from aioanalysis.api import orphans, statistics, workers
from aioanalysis.api.cached import Cached
from aioanalysis.domain.exchange import (
    Container,
    Ending,
    PackageMeta,
    RunMark,
    attempt_name,
    claim_name,
    package_name,
    progress_name,
    result_name,
    sidecar_name,
    snapshot_name,
    worker_name,
)
from aioanalysis.domain.frames import Attempt
from aioanalysis.domain.job import Job
from aioanalysis.domain.orphans import OrphanReason
from aioanalysis.domain.outcomes import JobError, Reason
from aioanalysis.domain.states import State
from aioanalysis.domain.usage import Usage
from aioanalysis.domain.wrangling import MethodHealth
from aioanalysis.errors import Unavailable
from aioanalysis.interfaces import BlobInfo, ExchangeStorage
from aioanalysis.orphans import Orphans
from aioanalysis.storage.directory import DirectoryStorage
from tests.support.apiserver import Api, open_api, stem_of
from tests.support.packages import names_in, new_stem
from tests.support.storages import AzureBackend, Backend, DirectoryBackend, lease_id
from tests.support.storedfiles import fill, put, sign
from tests.support.waiting import eventually

SWEEP = "/v1/orphans/sweep"
CALLS = (("GET", "/v1/workers"), ("GET", "/v1/statistics"), ("GET", "/v1/orphans"), ("POST", SWEEP))


@pytest.fixture(params=["directory", "azure"])
async def backend(request: pytest.FixtureRequest, unique: str, tmp_path: Path) -> Backend:
    if request.param == "directory":
        return DirectoryBackend(tmp_path / "blobs")
    backend = AzureBackend(request.getfixturevalue("azurite"), unique)
    await backend.create()
    return backend


@pytest.fixture
async def api(backend: Backend, server_url: str, unique: str, tmp_path: Path) -> AsyncIterator[Api]:
    """Every file counts as old: no test waits for an hour."""
    async with (
        backend.connect() as storage,
        open_api(storage, redis_url=server_url, prefix=unique, folder=tmp_path, orphan_seconds=0) as api,
    ):
        yield api


@pytest.fixture
async def plain(redis_url: str, unique: str, tmp_path: Path) -> AsyncIterator[Api]:
    """Over a directory, for what does not depend on the backend."""
    storage = DirectoryStorage(tmp_path / "blobs")
    await storage.prepare()
    async with open_api(
        storage, redis_url=redis_url, prefix=unique, folder=tmp_path, orphan_seconds=0
    ) as api:
        yield api


async def orphans_of(api: Api) -> Mapping[str, str]:
    """The orphans by place, each with its reason, as they are now."""
    api.app[orphans.STOCK].drop()
    reply = await api.get("/v1/orphans", by="root")
    assert reply.status == 200, reply.body
    return {f"{one['container']}/{one['name']}": one["reason"] for one in reply.json()["files"]}


async def swept(api: Api, **wanted: Any) -> dict[str, Any]:
    reply = await api.call("POST", SWEEP, by="root", json=wanted)
    assert reply.status == 200, reply.body
    found: dict[str, Any] = reply.json()
    return found


@pytest.mark.parametrize(("method", "path"), CALLS)
async def test_all_of_it_is_for_administrators_and_the_system_token(
    plain: Api, method: str, path: str
) -> None:
    body = {"json": {}} if method == "POST" else {}
    assert (await plain.call(method, path, by=None, **body)).status == 401
    refused = await plain.call(method, path, by="ann", **body)
    assert (refused.status, refused.headers["Content-Type"]) == (403, "application/problem+json")
    for by in ("root", "system"):
        assert (await plain.call(method, path, by=by, **body)).status == 200


# --- workers ---


async def test_workers_are_told_with_what_they_run_and_whether_they_live(api: Api) -> None:
    stem = new_stem()
    run = {"stem": f"{stem}-7", "attempt": 2, "since": "2026-03-01T00:00:00+00:00"}
    busy_sign = sign("busy", running=[run], finishing=[{**run, "stem": f"{stem}-6"}])
    await api.storage.write(Container.RESULTS, worker_name("busy"), busy_sign)
    await api.storage.write(Container.RESULTS, worker_name("gone"), sign("gone", state="stopped"))
    await api.storage.write(Container.RESULTS, worker_name("odd"), b"no sign at all")
    found = (await api.get("/v1/workers", by="root")).json()
    by_name = {one["worker"]: one for one in found["workers"]}
    assert found["unreadable"] == ["workers/odd.json"]
    assert {name: one["alive"] for name, one in by_name.items()} == {"busy": True, "gone": False}
    busy = by_name["busy"]
    title, job = stem.split(".")
    assert busy["running"] == [
        {
            "stem": f"{stem}-7",
            "job": job,
            "title": title,
            "frame": 7,
            "attempt": 2,
            "since": "2026-03-01T00:00:00.000Z",
        }
    ]
    assert [(one["job"], one["frame"]) for one in busy["finishing"]] == [(job, 6)]
    assert (busy["host"], busy["runtime"], busy["slots"]) == ("node-1", "docker", 2)
    assert busy["methods"] == [{"title": "noop", "version": "1", "digest": "d"}]
    assert busy["disk"] == {"free_bytes": 10, "reserve_bytes": 5}


async def test_a_worker_that_has_been_silent_is_not_alive(
    plain: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await plain.storage.write(Container.RESULTS, worker_name("w"), sign("w"))
    operations = plain.context.operations
    ahead = datetime.now(UTC) + timedelta(minutes=5)
    monkeypatch.setattr(operations, "clock", lambda: ahead)
    [found] = (await plain.get("/v1/workers", by="root")).json()["workers"]
    assert (found["worker"], found["state"], found["alive"]) == ("w", "running", False)


async def test_of_many_workers_those_seen_last_are_told_and_storage_is_asked_once(
    plain: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "WORKERS_MAX", 2)
    for name in ("one", "two", "three"):
        before = time.time_ns()
        await plain.storage.write(Container.RESULTS, worker_name(name), sign(name))
        await eventually(lambda before=before: time.time_ns() > before, what="the clock to move")  # type: ignore[misc]
    looks = 0
    listed = plain.storage.list

    def counted(*args: Any, **options: Any) -> AsyncIterator[BlobInfo]:
        nonlocal looks
        looks += 1
        return listed(*args, **options)

    monkeypatch.setattr(plain.storage, "list", counted)
    replies = await asyncio.gather(*(plain.get("/v1/workers", by="root") for _ in range(20)))
    assert {tuple(one["worker"] for one in reply.json()["workers"]) for reply in replies} == {
        ("three", "two")
    }
    assert looks == 1


# --- statistics ---


async def test_statistics_count_every_job_by_state_method_reason_and_submitter(api: Api) -> None:
    now = datetime.now(UTC)
    usage = Usage.from_json({"cpu_seconds": 2.5, "wall_seconds": 4})
    began = (now - timedelta(seconds=30)).isoformat()
    run = Attempt(number=1, ending="complete", started_at=began, usage=usage, result_bytes=1000)
    submitted = now - timedelta(seconds=40)
    await api.add_job(state=State.COMPLETE, submitted_at=submitted, attempts=(run,))
    error = JobError(reason=Reason.OUT_OF_MEMORY, message="m")
    failed = await api.add_job(title="tree", submitter="ben", state=State.FAILED, error=error)
    await api.add_job(submitter="ben")
    held = MethodHealth(title="tree", digest=None, failures=(("0123abcd", "w"),), held_since=now)
    await api.parts.store.set_method_health(held)
    found = (await api.get("/v1/statistics?hours=24", by="root")).json()
    assert found["jobs"] == 3
    assert {state: count for state, count in found["states"].items() if count} == {
        "complete": 1,
        "failed": 1,
        "waiting": 1,
    }
    assert set(found["states"]) == set(State)
    assert (sum(b["submitted"] for b in found["buckets"]), found["bucket_hours"]) == (3, 24)
    assert sum(b["complete"] for b in found["buckets"]) == sum(b["failed"] for b in found["buckets"]) == 1
    assert found["waiting"] == {"jobs": 1, "median": 10, "p95": 10}
    [failure] = found["failures"]
    assert (failure["title"], failure["reason"], failure["last_job"]) == ("tree", "out_of_memory", failed.id)
    assert [(one["submitter"], one["unfinished"], one["ended"]) for one in found["submitters"]] == [
        ("ben", 1, 1),
        ("ann", 0, 1),
    ]
    ann = found["submitters"][1]
    assert (ann["cpu_seconds"], ann["run_seconds"], ann["result_bytes"]) == (2.5, 4, 1000)
    [method] = found["held_methods"]
    assert (method["title"], method["evidence"]) == ("tree", held.evidence)


async def test_statistics_are_of_all_pages_and_worked_out_once_for_all_who_ask(
    plain: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "PAGE", 7)
    for _ in range(23):
        await plain.add_job()
    pages = 0
    page = plain.parts.store.page

    async def counted(*args: Any, **options: Any) -> Any:
        nonlocal pages
        pages += 1
        return await page(*args, **options)

    monkeypatch.setattr(plain.parts.store, "page", counted)
    replies = await asyncio.gather(
        *(plain.get(f"/v1/statistics?hours={hours}", by="root") for hours in (1, 3, 6, 12, 24) * 4)
    )
    assert {reply.json()["jobs"] for reply in replies} == {23}
    assert pages == 4


async def test_others_get_their_turn_while_statistics_are_worked_out(plain: Api) -> None:
    for _ in range(300):
        await plain.add_job()
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(others())
    try:
        assert (await plain.app[statistics.TALLY].get()).jobs == 300
    finally:
        other.cancel()
    assert turns >= 300 / statistics.CHUNK


@pytest.mark.parametrize("query", ["hours=2", "hours=", "hours=1&hours=3", "days=7"])
async def test_a_wrong_query_is_told(plain: Api, query: str) -> None:
    assert (await plain.get(f"/v1/statistics?{query}", by="root")).status == 422


# --- what is worked out once ---


async def test_a_cached_value_is_made_once_and_anew_after_its_time_a_fault_or_a_drop() -> None:
    made = 0
    fault: Exception | None = Unavailable("not now")

    async def make() -> int:
        nonlocal made
        made += 1
        await asyncio.sleep(0)
        if fault is not None:
            raise fault
        return made

    cached = Cached(make, 3600)
    found = await asyncio.gather(*(cached.get() for _ in range(3)), return_exceptions=True)
    assert (made, {type(one) for one in found}) == (1, {Unavailable})
    fault = None
    assert [await cached.get() for _ in range(3)] == [2, 2, 2]
    cached.drop()
    assert await cached.get() == 3
    short = Cached(make, 0)
    first = await short.get()
    await eventually(lambda: _is_newer(short, first), within=5)
    await cached.close()


async def _is_newer(cached: Cached[int], than: int) -> bool:
    return await cached.get() > than


async def test_one_who_leaves_takes_a_value_from_nobody_and_a_close_ends_its_making() -> None:
    go = asyncio.Event()

    async def make() -> str:
        await go.wait()
        return "value"

    cached = Cached(make, 3600)
    leaver, stayer = asyncio.create_task(cached.get()), asyncio.create_task(cached.get())
    await asyncio.sleep(0)
    leaver.cancel()
    await asyncio.wait([leaver])
    go.set()
    assert (leaver.cancelled(), await stayer) == (True, "value")
    go.clear()
    cached.drop()
    waiting = asyncio.create_task(cached.get())
    await asyncio.sleep(0)
    await cached.close()
    await asyncio.wait([waiting])
    assert waiting.cancelled()


# --- orphans ---


async def places(api: Api) -> set[str]:
    return {
        f"{container}/{name}" for container in Container for name in await names_in(api.storage, container)
    }


async def test_a_sweep_takes_what_no_job_wants_and_nothing_else(api: Api) -> None:
    jobs = [await api.add_job(title="noop", state=state) for state in (State.COMPLETE, State.RUNNING)]
    kept: set[str] = set()
    for job in jobs:
        kept |= await fill(api.storage, stem_of(job), uid=job.uid)
    legacy = await api.add_job(title="noop", state=State.COMPLETE)
    await put(api.storage, result_name(stem_of(legacy), Ending.COMPLETE))
    foreign = {"queue/notes.txt", "results/old/report.zip", "results/doctor/0123abcd"}
    for place in foreign:
        container, _, name = place.partition("/")
        await put(api.storage, name, Container(container))
    kept |= {f"results/{result_name(stem_of(legacy), Ending.COMPLETE)}", "results/workers/w.json"} | foreign
    await api.storage.write(Container.RESULTS, worker_name("w"), sign("w"))
    over = datetime.now(UTC) - timedelta(minutes=1)
    expired, replaced = new_stem(), f"{stem_of(jobs[0])}-2"
    told = PackageMeta(uid="b" * 32, expires_at=over).to_metadata()
    gone = await fill(api.storage, expired, **told)
    others = await fill(api.storage, replaced, uid="c" * 32) - kept
    unknown = await fill(api.storage, new_stem(), uid="d" * 32)
    # the snapshot is the job's, and was written over by `fill`
    await put(api.storage, snapshot_name(stem_of(jobs[0])), uid=jobs[0].uid)

    found = await orphans_of(api)
    assert {place for place, reason in found.items() if reason == "expired"} == gone
    assert {place for place, reason in found.items() if reason == "replaced"} == others
    assert {place for place, reason in found.items() if reason == "unknown"} == unknown
    assert {place for place, reason in found.items() if reason == "foreign"} == foreign
    assert await places(api) == kept | gone | others | unknown, "a list changes nothing"

    done = await swept(api)
    assert (done["removed_files"], done["changed"], done["failed"]) == (len(gone | others), [], {})
    assert await places(api) == kept | unknown
    done = await swept(api, reasons=["unknown", "foreign"])
    assert (done["removed_files"], done["more"]) == (len(unknown), False)
    assert await places(api) == kept
    assert set(await orphans_of(api)) == foreign


async def test_the_stock_counts_all_files_by_kind(plain: Api) -> None:
    job = await plain.complete_job(b"12345", title="noop")
    await put(plain.storage, package_name(stem_of(job)), Container.QUEUE, uid=job.uid)
    await put(plain.storage, "notes.txt")
    found = (await plain.get("/v1/orphans", by="root")).json()
    assert {(one["container"], one["kind"]): (one["files"], one["bytes"]) for one in found["holdings"]} == {
        ("queue", "package"): (1, 7),
        ("results", "result"): (1, 5),
        ("results", "foreign"): (1, 7),
    }
    assert found["reasons"] == [
        {"reason": "foreign", "removable": False, "sure": False, "files": 1, "bytes": 7}
    ]
    [file] = found["files"]
    assert (file["link"], file["job"]) == ("/v1/packages/results/notes.txt", None)
    assert (await plain.get(file["link"], by="root")).body == b"content"


async def test_of_many_orphans_some_are_named_all_are_counted_and_sweeps_go_on_to_the_end(
    plain: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aioanalysis.orphans.BATCH", 10)
    over = PackageMeta(uid="b" * 32, expires_at=datetime.now(UTC)).to_metadata()
    for _ in range(35):
        await put(plain.storage, result_name(new_stem(), Ending.COMPLETE), **over)
    stock = await plain.app[orphans.ORPHANS].take_stock(keep=5)
    assert (len(stock.orphans), {r: a.files for r, a in stock.reasons.items()}) == (5, {"expired": 35})
    removed = [await swept(plain, limit=15) for _ in range(3)]
    assert [(one["removed_files"], one["more"]) for one in removed] == [(15, True), (15, True), (5, False)]
    assert await places(plain) == set()


async def test_a_young_file_is_no_orphan_yet(redis_url: str, unique: str, tmp_path: Path) -> None:
    storage = DirectoryStorage(tmp_path / "blobs")
    await storage.prepare()
    async with open_api(storage, redis_url=redis_url, prefix=unique, folder=tmp_path) as api:
        await fill(storage, new_stem(), expires_at=datetime.now(UTC).isoformat())
        assert await orphans_of(api) == {}
        assert (await swept(api, reasons=["expired", "unknown"]))["removed_files"] == 0


async def test_what_a_worker_holds_is_left_until_it_lets_go(api: Api) -> None:
    stem, lease = new_stem(), lease_id()
    name = claim_name(stem)
    await put(api.storage, name, expires_at=datetime.now(UTC).isoformat())
    await api.storage.acquire_lease(Container.RESULTS, name, lease, 60)
    assert (await swept(api))["removed_files"] == 0
    await api.storage.release_lease(Container.RESULTS, name, lease)
    assert (await swept(api))["removed_files"] == 1


class Racing:
    """Storage in which something happens between the look at the files and the first removal."""

    def __init__(self, storage: ExchangeStorage, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._storage = storage
        self._act = act
        self._acting: asyncio.Task[None] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    async def delete(self, *args: Any, **options: Any) -> bool:
        if self._acting is None:
            self._acting = asyncio.create_task(self._act(), name="the run goes on")
        await self._acting
        return await self._storage.delete(*args, **options)


async def test_a_file_that_a_run_writes_or_takes_while_it_is_swept_stays(api: Api) -> None:
    """A worker that was away comes back: it rewrites its result, takes its claim, and writes a new file."""
    stem, lease = new_stem(), lease_id()
    result, claim = result_name(stem, Ending.COMPLETE), claim_name(stem)
    over = PackageMeta(uid="b" * 32, expires_at=datetime.now(UTC)).to_metadata()
    for name in (attempt_name(stem, 1, ".zip"), claim, result):
        await put(api.storage, name, **over)
    sidecar = sidecar_name(stem, Ending.COMPLETE)

    async def run_goes_on() -> None:
        mark = RunMark(uid="b" * 32, attempt=2).to_metadata()
        await api.storage.write(Container.RESULTS, result, b"new result", metadata=mark)
        await api.storage.acquire_lease(Container.RESULTS, claim, lease, 60)
        await put(api.storage, sidecar, **mark)

    real = api.app[orphans.ORPHANS]
    racing = Orphans(
        Racing(api.storage, run_goes_on),  # type: ignore[arg-type]
        api.parts.store,
        safe_seconds=0,
        job_expiry=604_800,
        clock=api.context.operations.clock,
    )
    done = await racing.sweep({OrphanReason.EXPIRED}, limit=100, by="root")
    assert (done.removed.files, done.failed) == (1, {})
    assert sorted(done.changed) == [f"results/{claim}", f"results/{result}"]
    assert await places(api) == {f"results/{name}" for name in (claim, result, sidecar)}
    await api.storage.release_lease(Container.RESULTS, claim, lease)
    assert (await real.sweep(OrphanReason, limit=100, by="root")).removed.files == 3


async def test_jobs_that_come_and_run_while_sweeps_go_on_lose_nothing(plain: Api) -> None:
    """Submission, packaging, claim and result, over and over, beside sweeps that take all that they may."""
    over = PackageMeta(uid="b" * 32, expires_at=datetime.now(UTC)).to_metadata()
    for _ in range(40):
        await put(plain.storage, result_name(new_stem(), Ending.COMPLETE), **over)
    jobs: list[Job] = []

    async def run() -> None:
        for _ in range(10):
            job = await plain.add_job(title="noop")
            stem, metadata = stem_of(job), PackageMeta(uid=job.uid).to_metadata()
            await put(plain.storage, package_name(stem), Container.QUEUE, **metadata)
            await plain.storage.copy(
                (Container.QUEUE, package_name(stem)),
                (Container.RESULTS, claim_name(stem)),
                metadata=metadata,
            )
            await plain.storage.delete(Container.QUEUE, package_name(stem))
            await put(plain.storage, progress_name(stem))
            await plain.add_result(job, b"result")
            await put(plain.storage, sidecar_name(stem, Ending.COMPLETE), uid=job.uid)
            jobs.append(job)

    runs = asyncio.gather(*(run() for _ in range(4)))
    sweeps = 0
    while not runs.done():
        done = await plain.app[orphans.ORPHANS].sweep(OrphanReason, limit=5, by="root")
        assert done.failed == {}
        sweeps += 1
    await runs
    assert sweeps
    left = await places(plain)
    for job in jobs:
        stem = stem_of(job)
        names = (claim_name(stem), progress_name(stem), f"{stem}.zip", sidecar_name(stem, Ending.COMPLETE))
        assert {f"results/{name}" for name in names} <= left


async def test_a_damaged_record_still_keeps_its_files(plain: Api) -> None:
    job = await plain.add_job(title="noop", state=State.COMPLETE)
    places_of_job = await fill(plain.storage, stem_of(job), uid="e" * 32)
    key = f"{plain.parts.store._keys.records}{job.id}"
    await plain.parts.client.hdel(key, "uid")
    assert await orphans_of(plain) == {}
    await plain.parts.client.delete(key)
    await plain.parts.client.set(key, "no record at all", ex=60)
    assert await orphans_of(plain) == {}
    await plain.parts.client.delete(key)
    assert set(await orphans_of(plain)) == places_of_job


async def test_one_file_that_cannot_be_removed_is_told_and_stops_nothing(
    plain: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = PackageMeta(uid="b" * 32, expires_at=datetime.now(UTC)).to_metadata()
    stems = sorted(new_stem() for _ in range(3))
    for stem in stems:
        await put(plain.storage, result_name(stem, Ending.COMPLETE), **over)
    delete = plain.storage.delete
    bad = result_name(stems[1], Ending.COMPLETE)

    async def failing(container: Container, name: str, **options: Any) -> bool:
        if name == bad:
            raise Unavailable("the server is busy")
        return await delete(container, name, **options)

    monkeypatch.setattr(plain.storage, "delete", failing)
    done = await swept(plain)
    assert (done["removed_files"], done["failed"]) == (2, {f"results/{bad}": "the server is busy"})
    assert await places(plain) == {f"results/{bad}"}


@pytest.mark.parametrize(
    "body", [{"reasons": []}, {"reasons": ["old"]}, {"limit": 0}, {"limit": 1001}, {"files": ["x"]}]
)
async def test_a_wrong_sweep_is_told_and_removes_nothing(plain: Api, body: dict[str, Any]) -> None:
    over = PackageMeta(uid="b" * 32, expires_at=datetime.now(UTC)).to_metadata()
    await put(plain.storage, result_name(new_stem(), Ending.COMPLETE), **over)
    assert (await plain.call("POST", SWEEP, by="root", json=body)).status == 422
    assert len(await places(plain)) == 1


async def test_every_removal_is_told_in_the_log_with_its_reason_and_by_whom(
    plain: Api,
) -> None:
    written = io.StringIO()
    logs.configure(level="info", form="json", stream=written)
    over = PackageMeta(uid="b" * 32, expires_at=datetime.now(UTC)).to_metadata()
    name = result_name(new_stem(), Ending.COMPLETE)
    await put(plain.storage, name, **over)
    await swept(plain)
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    [removal] = [line for line in lines if line["event"] == "orphan_removed"]
    assert (removal["file"], removal["reason"], removal["by"]) == (f"results/{name}", "expired", "root")
    [summary] = [line for line in lines if line["event"] == "orphans_swept"]
    assert (summary["files"], summary["by"]) == (1, "root")
