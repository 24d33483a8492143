"""The suite of `Glances`, on redis-server and on Valkey."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.fernet import Fernet

from aioanalysis.domain.job import Job, Tombstone
from aioanalysis.domain.outlook import Outlook
from aioanalysis.domain.progress import Progress
from aioanalysis.domain.states import State
from aioanalysis.errors import Damaged
from aioanalysis.interfaces import Glance, JobProgress
from aioanalysis.jobstore import glances
from aioanalysis.jobstore.parts import RedisParts, open_job_store
from tests.support.jobs import make_job

OUTLOOK = Outlook(phase=State.WAITING, position=2, workers=3)


@pytest.fixture
async def parts(server_url: str, unique: str) -> AsyncIterator[RedisParts]:
    secret = Fernet.generate_key().decode()
    async with open_job_store(server_url, secret=secret, prefix=f"{unique}:") as opened:
        yield opened


async def glance(parts: RedisParts, job: Job) -> Glance:
    found = await parts.glances.glance(job.id)
    assert found is not None
    return found


def progress_of(job: Job, stage: int) -> JobProgress:
    told = Progress(
        attempt=1, stage=stage, stages=5, name="1.py", message=None, fraction=None, at=datetime.now(UTC)
    )
    return JobProgress(job=job.id, submitter=job.submitter, title=job.title, frame=None, progress=told)


async def test_a_glance_is_the_job_as_the_store_gives_it(parts: RedisParts) -> None:
    job = await parts.store.create(make_job(), "key")
    for _ in range(2):
        assert (await glance(parts, job)).job == await parts.store.get(job.id)
    assert await parts.glances.glance("00000000") is None
    assert await parts.glances.glance("no id") is None


async def test_while_nothing_changes_it_is_the_same_one(parts: RedisParts) -> None:
    job = await parts.store.create(make_job(state=State.RUNNING), "key")
    await parts.progress.post([progress_of(job, 1)])
    first = await glance(parts, job)
    assert await glance(parts, job) is first
    assert first.progress[0].progress.stage == 1


async def test_whatever_was_changed_by_anybody_is_in_the_next_one(
    parts: RedisParts, server_url: str, unique: str
) -> None:
    secret = Fernet.generate_key().decode()
    job = await parts.store.create(make_job(), "key")
    async with open_job_store(server_url, secret=secret, prefix=f"{unique}:") as others:
        for tags in (("a",), ("b",)):
            await glance(parts, job)
            job = await others.store.replace(replace(job, tags=tags))
            assert (await glance(parts, job)).job == job

        await others.outlooks.foretell({job.id: OUTLOOK})
        assert (await glance(parts, job)).outlook == OUTLOOK
        await others.outlooks.foretell({})
        assert (await glance(parts, job)).outlook is None

        later = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=1)
        await others.store.checked(later)
        assert (await glance(parts, job)).job.last_updated == later

        running = replace(job.frames[0], phase=State.RUNNING)
        job = await others.store.replace(replace(job, state=State.RUNNING, frames=(running,)))
        for stage in (1, 2):
            await others.progress.post([progress_of(job, stage)])
            assert [p.progress.stage for p in (await glance(parts, job)).progress] == [stage]

        gone = Tombstone(
            id=job.id, uid=job.uid, stems=job.stems, state=job.state, removed_at=later, keep_until=later
        )
        await others.store.remove(job, gone)
        assert await parts.glances.glance(job.id) is None


async def test_a_complete_job_keeps_its_last_update(parts: RedisParts) -> None:
    job = await parts.store.create(make_job(state=State.COMPLETE), "key")
    await glance(parts, job)
    await parts.store.checked(datetime.now(UTC) + timedelta(minutes=1))
    assert (await glance(parts, job)).job.last_updated == job.last_updated


async def test_a_damaged_record_is_told_and_stops_nothing(parts: RedisParts) -> None:
    good, bad, odd = [await parts.store.create(make_job(), "key") for _ in range(3)]
    names = parts.store._keys
    await glance(parts, bad)
    await parts.client.hset(names.job(bad.id), mapping={"doc": "{}", "version": "9:x"})
    await parts.client.delete(names.job(odd.id))
    await parts.client.set(names.job(odd.id), "no hash")
    await parts.client.hset(names.outlooks, good.id, "{}")
    looks = [parts.glances.glance(job.id) for job in (bad, good, odd)]
    found = await asyncio.gather(*looks, return_exceptions=True)
    assert isinstance(found[0], Damaged)
    assert isinstance(found[1], Glance)
    assert (found[1].job, found[1].outlook) == (good, None)
    assert isinstance(found[2], Damaged)


async def test_what_is_remembered_is_bounded(parts: RedisParts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glances, "REMEMBERED", 2)
    jobs = [await parts.store.create(make_job(), "key") for _ in range(3)]
    large = await parts.store.create(make_job(params={"text": "x" * 20_000}), "key")
    seen = [await glance(parts, job) for job in (*jobs, large)]
    assert await glance(parts, jobs[2]) is seen[2]
    assert await glance(parts, large) is not seen[3]
    assert len(parts.glances._known) == 2
    assert (await glance(parts, jobs[0])).job == jobs[0]


async def test_one_that_is_forgotten_for_others_of_the_same_call_is_told_all_the_same(
    parts: RedisParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(glances, "REMEMBERED", 2)
    jobs = [await parts.store.create(make_job(), "key") for _ in range(5)]
    for job in jobs[:2]:
        await glance(parts, job)
    asked = [jobs[4], jobs[2], jobs[3], jobs[0]]
    found = await asyncio.gather(*(glance(parts, job) for job in asked))
    assert [one.job for one in found] == asked
    assert len(parts.glances._known) == 2
