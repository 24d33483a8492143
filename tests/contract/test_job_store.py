"""The suite of `JobStore` and `Tombstones`, on redis-server and on Valkey."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis.asyncio
from cryptography.fernet import Fernet

from aioanalysis import logs
from aioanalysis.domain.job import Job, Source
from aioanalysis.domain.records import Selection
from aioanalysis.domain.states import State
from aioanalysis.errors import Contested, Damaged, Invalid, Misconfigured, Missing, Unavailable
from aioanalysis.interfaces import JobFilter
from aioanalysis.jobstore import codec
from aioanalysis.jobstore import redis as adapter
from aioanalysis.jobstore.client import open_client
from aioanalysis.jobstore.parts import RedisParts, open_job_store
from tests.support.faultproxy import FaultProxy
from tests.support.jobs import keyspace, make_job, make_tombstone
from tests.support.servers import RedisServer, TlsRedisServer

SECRET = Fernet.generate_key().decode()
KEY = "sk-live-3f9a81d2c7"


@pytest.fixture(params=["redis", "valkey"])
def server(request: pytest.FixtureRequest) -> RedisServer:
    found: RedisServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def prefix(unique: str) -> str:
    return f"{unique}:"


@pytest.fixture
async def raw(server: RedisServer, prefix: str) -> AsyncIterator[redis.asyncio.Redis]:
    """A bare client; at the end no record without an expiry is left, and no key in the clear."""
    options = {"decode_responses": True, "encoding_errors": "surrogateescape"}
    async with redis.asyncio.Redis.from_url(server.url, **options) as client:
        yield client
        left = await keyspace(client, prefix)
        assert [key for key, (_, expiry) in left.items() if key.startswith("job:") and expiry == -1] == []
        assert KEY not in json.dumps(left)


@pytest.fixture
async def parts(server: RedisServer, prefix: str, raw: redis.asyncio.Redis) -> AsyncIterator[RedisParts]:
    async with open_job_store(server.url, secret=SECRET, prefix=prefix) as opened:
        yield opened


@pytest.fixture
def store(parts: RedisParts) -> adapter.RedisJobStore:
    return parts.store


@pytest.fixture
async def proxy(server: RedisServer) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(("127.0.0.1", server.port), "redis") as running:
        yield running


@pytest.fixture
async def far(
    server: RedisServer, proxy: FaultProxy, prefix: str, parts: RedisParts
) -> AsyncIterator[RedisParts]:
    """The same job store by way of the proxy."""
    async with open_job_store(server.through(proxy.port), secret=SECRET, prefix=prefix) as opened:
        yield opened


def same(one: Job | None, other: Job) -> bool:
    """Equal but for the version (and lists that were tuples); a set is written in no order of its own."""

    def plain(job: Job) -> Job:
        return codec.load_job(codec.dump_job(job), version="")

    return one is not None and plain(one) == plain(other)


def ids(jobs: Any) -> list[str]:
    return [job.id for job in jobs]


# --- records ---


async def test_a_job_reads_back_as_it_was_written(store: adapter.RedisJobStore) -> None:
    """Every field and form of it: tests/unit/jobstore/test_codec.py."""
    job = make_job(
        params={"a": [1, 2.5, None, {"é": "\u0000\u2028"}], "big": 2**60},
        selection=Selection(mode="exclude", ids=frozenset({"R1", "R2"})),
        source=Source(kind="set_token", value="tok"),
        record_count=0,
        tags=("x", "y"),
        state=State.QUEUED,
    )
    created = await store.create(job, KEY)
    found = await store.get(job.id)
    assert same(found, job)
    assert found is not None
    assert found.version == created.version
    assert found.selection == job.selection
    assert found.submitted_at == job.submitted_at


async def test_what_is_not_there_is_none(store: adapter.RedisJobStore) -> None:
    for job_id in ("zzzzzzzz", "", "../../x", "UPPERCAS", "a\nb", "\ud800" * 8):
        assert await store.get(job_id) is None
    with pytest.raises(Missing):
        await store.key("zzzzzzzz")


async def test_creating_twice_creates_once(store: adapter.RedisJobStore, raw: Any, prefix: str) -> None:
    job = make_job()
    first = await store.create(job, KEY)
    before = await keyspace(raw, prefix)
    assert await store.create(job, KEY) == first
    assert await keyspace(raw, prefix) == before


async def test_creating_again_gives_the_job_as_it_is_by_now(store: adapter.RedisJobStore) -> None:
    job = make_job()
    first = await store.create(job, KEY)
    changed = await store.replace(replace(first, record_count=5))
    assert await store.create(job, KEY) == changed


async def test_an_id_taken_by_another_job_is_contested(store: adapter.RedisJobStore) -> None:
    job = await store.create(make_job(), KEY)
    with pytest.raises(Contested):
        await store.create(make_job(id=job.id, submitter="bob"), KEY)
    assert await store.get(job.id) == job
    assert (await store.page(JobFilter(submitter="bob"), limit=10)).jobs == []


async def test_a_value_that_is_no_text_is_refused(store: adapter.RedisJobStore) -> None:
    with pytest.raises(Invalid):
        await store.create(make_job(params={"a": "\ud800"}), KEY)


async def test_any_submitters_name_will_do(store: adapter.RedisJobStore) -> None:
    for name in ("Ann Ø. O'Neil", "a:b", "*", "x" * 300, "日本", "with\nnewline"):
        job = await store.create(make_job(submitter=name), KEY)
        assert ids((await store.page(JobFilter(submitter=name), limit=10)).jobs) == [job.id]


# --- expiry ---


async def test_no_update_extends_or_drops_the_expiry(
    store: adapter.RedisJobStore, raw: Any, prefix: str
) -> None:
    job = await store.create(make_job(), KEY)
    expected = codec.score(job.expires_at) // 1000
    assert await raw.pexpiretime(f"{prefix}job:{job.id}") == expected
    changed = await store.replace(replace(job, expires_at=job.expires_at + timedelta(days=1)))
    changed = await store.replace(replace(changed, state=State.COMPLETE))
    await store.checked(datetime.now(UTC))
    assert await raw.pexpiretime(f"{prefix}job:{job.id}") == expected


async def test_an_expired_job_is_nowhere_and_no_late_write_brings_it_back(
    store: adapter.RedisJobStore, raw: Any, prefix: str
) -> None:
    job = await store.create(make_job(), KEY)
    await raw.pexpire(f"{prefix}job:{job.id}", 0)
    with pytest.raises(Missing):
        await store.replace(replace(job, record_count=1))
    await store.checked(datetime.now(UTC))
    with pytest.raises(Missing):
        await store.key(job.id)
    assert await store.get(job.id) is None
    assert await store.unfinished() == ([], {})
    assert (await store.page(JobFilter(), limit=10)).jobs == []
    assert (await store.page(JobFilter(submitter="ann"), limit=10)).jobs == []
    assert set(await keyspace(raw, prefix)) <= {"last_pass", "events"}


async def test_a_job_whose_expiry_has_passed_is_not_created(store: adapter.RedisJobStore) -> None:
    old = datetime.now(UTC) - timedelta(days=8)
    await store.create(make_job(submitted_at=old), KEY)
    assert await store.unfinished() == ([], {})


async def test_indexes_lose_old_jobs_without_a_reader(
    store: adapter.RedisJobStore, raw: Any, prefix: str
) -> None:
    old = [await store.create(make_job(), KEY) for _ in range(3)]
    for job in old:
        await raw.delete(f"{prefix}job:{job.id}")
    new = await store.create(make_job(), KEY)
    assert await raw.zrange(f"{prefix}jobs", 0, -1) == [new.id]
    assert await raw.zrange(f"{prefix}jobs:ann", 0, -1) == [new.id]


async def test_every_index_expires_with_its_last_job(
    store: adapter.RedisJobStore, raw: Any, prefix: str
) -> None:
    first = await store.create(make_job(), KEY)
    last = await store.create(make_job(expires_at=first.expires_at + timedelta(hours=1)), KEY)
    await store.create(make_job(), KEY)
    expiries = {
        key: expiry
        for key, (_, expiry) in (await keyspace(raw, prefix)).items()
        if "job:" not in key and key != "events"
    }
    assert expiries == dict.fromkeys(("jobs", "jobs:ann", "unfinished"), codec.score(last.expires_at) // 1000)


# --- compare and set ---


async def test_only_one_of_two_changes_of_a_version_holds(store: adapter.RedisJobStore) -> None:
    job = await store.create(make_job(), KEY)
    changes = [replace(job, record_count=n) for n in range(8)]
    ends = await asyncio.gather(*(store.replace(c) for c in changes), return_exceptions=True)
    won = [end for end in ends if isinstance(end, Job)]
    assert len(won) == 1
    assert all(isinstance(end, Contested) for end in ends if end is not won[0])
    assert await store.get(job.id) == won[0]


async def test_versions_count_up(store: adapter.RedisJobStore) -> None:
    job = await store.create(make_job(), KEY)
    assert job.version.startswith("1:")
    changed = await store.replace(replace(job, record_count=1))
    back = await store.replace(replace(changed, record_count=None))
    assert [v.version.partition(":")[0] for v in (changed, back)] == ["2", "3"]


async def test_a_change_may_be_repeated_until_another_follows(store: adapter.RedisJobStore) -> None:
    job = await store.create(make_job(), KEY)
    change = replace(job, record_count=1)
    once = await store.replace(change)
    assert await store.replace(change) == once
    await store.replace(replace(once, record_count=2))
    with pytest.raises(Contested):
        await store.replace(change)


async def test_another_job_under_the_same_id_is_left_alone(
    store: adapter.RedisJobStore, raw: Any, prefix: str
) -> None:
    job = await store.create(make_job(), KEY)
    await raw.delete(f"{prefix}job:{job.id}")
    other = await store.create(make_job(id=job.id), KEY)
    with pytest.raises(Missing):
        await store.replace(job)
    await store.remove(job, make_tombstone(job))
    assert await store.get(job.id) == other
    assert ids((await store.unfinished())[0]) == [job.id]


async def test_a_write_under_an_older_fence_is_refused(parts: RedisParts) -> None:
    store = parts.store
    job = await store.create(make_job(), KEY)
    async with parts.lock.hold() as first:
        job = await store.replace(replace(job, record_count=1), fence=first.fence)
    async with parts.lock.hold() as second:
        with pytest.raises(Contested):
            await store.replace(replace(job, record_count=2), fence=first.fence)
        assert await store.get(job.id) == job
        job = await store.replace(replace(job, record_count=3), fence=second.fence)
    assert (await store.replace(replace(job, record_count=4))).record_count == 4


# --- removal ---


async def test_removal_leaves_a_tombstone_and_nothing_else(
    store: adapter.RedisJobStore, raw: Any, prefix: str
) -> None:
    job = await store.create(make_job(), KEY)
    tombstone = make_tombstone(job)
    await store.remove(job, tombstone)
    assert set(await keyspace(raw, prefix)) == {"tombstones", "events"}
    assert await store.tombstones() == [tombstone]
    await store.remove(job, tombstone)
    assert await store.tombstones() == [tombstone]
    await store.forget(tombstone)
    await store.forget(tombstone)
    assert set(await keyspace(raw, prefix)) == {"events"}


async def test_a_job_that_changed_is_not_removed(store: adapter.RedisJobStore) -> None:
    job = await store.create(make_job(), KEY)
    changed = await store.replace(replace(job, record_count=1))
    with pytest.raises(Contested):
        await store.remove(job, make_tombstone(job))
    assert await store.get(job.id) == changed
    assert await store.tombstones() == []


async def test_a_submission_that_arrives_after_the_removal_stays_away(store: adapter.RedisJobStore) -> None:
    job = make_job()
    created = await store.create(job, KEY)
    await store.remove(created, make_tombstone(created))
    with pytest.raises(Contested):
        await store.create(job, KEY)
    assert await store.get(job.id) is None


async def test_an_expired_job_can_be_removed(store: adapter.RedisJobStore, raw: Any, prefix: str) -> None:
    job = await store.create(make_job(), KEY)
    await raw.delete(f"{prefix}job:{job.id}")
    await store.remove(job, make_tombstone(job))
    assert set(await keyspace(raw, prefix)) == {"tombstones", "events"}


async def test_tombstones_outlive_their_time_until_forgotten_but_not_for_ever(
    store: adapter.RedisJobStore, raw: Any, prefix: str
) -> None:
    now = datetime.now(UTC)
    due, overdue = (make_tombstone(make_job(), keep_until=now - timedelta(days=days)) for days in (1, 60))
    for tombstone in (due, overdue):
        await store.remove(make_job(id=tombstone.id, uid=tombstone.uid), tombstone)
    await raw.hset(f"{prefix}tombstones", "someone", "{not json")
    assert await store.tombstones() == [due]
    assert set(await raw.hkeys(f"{prefix}tombstones")) == {due.uid, "someone"}


# --- the unfinished ---


async def test_unfinished_jobs_are_all_but_the_complete_oldest_first(store: adapter.RedisJobStore) -> None:
    start = datetime.now(UTC)
    jobs = {
        state: await store.create(make_job(state=state, submitted_at=start - timedelta(microseconds=n)), KEY)
        for n, state in enumerate(State)
    }
    found, damaged = await store.unfinished()
    expected = [jobs[state] for state in reversed(State) if state is not State.COMPLETE]
    assert list(found) == expected
    assert damaged == {}


async def test_a_job_leaves_the_unfinished_when_complete_and_comes_back_by_override(
    store: adapter.RedisJobStore, raw: Any, prefix: str
) -> None:
    job = await store.create(make_job(), KEY)
    job = await store.replace(replace(job, state=State.COMPLETE))
    assert await store.unfinished() == ([], {})
    job = await store.replace(replace(job, state=State.WAITING))
    assert list((await store.unfinished())[0]) == [job]
    assert await raw.pexpiretime(f"{prefix}unfinished") == codec.score(job.expires_at) // 1000


async def test_damaged_records_are_named_and_stop_nothing(
    store: adapter.RedisJobStore, raw: Any, prefix: str
) -> None:
    good = await store.create(make_job(), KEY)
    bad = [await store.create(make_job(), KEY) for _ in range(7)]
    document = json.loads(await raw.hget(f"{prefix}job:{bad[0].id}", "doc"))
    wrong_state = {**document, "job": {**document["job"], "state": "dancing"}}
    newer = {**document, "schema": 99}
    values: list[Any] = ["{", b"\xff\xfe{}", json.dumps(wrong_state), json.dumps(newer), "[]"]
    for job, value in zip(bad, values, strict=False):
        await raw.hset(f"{prefix}job:{job.id}", "doc", value)
    await raw.hdel(f"{prefix}job:{bad[5].id}", "version")
    await raw.delete(f"{prefix}job:{bad[6].id}")
    await raw.set(f"{prefix}job:{bad[6].id}", "a string", ex=100)

    found, damaged = await store.unfinished()
    assert list(found) == [good]
    assert set(damaged) == {job.id for job in bad}
    assert "state" in damaged[bad[2].id]
    assert "99" in damaged[bad[3].id]
    for job in bad:
        with pytest.raises(Damaged):
            await store.get(job.id)
    assert ids((await store.page(JobFilter(), limit=20)).jobs) == [good.id]


async def test_a_fragment_without_a_document_is_damaged_not_a_crash(
    store: adapter.RedisJobStore, raw: Any, prefix: str
) -> None:
    job = await store.create(make_job(), KEY)
    await raw.delete(f"{prefix}job:{job.id}")
    await raw.hset(f"{prefix}job:{job.id}", "version", "1:x")
    await raw.expire(f"{prefix}job:{job.id}", 100)
    with pytest.raises(Missing):
        await store.replace(job)
    assert set((await store.unfinished())[1]) == {job.id}


async def test_a_document_of_another_version_of_the_service_reads_on(
    store: adapter.RedisJobStore, raw: Any, prefix: str
) -> None:
    job = await store.create(make_job(), KEY)
    name = f"{prefix}job:{job.id}"
    document = json.loads(await raw.hget(name, "doc"))
    document["later"] = 1
    document["job"]["frames_of_a_later_release"] = [{}]
    document["job"]["source"]["etag"] = "x"
    for name_of_default in ("tags", "record_count", "selection", "history"):
        del document["job"][name_of_default]
    await raw.hset(name, "doc", json.dumps(document))
    found = await store.get(job.id)
    assert found == replace(job, history=())


async def test_a_pass_is_the_last_look_at_every_unfinished_job_that_was_there(
    store: adapter.RedisJobStore,
) -> None:
    at = datetime.now(UTC) + timedelta(seconds=5)
    before = await store.create(make_job(), KEY)
    done = await store.create(make_job(state=State.COMPLETE), KEY)
    after = await store.create(make_job(submitted_at=at + timedelta(seconds=1)), KEY)
    await store.checked(at)
    await store.checked(at - timedelta(seconds=1))  # a repeat that comes late
    page = await store.page(JobFilter(), limit=5)
    assert {job.id: job.last_updated for job in page.jobs} == {
        before.id: at,
        done.id: done.last_updated,
        after.id: after.last_updated,
    }
    again = await store.get(before.id)
    assert again is not None
    assert again.last_updated == at
    assert again.version == before.version
    assert await store.last_pass() == at


async def test_of_the_unfinished_only_those_are_read_again_that_have_changed(
    far: RedisParts, store: adapter.RedisJobStore, proxy: FaultProxy
) -> None:
    jobs = [await store.create(make_job(), KEY) for _ in range(20)]
    first, _ = await far.store.unfinished()
    changed = await store.replace(replace(jobs[3], record_count=5))
    before = len(proxy.requests)
    second, damaged = await far.store.unfinished()
    index, versions, read = proxy.requests[before:]
    assert all(job.id not in index for job in jobs)
    assert all(job.id in versions for job in jobs)
    assert [job.id for job in jobs if job.id in read] == [changed.id]
    assert [one is two for one, two in zip(first, second, strict=True)] == [n != 3 for n in range(20)]
    assert second[3] == changed
    assert damaged == {}


async def test_what_has_happened_to_unfinished_jobs_since_they_were_last_read_is_seen(
    far: RedisParts, store: adapter.RedisJobStore, raw: Any, prefix: str
) -> None:
    kept, gone, done, broken, expired = [await store.create(make_job(), KEY) for _ in range(5)]
    assert len((await far.store.unfinished())[0]) == 5
    await store.remove(gone, make_tombstone(gone))
    done = await store.replace(replace(done, state=State.COMPLETE))
    await raw.delete(f"{prefix}job:{broken.id}")
    await raw.set(f"{prefix}job:{broken.id}", "a string", ex=100)
    await raw.pexpire(f"{prefix}job:{expired.id}", 0)
    new = await store.create(make_job(id=gone.id), KEY)  # ids recur
    found, damaged = await far.store.unfinished()
    assert list(found) == [kept, new]
    assert set(damaged) == {broken.id}
    await store.replace(replace(done, state=State.FAILED))
    assert ids((await far.store.unfinished())[0]) == [kept.id, done.id, new.id]


async def test_between_whole_looks_only_what_has_happened_is_looked_at(
    far: RedisParts, store: adapter.RedisJobStore, proxy: FaultProxy, raw: Any, prefix: str
) -> None:
    kept, gone, done, again = [await store.create(make_job(), KEY) for _ in range(4)]
    again = await store.replace(replace(again, state=State.COMPLETE))
    first, _ = await far.store.unfinished(whole=False)  # nothing is known yet
    assert list(first) == [kept, gone, done]
    await far.store.unfinished(whole=False)  # its script is there now
    before = len(proxy.requests)
    second, damaged = await far.store.unfinished(whole=False)
    (asked,) = proxy.requests[before:]
    assert all(job.id not in asked for job in first)
    assert all(one is two for one, two in zip(first, second, strict=True))

    await store.remove(gone, make_tombstone(gone))
    await store.replace(replace(done, state=State.COMPLETE))
    again = await store.replace(replace(again, state=State.WAITING))
    new = await store.create(make_job(), KEY)
    broken = await store.create(make_job(), KEY)
    await raw.delete(f"{prefix}job:{broken.id}")
    await raw.set(f"{prefix}job:{broken.id}", "a string", ex=100)
    before = len(proxy.requests)
    third, damaged = await far.store.unfinished(whole=False)

    assert list(third) == [kept, again, new]
    assert third[0] is first[0]
    assert set(damaged) == {broken.id}
    assert not any(kept.id in request for request in proxy.requests[before:])
    assert [job.id for job in (await far.store.unfinished())[0]] == [job.id for job in third]


@pytest.mark.parametrize("loss", ["all", "some", "many"])
async def test_what_events_do_not_tell_is_seen_by_a_whole_look(
    far: RedisParts,
    store: adapter.RedisJobStore,
    raw: Any,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    loss: str,
) -> None:
    job = await store.create(make_job(), KEY)
    await far.store.unfinished()
    new = [await store.create(make_job(), KEY) for _ in range(3)]
    if loss == "all":
        await raw.delete(f"{prefix}events")
    elif loss == "some":
        await raw.xtrim(f"{prefix}events", maxlen=2, approximate=False)
    else:
        monkeypatch.setattr("aioanalysis.jobstore.unfinished.EVENTS_MAX", 2)

    found, _ = await far.store.unfinished(whole=False)
    assert list(found) == [job, *new]
    assert list((await far.store.unfinished(whole=False))[0]) == [job, *new]


async def test_a_pass_over_hundreds_of_jobs_is_a_handful_of_requests_and_never_a_scan(
    far: RedisParts, store: adapter.RedisJobStore, proxy: FaultProxy
) -> None:
    jobs = await asyncio.gather(*(store.create(make_job(), KEY) for _ in range(600)))
    await far.store.unfinished()  # connects
    before = len(proxy.requests)
    found, _ = await far.store.unfinished()
    await far.store.checked(datetime.now(UTC))
    requests = proxy.requests[before:]
    assert len(found) == len(jobs)
    assert len(requests) <= 3
    assert not [r for r in requests if r.split()[0] in {"SCAN", "KEYS", "SMEMBERS", "HGETALL"}]


# --- pages ---


async def _submit(store: adapter.RedisJobStore, count: int, **changes: Any) -> list[Job]:
    """Jobs, newest first; three at a time in the same microsecond."""
    start = datetime.now(UTC) - timedelta(hours=1)
    jobs = [
        await store.create(make_job(submitted_at=start + timedelta(microseconds=n // 3), **changes), KEY)
        for n in range(count)
    ]
    return sorted(jobs, key=lambda job: (job.submitted_at, job.id), reverse=True)


async def test_uids_are_told_of_the_jobs_that_are_there_readable_or_not(
    store: adapter.RedisJobStore, raw: Any, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "FIELDS_CHUNK", 2)
    jobs = [await store.create(make_job(), KEY) for _ in range(5)]
    whole, fragment, wrong = jobs[:3], jobs[3], jobs[4]
    await raw.hdel(f"{prefix}job:{fragment.id}", "uid")
    await raw.delete(f"{prefix}job:{wrong.id}")
    await raw.set(f"{prefix}job:{wrong.id}", "no record", ex=60)
    wanted = {*(job.id for job in jobs), "00000000"}
    assert await store.uids(wanted) == {job.id: job.uid for job in whole} | {fragment.id: "", wrong.id: ""}
    assert await store.uids(()) == {}


async def test_pages_come_newest_first_and_meet_without_gap_or_overlap(
    store: adapter.RedisJobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "PAGE_CHUNK", 2)  # fewer than share a microsecond
    jobs = await _submit(store, 20)
    for limit in (1, 3, 7, 20, 50):
        found: list[Job] = []
        cursor = None
        while True:
            page = await store.page(JobFilter(), limit=limit, cursor=cursor)
            assert len(page.jobs) <= limit
            found += page.jobs
            cursor = page.cursor
            if cursor is None:
                break
        assert found == jobs


async def test_a_page_that_holds_the_last_job_has_no_cursor(store: adapter.RedisJobStore) -> None:
    await _submit(store, 4)
    assert (await store.page(JobFilter(), limit=4)).cursor is None
    assert (await store.page(JobFilter(title="nothing"), limit=4)).cursor is None


async def test_pages_are_stable_under_new_submissions_and_removals(store: adapter.RedisJobStore) -> None:
    jobs = await _submit(store, 9)
    first = await store.page(JobFilter(), limit=3)
    newer = await store.create(make_job(), KEY)
    await store.remove(jobs[2], make_tombstone(jobs[2]))  # the very one that the cursor stands on
    second = await store.page(JobFilter(), limit=20, cursor=first.cursor)
    assert ids(first.jobs) + ids(second.jobs) == ids(jobs)
    assert newer.id == (await store.page(JobFilter(), limit=1)).jobs[0].id


async def test_filters_hold_together(store: adapter.RedisJobStore) -> None:
    start = datetime.now(UTC) - timedelta(hours=1)
    hers = await store.create(make_job(submitter="ann", submitted_at=start), KEY)
    his = await store.create(
        make_job(
            submitter="bob",
            title="tree",
            state=State.FAILED,
            source=Source(kind="recordset", value="DS-2"),
            submitted_at=start + timedelta(seconds=1),
        ),
        KEY,
    )
    done = await store.create(
        make_job(
            submitter="ann",
            state=State.COMPLETE,
            source=Source(kind="set_token", value="DS-2"),
            submitted_at=start + timedelta(seconds=2),
        ),
        KEY,
    )
    cases: list[tuple[JobFilter, list[Job]]] = [
        (JobFilter(), [done, his, hers]),
        (JobFilter(submitter="ann"), [done, hers]),
        (JobFilter(submitter="ann", states=frozenset({State.WAITING, State.FAILED})), [hers]),
        (JobFilter(states=frozenset({State.WAITING, State.FAILED})), [his, hers]),
        (JobFilter(states=frozenset({State.COMPLETE, State.FAILED})), [done, his]),
        (JobFilter(title="tree"), [his]),
        (JobFilter(recordset="DS-2"), [his]),
        (JobFilter(since=his.submitted_at), [done, his]),
        (JobFilter(since=done.submitted_at + timedelta(microseconds=1)), []),
        (JobFilter(submitter="nobody"), []),
    ]
    for wanted, expected in cases:
        assert list((await store.page(wanted, limit=10)).jobs) == expected, wanted


async def test_a_page_looks_at_so_many_jobs_and_no_more(
    store: adapter.RedisJobStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "PAGE_CHUNK", 3)
    monkeypatch.setattr(adapter, "LOOK_MAX", 6)
    jobs = await _submit(store, 20)
    rare = await store.replace(replace(jobs[-1], tags=("x",)))
    rare = await store.replace(replace(rare, state=State.FAILED))
    wanted = JobFilter(submitter="ann", states=frozenset({State.FAILED}))
    page = await store.page(wanted, limit=5)
    assert page.jobs == []
    calls = 1
    found: list[Job] = []
    while page.cursor:
        page = await store.page(wanted, limit=5, cursor=page.cursor)
        found += page.jobs
        calls += 1
    assert found == [rare]
    assert calls == 4


async def test_a_cursor_that_is_none_is_invalid(store: adapter.RedisJobStore) -> None:
    await _submit(store, 3)
    cursor = (await store.page(JobFilter(), limit=1)).cursor
    assert cursor is not None
    forged = base64.urlsafe_b64encode(b"9007199254740991:zzzzzzzz").decode()
    changed = [cursor[:n] + ("A" if c != "A" else "B") + cursor[n + 1 :] for n, c in enumerate(cursor)]
    for bad in ["", "x", "é", cursor[:-1], cursor + "=", cursor + "AAAA", forged, "\ud800", *changed]:
        with pytest.raises(Invalid) as caught:
            await store.page(JobFilter(), limit=1, cursor=bad)
        assert caught.value.errors[0][0] == "/cursor"


async def test_a_job_under_a_used_id_is_not_listed_for_the_former_submitter(
    store: adapter.RedisJobStore, raw: Any, prefix: str
) -> None:
    job = await store.create(make_job(submitter="ann"), KEY)
    await raw.delete(f"{prefix}job:{job.id}")
    await store.create(make_job(id=job.id, submitter="bob"), KEY)
    assert (await store.page(JobFilter(submitter="ann"), limit=5)).jobs == []


# --- the submitter's key ---


async def test_the_key_comes_back_and_stands_nowhere_in_the_clear(
    store: adapter.RedisJobStore, raw: Any, prefix: str
) -> None:
    job = await store.create(make_job(), KEY)
    await store.replace(replace(job, record_count=1))
    assert await store.key(job.id) == KEY
    everything = json.dumps(await keyspace(raw, prefix))
    for form in (KEY, base64.b64encode(KEY.encode()).decode(), KEY.encode().hex()):
        assert form not in everything


async def test_a_key_is_bound_to_its_job(store: adapter.RedisJobStore, raw: Any, prefix: str) -> None:
    one, two = [await store.create(make_job(), KEY) for _ in range(2)]
    sealed = await raw.hget(f"{prefix}job:{one.id}", "key")
    await raw.hset(f"{prefix}job:{two.id}", "key", sealed)
    with pytest.raises(Damaged, match="another job"):
        await store.key(two.id)
    await raw.hset(f"{prefix}job:{one.id}", "uid", "somebody")
    with pytest.raises(Damaged):
        await store.key(one.id)
    await raw.hset(f"{prefix}job:{two.id}", "key", "é" + sealed)
    with pytest.raises(Damaged):
        await store.key(two.id)


async def test_keys_sealed_under_an_older_secret_are_read_while_it_is_listed(
    store: adapter.RedisJobStore, server: RedisServer, prefix: str
) -> None:
    job = await store.create(make_job(), KEY)
    new = Fernet.generate_key().decode()
    async with open_job_store(server.url, secret=f"{new}, {SECRET}", prefix=prefix) as both:
        assert await both.store.key(job.id) == KEY
    async with open_job_store(server.url, secret=new, prefix=prefix) as only_new:
        with pytest.raises(Damaged, match="AIOANALYSIS_JOB_KEY_SECRET"):
            await only_new.store.key(job.id)


async def test_neither_logs_nor_errors_tell_the_key(
    far: RedisParts, proxy: FaultProxy, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    told = io.StringIO()
    for form in ("json", "console"):
        logs.configure(level="debug", form=form, stream=told)
        for name in ("redis", "push_response", "asyncio"):
            logging.getLogger(name).setLevel(logging.DEBUG)
        for reply in (
            b"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
            b"-ERR something odd\r\n",
        ):
            proxy.answer("EVALSHA", reply=reply, times=None)
            with pytest.raises(Unavailable) as caught:
                await far.store.create(make_job(), KEY)
            await proxy.heal()
            told.write("".join(traceback.format_exception(caught.value)))
            try:
                raise caught.value
            except Unavailable:
                logs.get().exception("submission_failed")
            with proxy.drop_reply("EVALSHA", times=2), pytest.raises(Unavailable) as caught:
                await far.store.create(make_job(), KEY)
            logs.get().error("submission_failed", exc_info=caught.value)
    captured = capsys.readouterr()
    everything = told.getvalue() + caplog.text + captured.out + captured.err
    assert "submission_failed" in everything
    assert KEY not in everything
    assert SECRET not in everything


# --- faults ---

Call = Callable[[], Awaitable[Any]]


async def _life(store: adapter.RedisJobStore, job: Job, around: Callable[[Call], Awaitable[Any]]) -> None:
    """Every method of the store once, each through `around`."""
    at = job.submitted_at + timedelta(seconds=1)
    other = make_job(id=_other_id(job.id), uid=f"other-{job.uid}", submitted_at=job.submitted_at)
    tombstone = make_tombstone(other, removed_at=at, keep_until=at + timedelta(days=7))
    second = make_tombstone(other, uid="forgotten", removed_at=at, keep_until=at + timedelta(days=7))
    created = await around(lambda: store.create(job, KEY))
    doomed = await around(lambda: store.create(other, KEY))
    queued = replace(created, state=State.QUEUED, state_changed_at=at)
    queued = await around(lambda: store.replace(queued, fence=7))
    assert await around(lambda: store.get(job.id)) == queued
    await around(lambda: store.checked(at))
    jobs, damaged = await around(lambda: store.unfinished())
    assert (ids(jobs), damaged) == ([job.id, other.id], {})
    assert await around(lambda: store.key(job.id)) == KEY
    await around(lambda: store.remove(doomed, tombstone))
    await around(lambda: store.remove(replace(doomed, uid="forgotten"), second))
    await around(lambda: store.forget(second))
    assert await around(lambda: store.tombstones()) == [tombstone]
    page = await around(lambda: store.page(JobFilter(submitter="ann"), limit=5))
    assert ids(page.jobs) == [job.id]
    done = replace(queued, state=State.COMPLETE, state_changed_at=at)
    assert (await around(lambda: store.replace(done))).version.startswith("3:")


def _other_id(job_id: str) -> str:
    """An id that sorts after `job_id`."""
    return "z" + job_id[1:]


async def _plain(call: Call) -> Any:
    return await call()


def _without_seals(dump: dict[str, Any]) -> dict[str, Any]:
    """The dump without what is random by design."""
    for value, _ in dump.values():
        if isinstance(value, dict):
            value.pop("key", None)
    return dump


WRITES_AND_READS = "^(EVALSHA|ZADD|ZRANGE|ZREVRANGEBYSCORE|HMGET|HVALS|HDEL)"


@pytest.mark.parametrize("replies", [1, 2])
async def test_lost_replies_change_nothing_in_what_is_stored(
    server: RedisServer, raw: Any, prefix: str, proxy: FaultProxy, replies: int
) -> None:
    """One lost reply is retried unseen; after two the caller is told, and calls again."""
    job = make_job(id="a2345678", submitted_at=datetime.now(UTC))
    async with open_job_store(server.url, secret=SECRET, prefix=f"{prefix}clean:") as clean:
        await _life(clean.store, job, _plain)

    async def lossy(call: Call) -> Any:
        with proxy.drop_reply(WRITES_AND_READS, times=replies) as fault:
            if replies > 1:
                with pytest.raises(Unavailable):
                    await call()
                assert fault.hits == replies
                return await call()
            result = await call()
        assert fault.hits == 1
        return result

    async with open_job_store(server.through(proxy.port), secret=SECRET, prefix=f"{prefix}faulty:") as faulty:
        await _life(faulty.store, job, lossy)
    clean_dump = _without_seals(await keyspace(raw, f"{prefix}clean:"))
    faulty_dump = _without_seals(await keyspace(raw, f"{prefix}faulty:"))
    assert clean_dump == faulty_dump
    assert "tombstones" in clean_dump


async def test_a_server_that_never_answers_is_unavailable_within_five_seconds(
    far: RedisParts, proxy: FaultProxy
) -> None:
    job = await far.store.create(make_job(), KEY)
    calls: list[Call] = [
        lambda: far.store.create(make_job(), KEY),
        lambda: far.store.get(job.id),
        lambda: far.store.replace(job),
        lambda: far.store.remove(job, make_tombstone(job)),
        lambda: far.store.unfinished(),
        lambda: far.store.page(JobFilter(), limit=3),
        lambda: far.store.key(job.id),
        lambda: far.store.checked(job.submitted_at),
        lambda: far.store.tombstones(),
        lambda: far.store.forget(make_tombstone(job)),
        far.check,
    ]
    proxy.pause()
    async with asyncio.timeout(5):
        ends = await asyncio.gather(*(call() for call in calls), return_exceptions=True)
    assert [type(end) for end in ends] == [Unavailable] * len(calls)
    await proxy.heal()
    assert same(await far.store.get(job.id), job)


async def test_a_server_that_refuses_is_unavailable_and_is_found_again(
    far: RedisParts, proxy: FaultProxy, raw: Any
) -> None:
    job = await far.store.create(make_job(), KEY)
    await proxy.refuse()
    with pytest.raises(Unavailable) as caught:
        await far.store.get(job.id)
    assert caught.value.retry_after
    await proxy.heal()
    await raw.script_flush()  # a restarted server knows no scripts
    assert await far.store.get(job.id) == job


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (b"-OOM command not allowed when used memory > 'maxmemory'.", Unavailable),
        (b"-READONLY You can't write against a read only replica.", Unavailable),
        (b"-LOADING Redis is loading the dataset in memory", Unavailable),
        (b"-BUSY Redis is busy running a script.", Unavailable),
        (b"-MISCONF Redis is configured to save RDB snapshots, but cannot", Unavailable),
        (b"-MASTERDOWN Link with MASTER is down", Unavailable),
        (b"-TRYAGAIN Multiple keys request during rehashing of slot", Unavailable),
        (b"-ERR max number of clients reached", Unavailable),
        (b"-WRONGTYPE Operation against a key holding the wrong kind of value", Damaged),
        (b"-NOPERM User default has no permissions to run the 'evalsha' command", Misconfigured),
        (b"-NOAUTH Authentication required.", Misconfigured),
    ],
    ids=lambda value: value.split()[0].decode() if isinstance(value, bytes) else "",
)
async def test_each_answer_of_redis_is_one_of_our_errors(
    far: RedisParts, proxy: FaultProxy, reply: bytes, expected: type[Exception]
) -> None:
    proxy.answer("^EVALSHA", reply=reply + b"\r\n", times=None)
    with pytest.raises(expected):
        await far.store.create(make_job(), KEY)


async def test_a_server_without_room_refuses_and_nothing_is_half_written(
    store: adapter.RedisJobStore, raw: Any, prefix: str
) -> None:
    job = await store.create(make_job(), KEY)
    before = await keyspace(raw, prefix)
    await raw.config_set("maxmemory", "1")
    try:
        for call in (
            store.create(make_job(), KEY),
            store.replace(replace(job, record_count=1)),
            store.remove(job, make_tombstone(job)),
        ):
            with pytest.raises(Unavailable):
                await call
    finally:
        await raw.config_set("maxmemory", "0")
    assert await keyspace(raw, prefix) == before


async def test_cancelled_calls_leave_no_wrong_answers_behind(far: RedisParts, proxy: FaultProxy) -> None:
    jobs = [await far.store.create(make_job(), KEY) for _ in range(30)]
    with proxy.delay_reply("^EVALSHA", seconds=0.02, times=None):
        for n, job in enumerate(jobs):
            task = asyncio.create_task(far.store.get(job.id))
            await asyncio.sleep(n * 0.001)
            task.cancel()
            await asyncio.wait([task])
    found = await asyncio.gather(*(far.store.get(job.id) for job in jobs))
    assert list(found) == jobs


# --- addresses ---


async def test_the_same_store_works_over_tls(tls_redis: TlsRedisServer, prefix: str) -> None:
    async with open_job_store(tls_redis.url, secret=SECRET, prefix=prefix) as parts:
        assert "Redis" in await parts.check()
        job = await parts.store.create(make_job(), KEY)
        assert await parts.store.get(job.id) == job
    bare = tls_redis.url.partition("?")[0]
    async with open_job_store(bare, secret=SECRET, prefix=prefix) as parts:
        with pytest.raises(Unavailable):  # a certificate that nobody vouches for
            await parts.store.get(job.id)


async def test_the_same_store_works_over_a_unix_socket(server: RedisServer, prefix: str, raw: Any) -> None:
    async with open_job_store(server.unix_url, secret=SECRET, prefix=prefix) as parts:
        job = await parts.store.create(make_job(), KEY)
        assert await parts.store.get(job.id) == job


async def test_the_check_names_the_server_and_what_may_lose_jobs(
    server: RedisServer, raw: Any, parts: RedisParts
) -> None:
    said = await parts.check()
    assert f"127.0.0.1:{server.port}" in said
    assert "evict" not in said
    assert "appendonly" not in said
    await raw.config_set("maxmemory-policy", "volatile-lru")
    await raw.config_set("appendonly", "no")
    try:
        said = await parts.check()
    finally:
        await raw.config_set("maxmemory-policy", "noeviction")
        await raw.config_set("appendonly", "yes")
    assert "volatile-lru" in said
    assert "appendonly" in said


async def test_a_wrong_password_is_the_set_ups_fault_and_is_not_repeated(
    server: RedisServer, raw: Any
) -> None:
    await raw.acl_setuser("tester", enabled=True, passwords=["+right"], categories=["+@all"], keys=["*"])
    try:
        url = server.url.replace("redis://", "redis://tester:hunter2@")
        async with open_job_store(url, secret=SECRET) as parts:
            with pytest.raises(Misconfigured) as caught:
                await parts.check()
        assert "hunter2" not in "".join(traceback.format_exception(caught.value))
        async with open_client(url.replace("hunter2", "right")) as client:
            assert await client.ping()
    finally:
        await raw.acl_deluser("tester")


async def test_a_token_keeps_the_meaning_it_got_first_and_for_its_time(
    store: adapter.RedisJobStore, raw: Any, prefix: str
) -> None:
    found = await asyncio.gather(*(store.claim("t", f"meaning {n}", seconds=60) for n in range(10)))
    assert len(set(found)) == 1
    assert await store.claim("t", "later", seconds=9999) == found[0]
    assert await store.claim("\ud800 other\n", "mine", seconds=60) == "mine"
    [key, _] = [key async for key in raw.scan_iter(f"{prefix}token:*")]
    assert 0 < await raw.ttl(key) <= 60


async def test_jobs_made_at_the_same_time_succeed_and_fail_each_for_itself(parts: RedisParts) -> None:
    store = parts.store
    taken = await store.create(make_job(), "key")
    await parts.client.script_flush()  # as after a restart of the server
    new = [make_job(submitter=name) for name in ("ann", "ben", "eve")]
    await parts.client.set(store._keys.submitter("ben"), "no list")
    wanted = [*new, make_job(id=taken.id)]
    made = await asyncio.gather(*(store.create(job, "key") for job in wanted), return_exceptions=True)
    assert isinstance(made[1], Damaged | Unavailable)
    assert isinstance(made[3], Contested)
    for job, one in ((new[0], made[0]), (new[2], made[2])):
        assert isinstance(one, Job)
        assert one == await store.get(job.id)
    assert await store.get(new[1].id) is None
