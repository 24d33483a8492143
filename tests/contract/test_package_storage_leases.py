"""What `ExchangeStorage` promises of leases; both backends."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from aioanalysis.errors import Contested, Invalid, LeaseLost, Missing
from aioanalysis.interfaces import Condition, ExchangeStorage, LeaseState
from tests.support.storages import (
    QUEUE,
    RESULTS,
    Backend,
    body,
    lease_id,
    read,
    stat,
)


async def test_a_lease_keeps_others_from_writing_and_deleting(storage: ExchangeStorage) -> None:
    lease = lease_id()
    written = await storage.write(RESULTS, "a", b"1")
    await storage.acquire_lease(RESULTS, "a", lease, 15)

    held = await stat(storage, RESULTS, "a")
    assert held.lease is LeaseState.HELD
    assert held.etag == written.etag
    assert [info.lease async for info in storage.list(RESULTS)] == [LeaseState.HELD]
    assert await read(storage, RESULTS, "a") == b"1"
    for options in ({}, {"lease": lease_id()}):
        with pytest.raises(Contested):
            await storage.write(RESULTS, "a", b"2", **options)
        with pytest.raises(Contested):
            await storage.write(RESULTS, "a", body(9), **options)
        with pytest.raises(Contested):
            await storage.delete(RESULTS, "a", **options)
    assert await storage.stat(RESULTS, "a") == held

    renewed = await storage.write(RESULTS, "a", body(9), lease=lease, condition=Condition(etag=written.etag))
    assert renewed.lease is LeaseState.HELD
    assert await storage.stat(RESULTS, "a") == renewed
    assert await storage.delete(RESULTS, "a", lease=lease)


async def test_one_of_many_gets_the_lease(backend: Backend) -> None:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(backend.connect()) for _ in range(10)]
        await clients[0].write(QUEUE, "a", b"x")
        leases = [lease_id() for _ in clients]
        outcomes = await asyncio.gather(
            *(c.acquire_lease(QUEUE, "a", lease, 15) for c, lease in zip(clients, leases, strict=True)),
            return_exceptions=True,
        )
        assert sum(outcome is None for outcome in outcomes) == 1
        assert sum(isinstance(outcome, LeaseLost) for outcome in outcomes) == 9
        assert await clients[0].delete(QUEUE, "a", lease=leases[outcomes.index(None)])


async def test_calls_about_a_lease_can_be_repeated(storage: ExchangeStorage) -> None:
    ours, theirs = lease_id(), lease_id()
    await storage.write(QUEUE, "a", b"x")
    for _ in range(2):
        await storage.acquire_lease(QUEUE, "a", ours, 15)
    for _ in range(2):
        await storage.renew_lease(QUEUE, "a", ours)
    for call in (storage.renew_lease(QUEUE, "a", theirs), storage.acquire_lease(QUEUE, "a", theirs, 15)):
        with pytest.raises(LeaseLost):
            await call
    await storage.release_lease(QUEUE, "a", theirs)
    assert (await stat(storage, QUEUE, "a")).lease is LeaseState.HELD
    for _ in range(2):
        await storage.release_lease(QUEUE, "a", ours)
    assert (await stat(storage, QUEUE, "a")).lease is LeaseState.FREE
    await storage.acquire_lease(QUEUE, "a", theirs, 60)


async def test_a_lease_can_be_on_one_version_only(storage: ExchangeStorage) -> None:
    lease = lease_id()
    first = await storage.write(QUEUE, "a", b"1")
    second = await storage.write(QUEUE, "a", b"2")
    with pytest.raises(Contested):
        await storage.acquire_lease(QUEUE, "a", lease, 15, etag=first.etag)
    assert (await stat(storage, QUEUE, "a")).lease is LeaseState.FREE
    for _ in range(2):
        await storage.acquire_lease(QUEUE, "a", lease, 15, etag=second.etag)
    assert await storage.stat(QUEUE, "a") == replace(second, lease=LeaseState.HELD)


async def test_a_released_lease_is_worth_nothing(storage: ExchangeStorage) -> None:
    ours = lease_id()
    await storage.write(QUEUE, "a", b"x")
    await storage.acquire_lease(QUEUE, "a", ours, 15)
    await storage.release_lease(QUEUE, "a", ours)

    with pytest.raises(LeaseLost):
        await storage.renew_lease(QUEUE, "a", ours)
    with pytest.raises(Contested):
        await storage.write(QUEUE, "a", b"y", lease=ours)
    with pytest.raises(Contested):
        await storage.delete(QUEUE, "a", lease=ours)
    assert await storage.delete(QUEUE, "a")


async def test_what_is_not_there_has_no_lease(storage: ExchangeStorage) -> None:
    ours = lease_id()
    with pytest.raises(Missing):
        await storage.acquire_lease(QUEUE, "a", ours, 15)
    with pytest.raises(Missing):
        await storage.renew_lease(QUEUE, "a", ours)
    await storage.release_lease(QUEUE, "a", ours)

    await storage.write(QUEUE, "a", b"x")
    await storage.acquire_lease(QUEUE, "a", ours, 15)
    await storage.delete(QUEUE, "a", lease=ours)
    await storage.write(QUEUE, "a", b"y")
    assert (await stat(storage, QUEUE, "a")).lease is LeaseState.FREE
    with pytest.raises(LeaseLost):
        await storage.renew_lease(QUEUE, "a", ours)


async def test_leases_are_uuids_of_15_to_60_seconds(storage: ExchangeStorage) -> None:
    await storage.write(QUEUE, "a", b"x")
    for lease, seconds in (("me", 15), (lease_id(), 14), (lease_id(), 61), (lease_id(), -1)):
        with pytest.raises(Invalid):
            await storage.acquire_lease(QUEUE, "a", lease, seconds)


@pytest.mark.parametrize("backend", ["directory", "azure by key"], indirect=True)  # Azure's takes 15 s
async def test_a_lapsed_lease_can_be_renewed_until_it_is_taken_or_the_blob_is_changed(
    backend: Backend,
) -> None:
    lost: list[str] = ["taken", "changed", "deleted"]
    leases = {name: lease_id() for name in ["kept", "released", "untouched", *lost]}
    async with backend.connect() as storage:
        for name, lease in leases.items():
            await storage.write(RESULTS, name, b"1")
            await storage.acquire_lease(RESULTS, name, lease, 15)
        await backend.lapse(storage, "deleted")

        assert {info.lease async for info in storage.list(RESULTS)} == {LeaseState.LAPSED}
        with pytest.raises(Contested):
            await storage.write(RESULTS, "kept", b"2", lease=leases["kept"])
        with pytest.raises(Contested):
            await storage.delete(RESULTS, "kept", lease=leases["kept"])
        await storage.renew_lease(RESULTS, "kept", leases["kept"])
        await storage.write(RESULTS, "kept", b"2", lease=leases["kept"])
        await storage.release_lease(RESULTS, "released", leases["released"])
        assert (await stat(storage, RESULTS, "released")).lease is LeaseState.FREE
        await storage.acquire_lease(RESULTS, "taken", lease_id(), 15)
        await storage.write(RESULTS, "changed", b"2")
        assert (await stat(storage, RESULTS, "changed")).lease is LeaseState.FREE
        assert await storage.delete(RESULTS, "deleted")
        await storage.write(RESULTS, "deleted", b"2")
        for name in lost:
            with pytest.raises(LeaseLost):
                await storage.renew_lease(RESULTS, name, leases[name])
            for content in (b"3", body(9)):
                with pytest.raises(Contested):
                    await storage.write(RESULTS, name, content, lease=leases[name])
            with pytest.raises(Contested):
                await storage.delete(RESULTS, name, lease=leases[name])
        await storage.acquire_lease(RESULTS, "untouched", leases["untouched"], 15)
