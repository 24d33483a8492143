"""The suite of `SchedulerLock` and `Bell`, on redis-server and on Valkey."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from time import monotonic
from typing import Any

import pytest
import redis.asyncio
import structlog
from cryptography.fernet import Fernet

from aioanalysis.errors import Contested, Unavailable
from aioanalysis.jobstore import bell as bells
from aioanalysis.jobstore.lock import RedisHolding
from aioanalysis.jobstore.parts import RedisParts, open_job_store
from tests.support.faultproxy import FaultProxy
from tests.support.jobs import make_job
from tests.support.servers import RedisServer
from tests.support.waiting import eventually

SECRET = Fernet.generate_key().decode()
SECONDS = 1.0  # a lock's life in most tests


@pytest.fixture(params=["redis", "valkey"])
def server(request: pytest.FixtureRequest) -> RedisServer:
    found: RedisServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def prefix(unique: str) -> str:
    return f"{unique}:"


@pytest.fixture
async def raw(server: RedisServer) -> AsyncIterator[redis.asyncio.Redis]:
    async with redis.asyncio.Redis.from_url(server.url, decode_responses=True) as client:
        yield client


@pytest.fixture
async def proxy(server: RedisServer) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(("127.0.0.1", server.port), "redis") as running:
        yield running


@pytest.fixture
async def near(server: RedisServer, prefix: str) -> AsyncIterator[RedisParts]:
    async with open_job_store(server.url, secret=SECRET, prefix=prefix, lock_seconds=SECONDS) as parts:
        yield parts


@pytest.fixture
async def far(server: RedisServer, proxy: FaultProxy, prefix: str) -> AsyncIterator[RedisParts]:
    """Another process's parts, by way of the proxy."""
    async with open_job_store(
        server.through(proxy.port), secret=SECRET, prefix=prefix, lock_seconds=SECONDS
    ) as parts:
        yield parts


@asynccontextmanager
async def waiting(parts: RedisParts) -> AsyncIterator[asyncio.Future[tuple[RedisHolding, float]]]:
    """Somebody else who waits for the lock: gives (its holding, when it got it), and keeps it."""
    got: asyncio.Future[tuple[RedisHolding, float]] = asyncio.get_running_loop().create_future()

    async def wait() -> None:
        async with parts.lock.hold() as holding:
            got.set_result((holding, monotonic()))
            await asyncio.Event().wait()

    task = asyncio.create_task(wait(), name="waits for the lock")
    try:
        yield got
    finally:
        task.cancel()
        await asyncio.wait([task])
        got.cancel()


async def test_one_holds_at_a_time_and_each_has_a_higher_fence(near: RedisParts, far: RedisParts) -> None:
    inside = 0
    fences: list[int] = []

    async def work(parts: RedisParts) -> None:
        nonlocal inside
        async with parts.lock.hold() as holding:
            inside += 1
            fences.append(holding.fence)
            await asyncio.sleep(0)
            assert inside == 1
            inside -= 1

    async with asyncio.timeout(10):
        await asyncio.gather(*(work(parts) for parts in (near, far, near, far)))
    assert fences == sorted(set(fences))


async def test_a_released_lock_leaves_no_key_but_the_fence(near: RedisParts, raw: Any, prefix: str) -> None:
    async with near.lock.hold():
        assert 0 < await raw.pttl(f"{prefix}lock") <= SECONDS * 1000
    assert await raw.keys(f"{prefix}*") == [f"{prefix}fence"]


async def test_it_is_renewed_for_as_long_as_it_is_held(near: RedisParts, far: RedisParts) -> None:
    async with near.lock.hold() as holding, waiting(far) as got:
        until = monotonic() + 2.5 * SECONDS
        with suppress(TimeoutError):
            async with asyncio.timeout(until - monotonic()):
                await holding.wait_lost()
        assert not holding.lost
        assert not got.done()


async def test_a_paused_holder_knows_the_loss_before_another_gets_in_and_its_writes_are_refused(
    near: RedisParts, far: RedisParts, proxy: FaultProxy
) -> None:
    job = await far.store.create(make_job(), "key")
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(far.lock.hold())
        job = await far.store.replace(replace(job, record_count=1), fence=first.fence)
        got = await stack.enter_async_context(waiting(near))
        proxy.pause()
        async with asyncio.timeout(5 * SECONDS):
            await first.wait_lost()
            known = monotonic()
            assert first.lost
            second, since = await got
        assert known < since
        assert second.fence > first.fence
        await proxy.heal()
        assert first.lost
        with pytest.raises(Contested):
            await far.store.replace(replace(job, record_count=2), fence=first.fence)
        changed = await near.store.replace(replace(job, record_count=3), fence=second.fence)
        assert changed.record_count == 3
        assert not second.lost


async def test_a_paused_holder_does_not_release_the_next_ones_lock(
    near: RedisParts, far: RedisParts, proxy: FaultProxy, raw: Any, prefix: str
) -> None:
    async with AsyncExitStack() as stack:
        async with far.lock.hold() as first:
            got = await stack.enter_async_context(waiting(near))
            proxy.pause()
            await first.wait_lost()
            second, _ = await got
            proxy.resume()
        assert await raw.exists(f"{prefix}lock")
        assert not second.lost


async def test_a_lock_taken_away_is_lost_at_the_next_renewal(near: RedisParts, raw: Any, prefix: str) -> None:
    async with near.lock.hold() as holding:
        began = monotonic()
        await raw.set(f"{prefix}lock", "somebody", px=5000)
        await holding.wait_lost()
        assert monotonic() - began < SECONDS / 2
    assert await raw.get(f"{prefix}lock") == "somebody"


async def test_a_short_fault_does_not_lose_it(near: RedisParts, far: RedisParts, proxy: FaultProxy) -> None:
    async with far.lock.hold() as holding:
        await proxy.drop_connections()
        with proxy.lose_request("^EVALSHA", times=2) as fault:
            await eventually(lambda: fault.hits == 2)
        seen = len([line for line in proxy.requests if line.startswith("EVALSHA")])
        await eventually(
            lambda: len([line for line in proxy.requests if line.startswith("EVALSHA")]) > seen + 1
        )
        assert not holding.lost


async def test_a_lost_reply_neither_blocks_the_lock_nor_counts_twice(
    far: RedisParts, proxy: FaultProxy, raw: Any, prefix: str
) -> None:
    async with far.lock.hold() as first:
        pass
    with proxy.drop_reply("^EVALSHA") as fault:
        async with far.lock.hold() as second:
            assert fault.hits == 1
            assert second.fence == first.fence + 1
        proxy.drop_reply("^EVALSHA")  # strikes a renewal or the release
    async with far.lock.hold() as third:
        assert third.fence == second.fence + 1
        proxy.drop_reply("^EVALSHA")
    assert not await raw.exists(f"{prefix}lock")


async def test_the_bodys_exception_comes_out_whatever_becomes_of_the_lock(
    far: RedisParts, proxy: FaultProxy
) -> None:
    async def fail() -> None:
        async with far.lock.hold():
            await proxy.refuse()
            raise KeyError("mine")

    with structlog.testing.capture_logs() as logged, pytest.raises(KeyError, match="mine"):
        await fail()
    assert "lock_not_released" in {entry["event"] for entry in logged}


async def test_without_redis_it_is_unavailable(far: RedisParts, proxy: FaultProxy) -> None:
    await proxy.refuse()
    with pytest.raises(Unavailable):
        async with far.lock.hold():
            raise AssertionError("not held")


async def test_a_cancelled_wait_leaves_nothing_held(
    near: RedisParts, far: RedisParts, raw: Any, prefix: str
) -> None:
    for n in range(10):
        async with waiting(far):
            await asyncio.sleep(n * 0.0005)
        async with asyncio.timeout(SECONDS / 2), near.lock.hold():
            pass
    assert not await raw.exists(f"{prefix}lock")


async def test_a_cancelled_holder_releases(near: RedisParts, raw: Any, prefix: str) -> None:
    async with waiting(near) as got:
        await got
        assert await raw.exists(f"{prefix}lock")
    assert not await raw.exists(f"{prefix}lock")


# --- bell ---


async def test_a_ring_wakes_this_process_and_every_other_once(near: RedisParts, far: RedisParts) -> None:
    await _connected(near, far)
    await near.bell.ring()
    assert await near.bell.wait(0)
    assert await far.bell.wait(5)
    assert not await near.bell.wait(0.2)  # its own ring, come back
    assert not await far.bell.wait(0)


async def test_rings_since_the_last_wait_count_as_one(near: RedisParts) -> None:
    assert not await near.bell.wait(0)
    await near.bell.ring()
    await near.bell.ring()
    assert await near.bell.wait(0)
    assert not await near.bell.wait(0)


async def test_a_wait_ends_in_time(near: RedisParts) -> None:
    began = monotonic()
    assert not await near.bell.wait(0.2)
    assert 0.15 < monotonic() - began < 2


async def test_a_ring_never_raises_and_is_quick_without_redis(far: RedisParts, proxy: FaultProxy) -> None:
    proxy.pause()
    began = monotonic()
    await far.bell.ring()
    assert monotonic() - began < 2
    assert await far.bell.wait(0)
    await proxy.refuse()
    await far.bell.ring()
    assert await far.bell.wait(0)


async def test_after_a_fault_it_rings_by_itself_and_hears_again(
    near: RedisParts, far: RedisParts, proxy: FaultProxy
) -> None:
    await _connected(near, far)
    await proxy.refuse()
    await near.bell.ring()  # not heard there
    await proxy.heal()
    assert await far.bell.wait(5)
    await near.bell.ring()
    assert await far.bell.wait(5)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bells, "LISTEN_SECONDS", 0.3)
    monkeypatch.setattr(bells, "PONG_SECONDS", 0.2)


@pytest.mark.usefixtures("impatient")
async def test_a_quiet_connection_is_kept_while_it_answers(
    near: RedisParts, far: RedisParts, proxy: FaultProxy
) -> None:
    await _connected(near, far)
    before = proxy.connections
    await eventually(lambda: len([line for line in proxy.requests if line.startswith("PING")]) >= 3)
    assert proxy.connections == before


@pytest.mark.usefixtures("impatient")
async def test_a_connection_that_went_dead_in_silence_is_noticed(
    near: RedisParts, far: RedisParts, proxy: FaultProxy
) -> None:
    await _connected(near, far)
    before = proxy.connections
    proxy.black_hole("^PING", times=1)
    await eventually(lambda: proxy.connections > before)
    assert await far.bell.wait(5)
    await near.bell.ring()
    assert await far.bell.wait(5)


async def test_it_listens_for_longer_than_any_socket_timeout(
    near: RedisParts, far: RedisParts, proxy: FaultProxy
) -> None:
    await _connected(near, far)
    before = proxy.connections
    assert not await far.bell.wait(2.5)
    assert proxy.connections == before
    await near.bell.ring()
    assert await far.bell.wait(5)


async def test_it_closes_at_any_moment(server: RedisServer, prefix: str) -> None:
    """redis-py on Python 3.11 swallows a cancellation now and then (HAZARDS H20)."""
    for n in range(150):
        async with asyncio.timeout(5), open_job_store(server.url, secret=SECRET, prefix=prefix):
            await asyncio.sleep(n * 0.00005)


async def _connected(near: RedisParts, far: RedisParts) -> None:
    """Both listen by now, and what they heard is forgotten."""
    channel = near.bell._channel
    await eventually(lambda: _subscribers(near, channel))
    for parts in (near, far):
        await parts.bell.wait(0)


async def _subscribers(parts: RedisParts, channel: str) -> bool:
    [(_, count)] = await parts.client.pubsub_numsub(channel)
    return bool(count == 2)
