"""Scheduler passes over a real job store and directory storage, with a clock that tests move."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from cryptography.fernet import Fernet

from aioanalysis.aio import Tasks
from aioanalysis.domain.dependencies import Condition, Dependency
from aioanalysis.domain.exchange import (
    Container,
    Ending,
    PackageMeta,
    RunMark,
    claim_name,
    package_name,
    progress_name,
    result_name,
    sidecar_name,
    worker_name,
)
from aioanalysis.domain.job import Job, Source
from aioanalysis.domain.outcomes import Reason
from aioanalysis.domain.outlook import Outlook
from aioanalysis.domain.states import Action, State
from aioanalysis.errors import Unavailable
from aioanalysis.interfaces import User
from aioanalysis.jobstore.parts import RedisParts, open_job_store
from aioanalysis.operations import NewJob, Operations
from aioanalysis.recordstore.directory import DirectoryRecordStore
from aioanalysis.scheduler.forecasting import Forecaster
from aioanalysis.scheduler.observing import Observer
from aioanalysis.scheduler.packaging import Packager
from aioanalysis.scheduler.passes import Passes
from aioanalysis.scheduler.performing import Performer
from aioanalysis.scheduler.progress import ProgressFollower
from aioanalysis.scheduler.wrangling import Wrangler
from aioanalysis.storage.directory import DirectoryStorage
from tests.support.waiting import eventually

ADA = User(name="ada")
ROOT = User(name="root", role="administrator")
LIMIT = timedelta(hours=6)


class World:
    """A scheduler made to pass by hand, and a hand that plays the worker."""

    def __init__(self, parts: RedisParts, storage: DirectoryStorage, folder: Path) -> None:
        self.now = datetime.now(UTC)
        self.parts, self.storage, self.folder = parts, storage, folder
        self.operations = Operations(
            parts.store,
            storage,
            parts.bell,
            attached=parts.attached,
            time_limit=LIMIT.total_seconds(),
            job_expiry=604_800,
            clock=lambda: self.now,
        )
        self.packager: Packager
        self.passes: Passes

    def take_office(self, tasks: Tasks, fence: int) -> None:
        observer = Observer(self.storage, grace_seconds=0, clock=lambda: self.now.timestamp())
        records = DirectoryRecordStore(self.folder / "recordsets")
        self.packager = Packager(
            self.operations, records, tasks, fence=fence, spool=self.folder / "spool", limit=4
        )
        store = self.parts.store
        self.passes = Passes(
            self.operations,
            store,
            observer,
            Performer(self.operations, store, observer, fence=fence, lease_seconds=15),
            self.packager,
            Wrangler(self.operations, store, fence=fence, limit=5),
            ProgressFollower(self.storage, self.parts.progress),
            Forecaster(self.parts.outlooks, self.storage),
            queue_limit=10,
            max_recoveries=3,
            wrangle_failures=5,
        )

    def later(self, **by: float) -> None:
        self.now += timedelta(**by)

    async def look(self, *, full: bool = True) -> None:
        """One pass, and whatever it began to package."""
        await self.passes.run(full=full)
        await eventually(lambda: not self.packager.busy, within=10)

    async def submit(self, **changes: Any) -> Job:
        self.later(milliseconds=1)
        new = NewJob(title="noop", params={}, source=Source(kind="recordset", value="DS"))
        return await self.operations.submit(replace(new, **changes), ADA, "adas-key")

    async def job(self, job: Job) -> Job:
        found = await self.parts.store.get(job.id)
        assert found is not None
        return found

    async def claim(self, job: Job) -> PackageMeta:
        """Take the package as a worker does, without a lease."""
        source = await self.storage.stat(Container.QUEUE, package_name(job.name))
        assert source is not None
        meta = replace(PackageMeta.from_metadata(source.metadata), nonce="n", worker="w")
        await self.storage.copy(
            (Container.QUEUE, source.name),
            (Container.RESULTS, claim_name(job.name)),
            metadata=meta.to_metadata(),
        )
        await self.storage.delete(Container.QUEUE, source.name)
        return meta

    async def hold(self, job: Job) -> None:
        """Lease the claim as a worker does."""
        await self.storage.acquire_lease(Container.RESULTS, claim_name(job.name), str(uuid4()), 60)

    async def commit(
        self, job: Job, ending: Ending = Ending.COMPLETE, *, attempt: int = 1, seconds: float = 0
    ) -> None:
        metadata = RunMark(uid=job.uid, attempt=attempt, nonce="n").to_metadata()
        error = None if ending is Ending.COMPLETE else {"reason": "stage", "message": "it broke"}
        began = self.now - timedelta(seconds=seconds)
        times = {"started_at": began.isoformat(), "finished_at": self.now.isoformat()}
        body = json.dumps({"uid": job.uid, "attempt": attempt, "error": error, **times}).encode()
        for name, data in ((result_name(job.name, ending), b"zip"), (sidecar_name(job.name, ending), body)):
            await self.storage.write(Container.RESULTS, name, data, metadata=metadata)

    async def greet(self, *, slots: int = 1, state: str = "running") -> None:
        """Give a worker's sign of life."""
        body = {"worker": "w", "slots": slots, "state": state}
        await self.storage.write(Container.RESULTS, worker_name("w"), json.dumps(body).encode())

    async def foreseen(self, job: Job) -> Outlook | None:
        return (await self.parts.outlooks.outlooks([job.id])).get(job.id)

    async def left(self) -> list[str]:
        names = [name async for name in self.storage.names(Container.RESULTS)]
        return [*names, *[name async for name in self.storage.names(Container.QUEUE)]]


@pytest.fixture
async def world(tmp_path: Path, redis_url: str, unique: str) -> AsyncIterator[World]:
    recordsets = tmp_path / "recordsets"
    recordsets.mkdir()
    (recordsets / "DS.jsonl").write_text('{"processid": "A-1"}\n{"processid": "A-2"}\n')
    storage = DirectoryStorage(tmp_path / "storage", queue="queue", results="results")
    await storage.prepare()
    secret = Fernet.generate_key().decode()
    async with open_job_store(redis_url, secret=secret, prefix=f"{unique}:") as parts:
        world = World(parts, storage, tmp_path)
        async with in_office(world):
            yield world


@asynccontextmanager
async def in_office(world: World) -> AsyncIterator[None]:
    async with world.parts.lock.hold() as holding, Tasks() as tasks:
        world.take_office(tasks, holding.fence)
        yield


async def test_a_job_goes_from_waiting_to_complete_by_what_storage_shows(world: World) -> None:
    job = await world.submit()
    await world.look()
    assert (await world.job(job)).state is State.QUEUED
    assert (await world.job(job)).packaged_count == 2
    await world.claim(job)
    await world.look(full=False)
    assert (await world.job(job)).state is State.RUNNING
    await world.commit(job)
    await world.look(full=False)
    assert (await world.job(job)).state is State.COMPLETE
    assert sorted(await world.left()) == [f"noop.{job.id}.metadata.json", f"noop.{job.id}.zip"]


@pytest.mark.parametrize("mine", [True, False])
async def test_a_package_that_another_scheduler_was_quicker_with_is_the_jobs_if_it_is_of_its_run(
    world: World, mine: bool
) -> None:
    job = await world.submit()
    meta = PackageMeta(uid=job.uid if mine else str(uuid4()), attempt=1, records=7)
    await world.storage.write(Container.QUEUE, package_name(job.name), b"theirs", metadata=meta.to_metadata())
    world.packager.admit(job, None)
    await eventually(lambda: not world.packager.busy, within=10)
    found = await world.job(job)
    assert found.state is (State.QUEUED if mine else State.WAITING)
    assert found.packaged_count == (7 if mine else None)


async def test_every_unfinished_job_is_stamped_by_every_pass_and_a_complete_one_is_not(world: World) -> None:
    job = await world.submit()
    for _ in range(2):
        world.later(seconds=10)
        await world.look(full=False)
        assert (await world.job(job)).last_updated == world.now
    assert (await world.job(job)).state_changed_at < world.now
    await world.claim(job)
    await world.commit(job)
    await world.look()
    done = (await world.job(job)).last_updated
    world.later(seconds=10)
    await world.look()
    assert (await world.job(job)).last_updated == done


async def test_the_time_limit_fails_a_job_in_any_state_and_a_late_result_completes_it(world: World) -> None:
    waiting, running = await world.submit(hold=True), await world.submit()
    await world.look()
    await world.claim(running)
    await world.look()
    world.later(hours=6)
    await world.look()
    for job in (waiting, running):
        failed = await world.job(job)
        assert failed.state is State.FAILED
        assert failed.error is not None
        assert failed.error.reason is Reason.TIME_LIMIT
    await world.commit(running)
    world.later(minutes=1)
    await world.look()
    assert (await world.job(running)).state is State.COMPLETE
    assert (await world.job(running)).error is None
    assert (await world.job(waiting)).state is State.FAILED


async def test_a_retry_has_a_clock_of_its_own(world: World) -> None:
    job = await world.submit()
    await world.look()
    await world.claim(job)
    await world.commit(job, Ending.FAILED)
    await world.look()
    assert (await world.job(job)).state is State.FAILED
    world.later(hours=5)
    again = await world.operations.act(job.id, Action.RETRY, ADA)
    assert again.deadline == world.now + LIMIT
    world.later(hours=2)  # past the first deadline
    await world.look()
    await world.look()
    assert (await world.job(job)).state is State.QUEUED
    assert (await world.job(job)).attempt == 2
    names = await world.left()
    assert f"attempts/noop.{job.id}.1.failed.zip" in names
    assert f"noop.{job.id}.failed.zip" not in names
    world.later(hours=5)
    await world.look()
    assert (await world.job(job)).state is State.FAILED


async def test_a_dependency_on_a_removed_job_goes_by_its_final_state(world: World) -> None:
    parent = await world.submit()
    await world.look()
    await world.claim(parent)
    await world.commit(parent)
    await world.look()
    child = await world.submit(after=(Dependency(job=parent.id),))
    stubborn = await world.submit(after=(Dependency(job=parent.id, when=Condition.FAILED),))
    await world.operations.remove(parent.id, ADA, force=False)
    await world.look()
    await world.look()
    assert (await world.job(child)).state is State.QUEUED
    assert (await world.job(stubborn)).state is State.BLOCKED


async def test_a_dependency_on_an_expired_job_goes_by_how_it_was_seen_last(world: World) -> None:
    parent = await world.submit()
    held = await world.submit(after=(Dependency(job=parent.id),), hold=True)
    await world.look()
    await world.claim(parent)
    await world.commit(parent)
    await world.look()
    await world.look()
    assert (await world.job(held)).after[0].seen is State.COMPLETE
    await world.parts.client.delete(f"{world.parts.store._keys.records}{parent.id}")
    await world.look()
    assert (await world.job(held)).state is State.BLOCKED  # the user holds it too
    await world.operations.act(held.id, Action.UNBLOCK, ADA)
    await world.look()
    assert (await world.job(held)).state is State.QUEUED


async def test_a_lost_claim_goes_back_and_what_its_worker_leaves_later_is_archived(world: World) -> None:
    job = await world.submit()
    await world.look()
    await world.claim(job)
    await world.look()  # free for the first time
    world.later(seconds=1)
    await world.look()
    back = await world.job(job)
    assert (back.state, back.attempt, back.recoveries) == (State.QUEUED, 2, 1)
    await world.commit(job, attempt=1)
    await world.look()
    assert (await world.job(job)).state is State.QUEUED
    assert f"attempts/noop.{job.id}.1.zip" in await world.left()


async def test_a_queue_never_holds_more_than_its_limit_and_submitters_take_turns(world: World) -> None:
    jobs = [await world.submit() for _ in range(14)]
    await world.look()
    await world.look()
    queued = [name async for name in world.storage.names(Container.QUEUE)]
    assert len(queued) == 10
    assert {name.removesuffix(".tar") for name in queued} == {job.name for job in jobs[:10]}


async def test_a_scheduler_out_of_office_writes_nothing_more(world: World) -> None:
    job = await world.submit()
    old = world.passes
    async with world.parts.client.client() as other:
        await other.hset(world.parts.store._keys.fence, "n", 10_000)
    await old.run(full=True)
    await eventually(lambda: not world.packager.busy, within=10)
    assert (await world.job(job)).state is State.WAITING
    assert (await world.job(job)).frames[0].packaging is None


async def test_of_running_jobs_the_progress_is_posted_and_only_what_changed_is_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, queued = await world.submit(), await world.submit()
    await world.look()
    await world.claim(running)
    await world.hold(running)
    await world.look(full=False)
    read: list[str] = []
    opened = DirectoryStorage.open

    def noting(self: DirectoryStorage, container: Container, name: str, **more: Any) -> Any:
        read.append(name)
        return opened(self, container, name, **more)

    monkeypatch.setattr(DirectoryStorage, "open", noting)

    async def tell(job: Job, **changes: Any) -> None:
        body = {"uid": job.uid, "attempt": 1, "stage": 1, "at": world.now.isoformat(), **changes}
        name = progress_name(job.name)
        await world.storage.write(Container.RESULTS, name, json.dumps(body).encode())

    async def stage() -> int | None:
        found = (await world.parts.progress.latest({running.id: [None]})).get(running.id, ())
        return found[0].progress.stage if found else None

    await tell(queued)  # what an earlier attempt has left
    await tell(running, stage=None)
    await world.look(full=False)
    assert await stage() is None
    await tell(running, stage=2)
    for _ in range(3):
        await world.look(full=False)
    assert await stage() == 2
    assert read == [progress_name(running.name)] * 2
    for odd in ({"stage": 3, "attempt": 2}, {"stage": 3, "uid": "another"}, {"stage": 9}):
        await tell(running, **odd)
        await world.look(full=False)
        assert await stage() == 2
    assert (await world.job(running)).state is State.RUNNING
    await tell(running, stage=4)
    await world.commit(running)
    await world.look()
    assert (await world.job(running)).state is State.COMPLETE
    assert await stage() == 2
    assert await world.parts.progress.latest({queued.id: [None]}) == {}


async def test_progress_that_cannot_be_read_holds_up_no_pass(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await world.submit()
    await world.look()
    await world.claim(job)
    await world.hold(job)
    await world.look(full=False)

    async def fail(*_: object) -> None:
        raise Unavailable("away")

    monkeypatch.setattr(world.parts.progress, "post", fail)
    body = {"uid": job.uid, "attempt": 1, "stage": 1, "at": world.now.isoformat()}
    await world.storage.write(Container.RESULTS, progress_name(job.name), json.dumps(body).encode())
    await world.look(full=False)
    monkeypatch.undo()
    await world.look(full=False)
    [found] = (await world.parts.progress.latest({job.id: [None]}))[job.id]
    assert found.progress.stage == 1


async def test_waiting_jobs_know_their_place_and_by_an_earlier_run_when_they_start(world: World) -> None:
    first = await world.submit()
    await world.look()
    await world.claim(first)
    await world.look(full=False)
    await world.commit(first, seconds=20)
    await world.greet()
    jobs = [await world.submit() for _ in range(13)]
    await world.look()  # what this one packages is in the queue when the next looks
    await world.look()
    queued = [found for job in jobs[:10] if (found := await world.foreseen(job)) is not None]
    queued.sort(key=lambda found: found.position or 0)  # they were packaged side by side
    assert [(found.phase, found.position) for found in queued] == [(State.QUEUED, n) for n in range(1, 11)]
    assert [found.starts for found in queued] == [world.now + timedelta(seconds=20 * n) for n in range(10)]
    assert [found.finishes for found in queued] == [
        world.now + timedelta(seconds=20 * n) for n in range(1, 11)
    ]
    waiting = await world.foreseen(jobs[12])
    assert waiting is not None
    assert (waiting.phase, waiting.position) == (State.WAITING, 3)
    assert waiting.starts == world.now + timedelta(seconds=240)
    assert await world.foreseen(first) is None


async def test_a_new_job_knows_its_place_after_the_next_pass_of_any_kind(world: World) -> None:
    await world.look()
    job = await world.submit(hold=True)
    await world.look(full=False)
    assert await world.foreseen(job) is None  # it stands in no line
    await world.operations.act(job.id, Action.UNBLOCK, ADA)
    await world.look(full=False)
    await world.look(full=False)
    found = await world.foreseen(job)
    assert found is not None
    assert (found.position, found.workers) == (1, 0)
    await world.greet()
    await world.look(full=False)
    found = await world.foreseen(job)
    assert found is not None
    assert (found.position, found.workers) == (1, 1)


@pytest.mark.parametrize("state", ["low_disk", "draining", "stopped"])
async def test_a_worker_that_takes_nothing_more_is_none_to_wait_for(world: World, state: str) -> None:
    await world.greet(state=state)
    job = await world.submit()
    await world.look()
    await world.look()
    found = await world.foreseen(job)
    assert found is not None
    assert found.workers == 0
    assert found.seen_at is not None


async def test_what_cannot_be_foreseen_holds_up_no_pass(world: World) -> None:
    await world.parts.client.set(world.parts.store._keys.past_runs, "no hash")
    await world.storage.write(Container.RESULTS, worker_name("w"), b"no JSON")
    job = await world.submit()
    await world.look()
    assert (await world.job(job)).state is State.QUEUED
