"""What `ExchangeStorage` promises of writing; both backends, Azure by key and by SAS."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aioanalysis.errors import Contested, Invalid
from aioanalysis.interfaces import BlobInfo, Condition, ExchangeStorage, Head, LeaseState
from tests.support.storages import (
    ABSENT,
    MIB,
    QUEUE,
    RESULTS,
    Backend,
    block,
    body,
    names,
    read,
    stat,
)


async def test_a_blob_is_described_alike_by_write_stat_list_and_open(storage: ExchangeStorage) -> None:
    before = datetime.now(UTC) - timedelta(seconds=2)
    written = await storage.write(QUEUE, "a.tar", b"hello", metadata={"uid": "1", "sent_at": "x y"})

    async with storage.open(QUEUE, "a.tar") as stream:
        opened = stream.info
    listed = [info async for info in storage.list(QUEUE)]

    assert (written.name, written.size, written.lease) == ("a.tar", 5, LeaseState.FREE)
    assert written.metadata == {"uid": "1", "sent_at": "x y"}
    assert before < written.modified_at < datetime.now(UTC) + timedelta(seconds=2)
    assert await storage.stat(QUEUE, "a.tar") == written
    assert listed == [written]
    assert opened == written


async def test_the_two_containers_are_apart(storage: ExchangeStorage) -> None:
    await storage.write(QUEUE, "a", b"1")

    assert await storage.stat(RESULTS, "a") is None
    assert await names(storage, RESULTS) == []


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, MIB + 1, 9 * MIB])
async def test_bytes_and_iterators_of_any_size_come_back(storage: ExchangeStorage, size: int) -> None:
    data = block(size, size)

    async def chopped() -> AsyncIterator[bytes]:
        for start in range(0, size, 700_001):
            yield data[start : start + 700_001]

    first = await storage.write(RESULTS, "bytes", data)
    second = await storage.write(RESULTS, "iterator", chopped())

    assert first.size == second.size == size
    assert await read(storage, RESULTS, "bytes") == data
    assert await read(storage, RESULTS, "iterator") == data


async def test_an_overwrite_changes_the_etag_and_leaves_no_old_metadata(storage: ExchangeStorage) -> None:
    etags = {(await storage.write(QUEUE, "a", b"same", metadata={"n": "1"})).etag for _ in range(5)}
    last = await storage.write(QUEUE, "a", b"same")

    assert len(etags | {last.etag}) == 6
    assert (await stat(storage, QUEUE, "a")).metadata == {}


async def test_metadata_may_be_told_when_the_body_has_ended(storage: ExchangeStorage) -> None:
    for size in (10, 2 * MIB):
        digest = hashlib.sha256()

        async def hashed(digest: Any = digest, size: int = size) -> AsyncIterator[bytes]:
            async for piece in body(3, size=size):
                digest.update(piece)
                yield piece

        written = await storage.write(
            QUEUE, "a", hashed(), metadata=lambda digest=digest: {"sha256": digest.hexdigest()}
        )

        assert written.metadata == {"sha256": digest.hexdigest()}
        assert await storage.stat(QUEUE, "a") == written


@pytest.mark.parametrize("size", [0, 10, MIB - 5, MIB, 9 * MIB])
async def test_a_head_made_when_the_body_has_ended_comes_first(storage: ExchangeStorage, size: int) -> None:
    data, passed = block(size, size), 0

    async def counted() -> AsyncIterator[bytes]:
        nonlocal passed
        for start in range(0, size, 700_001):
            piece = data[start : start + 700_001]
            passed += len(piece)
            yield piece

    head = Head(size=8, make=lambda: f"{passed:08}".encode())
    written = await storage.write(
        QUEUE, "a", counted(), head=head, metadata=lambda: {"n": str(passed)}, condition=ABSENT
    )

    assert await read(storage, QUEUE, "a") == f"{size:08}".encode() + data
    assert written.size == size + 8
    assert written.metadata == {"n": str(size)}
    assert await storage.stat(QUEUE, "a") == written
    with pytest.raises(Contested):
        await storage.write(QUEUE, "a", counted(), head=head, condition=ABSENT)


@pytest.mark.parametrize("blocks", [0, 9])
async def test_a_head_that_cannot_be_made_leaves_nothing(storage: ExchangeStorage, blocks: int) -> None:
    def fails() -> bytes:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await storage.write(QUEUE, "a", body(blocks), head=Head(size=8, make=fails))
    with pytest.raises(ValueError, match="9 bytes, not 8"):
        await storage.write(QUEUE, "a", body(blocks), head=Head(size=8, make=lambda: bytes(9)))

    assert await storage.stat(QUEUE, "a") is None


async def test_a_large_body_streams_through_little_memory(storage: ExchangeStorage) -> None:
    digest = hashlib.sha256()
    for number in range(64):
        digest.update(block(number))
    gc.collect()
    gc.disable()  # what only a collection would free counts as held
    tracemalloc.start()
    try:
        await storage.write(RESULTS, "large", body(64))
        writing = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        found = hashlib.sha256()
        async with storage.open(RESULTS, "large") as stream:
            async for piece in stream.chunks():
                found.update(piece)
        reading = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.enable()

    assert found.digest() == digest.digest()
    assert writing < 24 * MIB
    assert reading < 8 * MIB


@pytest.mark.parametrize("blocks", [0, 1, 20])
async def test_a_body_that_raises_leaves_what_was_there(storage: ExchangeStorage, blocks: int) -> None:
    async def broken() -> AsyncIterator[bytes]:
        async for piece in body(blocks):
            yield piece
        raise ZeroDivisionError

    old = await storage.write(QUEUE, "old", b"old", metadata={"n": "1"})
    for name in ("old", "new"):
        with pytest.raises(ZeroDivisionError):
            await storage.write(QUEUE, name, broken())

    assert [info async for info in storage.list(QUEUE)] == [old]
    assert await storage.stat(QUEUE, "new") is None
    assert await read(storage, QUEUE, "old") == b"old"


async def test_metadata_that_raises_leaves_nothing(storage: ExchangeStorage) -> None:
    for wrong in (
        {"owner": "Zoë"},
        {"Bad": "x"},
        {"a-b": "x"},
        {"a": "x\ny"},
        {"a": " x"},
        {"a": "x" * 8192},
    ):
        with pytest.raises(Invalid):
            await storage.write(QUEUE, "a", b"x", metadata=wrong)
        with pytest.raises(Invalid):
            await storage.write(QUEUE, "a", body(9), metadata=lambda wrong=wrong: wrong)

    assert await names(storage, QUEUE) == []


async def test_a_cancelled_write_leaves_nothing(storage: ExchangeStorage) -> None:
    stuck = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        async for piece in body(20):
            yield piece
        stuck.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(storage.write(QUEUE, "a", slow()))
    async with asyncio.timeout(20):
        await stuck.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert await names(storage, QUEUE) == []
    await storage.write(QUEUE, "a", b"x", condition=ABSENT)


async def test_nothing_is_seen_before_all_of_it_is_there(storage: ExchangeStorage) -> None:
    seen = []

    async def watched() -> AsyncIterator[bytes]:
        async for piece in body(20):
            yield piece
            seen.append((await storage.stat(QUEUE, "a"), await names(storage, QUEUE)))

    await storage.write(QUEUE, "a", watched())

    assert seen == [(None, [])] * 20


async def test_readers_never_meet_one_version_with_the_metadata_of_another(backend: Backend) -> None:
    async with backend.connect() as writer, backend.connect() as reader:
        await writer.write(QUEUE, "a", b"0", metadata={"n": "0"})
        running = True

        async def look() -> int:
            looks = 0
            while running:
                async with reader.open(QUEUE, "a") as stream:
                    content = b"".join([piece async for piece in stream.chunks()])
                assert stream.info.metadata == {"n": content.decode()}
                listed = [info async for info in reader.list(QUEUE)]
                assert [info.size for info in listed] == [len(listed[0].metadata["n"])]
                looks += 1
            return looks

        task = asyncio.create_task(look())
        for n in range(60):
            await writer.write(QUEUE, "a", b"%d" % 7**n, metadata={"n": str(7**n)})
        running = False
        assert await task > 0


async def test_absent_creates_once(storage: ExchangeStorage) -> None:
    for large in (False, True):
        name = f"large {large}"

        def content(large: bool = large) -> bytes | AsyncIterator[bytes]:
            return body(10) if large else b"x"

        written = await storage.write(QUEUE, name, content(), condition=ABSENT, metadata={"n": "1"})
        with pytest.raises(Contested):
            await storage.write(QUEUE, name, content(), condition=ABSENT, metadata={"n": "2"})

        assert await storage.stat(QUEUE, name) == written


async def test_an_etag_lets_only_its_version_be_replaced(storage: ExchangeStorage) -> None:
    for large in (False, True):
        name = f"large {large}"

        def content(large: bool = large) -> bytes | AsyncIterator[bytes]:
            return body(10) if large else b"x"

        with pytest.raises(Contested):
            await storage.write(QUEUE, name, content(), condition=Condition(etag="0x1"))
        first = await storage.write(QUEUE, name, b"1")
        second = await storage.write(QUEUE, name, content(), condition=Condition(etag=first.etag))
        with pytest.raises(Contested):
            await storage.write(QUEUE, name, content(), condition=Condition(etag=first.etag))

        assert await storage.stat(QUEUE, name) == second


async def test_a_conflict_is_seen_before_a_large_body_is_read(storage: ExchangeStorage) -> None:
    await storage.write(QUEUE, "a", b"x")
    taken, closed = 0, False

    async def counted() -> AsyncIterator[bytes]:
        nonlocal taken, closed
        try:
            async for piece in body(64):
                taken += 1
                yield piece
        finally:
            closed = True

    with pytest.raises(Contested):
        await storage.write(QUEUE, "a", counted(), condition=ABSENT)

    assert taken <= 9
    assert closed or not taken


@pytest.mark.parametrize("large", [False, True])
async def test_of_many_that_create_exactly_one_wins(backend: Backend, large: bool) -> None:
    count = 3 if large else 20
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(backend.connect()) for _ in range(count)]

        async def create(n: int, storage: ExchangeStorage) -> BlobInfo:
            content = body(17, first=100 * n) if large else block(n, 100)
            return await storage.write(QUEUE, "a", content, condition=ABSENT, metadata={"n": str(n)})

        outcomes = await asyncio.gather(
            *(create(n, client) for n, client in enumerate(clients)), return_exceptions=True
        )
        winners = [outcome for outcome in outcomes if isinstance(outcome, BlobInfo)]
        losers = [outcome for outcome in outcomes if isinstance(outcome, Contested)]
        content = await read(clients[0], QUEUE, "a")

        assert (len(winners), len(losers)) == (1, count - 1), outcomes
        assert await clients[0].stat(QUEUE, "a") == winners[0]
        n = int(winners[0].metadata["n"])
        expected = b"".join([p async for p in body(17, first=100 * n)]) if large else block(n, 100)
        assert content == expected


async def test_an_upload_that_is_overtaken_never_mixes_with_the_other(storage: ExchangeStorage) -> None:
    for overtaking in (b"small", body(20, first=50)):

        async def overtaken(overtaking: Any = overtaking) -> AsyncIterator[bytes]:
            async for piece in body(20):
                yield piece
            await storage.write(QUEUE, "a", overtaking, metadata={"by": "other"})

        try:
            written = await storage.write(QUEUE, "a", overtaken(), metadata={"by": "us"})
        except Contested:
            assert (await stat(storage, QUEUE, "a")).metadata == {"by": "other"}
        else:
            assert await storage.stat(QUEUE, "a") == written
            assert await read(storage, QUEUE, "a") == b"".join([piece async for piece in body(20)])
