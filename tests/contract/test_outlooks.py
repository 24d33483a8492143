"""The suite of `Outlooks`, on redis-server and on Valkey."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.fernet import Fernet

from aioanalysis.domain.outlook import Outlook, PastRun
from aioanalysis.domain.states import State
from aioanalysis.jobstore.outlooks import CHUNK
from aioanalysis.jobstore.parts import RedisParts, open_job_store

NOW = datetime(2026, 10, 1, tzinfo=UTC)
WAITING = Outlook(phase=State.WAITING, position=2, starts=NOW, finishes=NOW + timedelta(seconds=9), workers=3)
QUEUED = Outlook(phase=State.QUEUED, position=1, workers=0, seen_at=NOW)


@pytest.fixture
async def parts(server_url: str, unique: str) -> AsyncIterator[RedisParts]:
    secret = Fernet.generate_key().decode()
    async with open_job_store(server_url, secret=secret, prefix=f"{unique}:") as opened:
        yield opened


async def test_what_is_foretold_takes_the_place_of_all_that_was(parts: RedisParts) -> None:
    outlooks = parts.outlooks
    assert await outlooks.outlooks([]) == {}
    await outlooks.foretell({})
    assert await outlooks.outlooks(["aaaaaaaa"]) == {}
    await outlooks.foretell({"aaaaaaaa": WAITING, "bbbbbbbb": QUEUED})
    ids = ["aaaaaaaa", "bbbbbbbb", "cccccccc"]
    assert await outlooks.outlooks(ids) == {"aaaaaaaa": WAITING, "bbbbbbbb": QUEUED}
    await outlooks.foretell({"bbbbbbbb": WAITING})
    assert await outlooks.outlooks(ids) == {"bbbbbbbb": WAITING}
    await outlooks.foretell({})
    assert await outlooks.outlooks(ids) == {}


async def test_very_many_are_foretold_whole_and_go_by_themselves(parts: RedisParts) -> None:
    many = {f"{n:08}": WAITING for n in range(CHUNK * 2 + 1)}
    await parts.outlooks.foretell(many)
    assert await parts.outlooks.outlooks(list(many)) == many
    assert 0 < await parts.client.ttl(parts.store._keys.outlooks) <= 3600


async def test_what_is_damaged_is_not_known(parts: RedisParts) -> None:
    await parts.outlooks.foretell({"aaaaaaaa": WAITING, "bbbbbbbb": QUEUED})
    await parts.client.hset(parts.store._keys.outlooks, "aaaaaaaa", "{}")
    assert await parts.outlooks.outlooks(["aaaaaaaa", "bbbbbbbb"]) == {"bbbbbbbb": QUEUED}
    await parts.client.hset(parts.store._keys.past_runs, "noop", "[{}]")
    assert await parts.outlooks.past_runs() == {}


async def test_earlier_runs_are_kept_by_title(parts: RedisParts) -> None:
    runs = [PastRun(records=12, seconds=1.5), PastRun(records=None, seconds=7.0)]
    await parts.outlooks.set_past_runs("noop", runs[:1])
    await parts.outlooks.set_past_runs("noop", runs)
    await parts.outlooks.set_past_runs("other", [])
    found = await parts.outlooks.past_runs()
    assert {title: list(past) for title, past in found.items()} == {"noop": runs, "other": []}
