"""What `ExchangeStorage` promises of copies and deletes; both backends."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from aioanalysis.errors import Contested, Invalid, Missing
from aioanalysis.interfaces import BlobInfo, Condition, ExchangeStorage, LeaseState
from tests.support.storages import (
    ABSENT,
    MIB,
    QUEUE,
    RESULTS,
    Backend,
    body,
    lease_id,
    names,
    read,
    stat,
)


async def test_a_copy_has_the_bytes_and_only_its_own_metadata(storage: ExchangeStorage) -> None:
    source = await storage.write(QUEUE, "a.tar", body(12), metadata={"uid": "1", "attempt": "1"})

    copied = await storage.copy(
        (QUEUE, "a.tar"),
        (RESULTS, "claimed/a.tar"),
        metadata={"nonce": "n"},
        source_etag=source.etag,
        condition=ABSENT,
    )
    back = await storage.copy((RESULTS, "claimed/a.tar"), (QUEUE, "a.tar"), metadata={"attempt": "2"})

    assert (copied.name, copied.size, copied.metadata) == ("claimed/a.tar", 12 * MIB, {"nonce": "n"})
    assert await storage.stat(RESULTS, "claimed/a.tar") == copied
    assert await storage.stat(QUEUE, "a.tar") == back
    assert back.metadata == {"attempt": "2"}
    assert back.etag != source.etag
    assert await read(storage, QUEUE, "a.tar") == await read(storage, RESULTS, "claimed/a.tar")
    with pytest.raises(Invalid):
        await storage.copy((QUEUE, "a.tar"), (RESULTS, "b.tar"), metadata={})


async def test_a_copy_lives_on_without_its_source(storage: ExchangeStorage) -> None:
    await storage.write(QUEUE, "a", b"1")
    await storage.copy((QUEUE, "a"), (RESULTS, "a"), metadata={"n": "1"})
    await storage.write(QUEUE, "a", b"2")
    assert await storage.delete(QUEUE, "a")

    assert await read(storage, RESULTS, "a") == b"1"
    assert (await stat(storage, RESULTS, "a")).metadata == {"n": "1"}


async def test_a_copy_onto_itself_renews_metadata_and_etag(storage: ExchangeStorage) -> None:
    first = await storage.write(QUEUE, "a", b"1", metadata={"n": "1"})
    second = await storage.copy((QUEUE, "a"), (QUEUE, "a"), metadata={"n": "2"}, source_etag=first.etag)

    assert second.etag != first.etag
    assert await storage.stat(QUEUE, "a") == second
    assert await read(storage, QUEUE, "a") == b"1"


async def test_a_copy_that_may_not_be_raises_and_changes_nothing(storage: ExchangeStorage) -> None:
    source = await storage.write(QUEUE, "a", b"1")
    target = await storage.write(RESULTS, "b", b"2")
    lease = lease_id()
    await storage.write(RESULTS, "leased", b"3")
    await storage.acquire_lease(RESULTS, "leased", lease, 15)

    async def copy(name: str, to: str, **options: Any) -> BlobInfo:
        return await storage.copy((QUEUE, name), (RESULTS, to), metadata={"n": "1"}, **options)

    with pytest.raises(Missing):
        await copy("none", "c")
    for name, to, options in (
        ("a", "c", {"source_etag": "0x1"}),
        ("a", "b", {"condition": ABSENT}),
        ("a", "b", {"condition": Condition(etag=source.etag)}),
        ("a", "c", {"condition": Condition(etag=source.etag)}),
        ("a", "leased", {}),
        ("a", "leased", {"lease": lease_id()}),
    ):
        with pytest.raises(Contested):
            await copy(name, to, **options)
    assert await names(storage, RESULTS) == ["b", "leased"]
    assert await storage.stat(RESULTS, "b") == target
    assert await read(storage, RESULTS, "leased") == b"3"

    replaced = await copy("a", "leased", lease=lease)
    assert replaced.lease is LeaseState.HELD
    await copy("a", "b", condition=Condition(etag=target.etag), source_etag=source.etag)


async def test_of_many_that_copy_to_an_absent_name_one_wins(backend: Backend) -> None:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(backend.connect()) for _ in range(8)]
        await clients[0].write(QUEUE, "a", b"x")
        outcomes = await asyncio.gather(
            *(
                client.copy((QUEUE, "a"), (RESULTS, "a"), metadata={"n": str(n)}, condition=ABSENT)
                for n, client in enumerate(clients)
            ),
            return_exceptions=True,
        )
        winners = [outcome for outcome in outcomes if isinstance(outcome, BlobInfo)]

        assert len(winners) == 1
        assert sum(isinstance(outcome, Contested) for outcome in outcomes) == 7
        assert await clients[0].stat(RESULTS, "a") == winners[0]


async def test_delete_says_whether_it_was_there(storage: ExchangeStorage) -> None:
    old = await storage.write(QUEUE, "a", b"1")
    new = await storage.write(QUEUE, "a", b"2")

    with pytest.raises(Contested):
        await storage.delete(QUEUE, "a", etag=old.etag)
    assert await storage.delete(QUEUE, "a", etag=new.etag)
    for options in ({}, {"etag": new.etag}, {"lease": lease_id()}):
        assert not await storage.delete(QUEUE, "a", **options)
    assert await storage.stat(QUEUE, "a") is None
    assert await names(storage, QUEUE) == []
