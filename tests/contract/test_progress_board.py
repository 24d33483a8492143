"""The suite of `ProgressBoard`, on redis-server and on Valkey."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.fernet import Fernet

from aioanalysis.domain.progress import Progress
from aioanalysis.interfaces import JobProgress
from aioanalysis.jobstore.parts import RedisParts, open_job_store

NOW = datetime(2026, 10, 1, tzinfo=UTC)
NEWS = JobProgress(
    job="aaaaaaaa",
    submitter="ann",
    title="noop",
    frame=None,
    progress=Progress(attempt=1, stage=1, stages=5, name="1_x.py", message="ö", fraction=0.1, at=NOW),
)


@pytest.fixture
async def parts(server_url: str, unique: str) -> AsyncIterator[RedisParts]:
    secret = Fernet.generate_key().decode()
    async with open_job_store(server_url, secret=secret, prefix=f"{unique}:") as opened:
        yield opened


def at_stage(stage: int, frame: int | None = None) -> JobProgress:
    progress = replace(NEWS.progress, stage=stage, at=NOW + timedelta(seconds=stage))
    return replace(NEWS, frame=frame, progress=progress)


async def test_the_latest_of_each_run_is_kept(parts: RedisParts) -> None:
    board = parts.progress
    assert await board.latest({}) == {}
    assert await board.latest({NEWS.job: [None], "bbbbbbbb": []}) == {}
    await board.post([])
    await board.post([at_stage(1, 1), at_stage(1, 2), replace(NEWS, job="bbbbbbbb")])
    await board.post([at_stage(2, 1)])
    found = await board.latest({NEWS.job: [2, 1, 7], "bbbbbbbb": [None], "cccccccc": [None]})
    assert found == {
        NEWS.job: [at_stage(1, 2), at_stage(2, 1)],
        "bbbbbbbb": [replace(NEWS, job="bbbbbbbb")],
    }
    assert await board.latest({NEWS.job: [1]}) == {NEWS.job: [at_stage(2, 1)]}


async def test_who_waits_hears_what_is_new_once(parts: RedisParts) -> None:
    board = parts.progress
    place = await board.newest()
    await board.post([at_stage(1)])
    await board.post([at_stage(1)])  # as after a lost reply
    await board.post([at_stage(2)])
    place, news = await board.wait(place, limit=10)
    assert news == [at_stage(1), at_stage(2)]
    assert place == await board.newest()
    waiting = asyncio.create_task(board.wait(place, limit=10))
    await board.post([at_stage(3)])
    assert (await waiting)[1] == [at_stage(3)]
    place = await board.newest()
    assert await board.wait(place, limit=10) == (place, [])


async def test_all_of_it_goes_by_itself_and_the_news_are_bounded(parts: RedisParts, unique: str) -> None:
    for start in range(0, 3000, 500):
        await parts.progress.post([at_stage(number) for number in range(start, start + 500)])
    assert await parts.client.xlen(f"{unique}:progress") < 1500
    keys = [key async for key in parts.client.scan_iter(match=f"{unique}:progress*")]
    assert len(keys) == 2
    for key in keys:
        assert 0 < await parts.client.ttl(key) <= 86_400


async def test_what_another_version_wrote_is_passed_over(parts: RedisParts, unique: str) -> None:
    await parts.progress.post([at_stage(1)])
    await parts.client.hset(f"{unique}:progress:{NEWS.job}", "1", "{}")
    assert await parts.progress.latest({NEWS.job: [1, None]}) == {NEWS.job: [at_stage(1)]}
