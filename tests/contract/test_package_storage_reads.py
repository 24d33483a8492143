"""What `ExchangeStorage` promises of names, lists and reading; both backends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from aioanalysis.errors import Contested, Invalid, Missing
from aioanalysis.interfaces import ExchangeStorage
from tests.support.storages import (
    ABSENT,
    MIB,
    QUEUE,
    RESULTS,
    AzureBackend,
    Backend,
    block,
    body,
    lease_id,
    names,
    read,
)

ODD_NAMES = [
    "a b+c.tar",
    "100%25.tar",
    "a&b=c?d#e;f.tar",
    "it's (a) [name] {x}~!@$,:.tar",
    "d'où-日本-ß.tar",
    "claimed/a+b %2F.tar",
    "x" * 255,
]
BAD_NAMES = [
    "",
    "/etc/passwd",
    "../x",
    "a/../x",
    "a/./x",
    "a//x",
    "a/",
    ".hidden",
    "a/.meta/x",
    "x.",
    "a\\b",
    "a\0b",
    "a\nb",
    "a\x7fb",
    "a\ud800b",
    "x" * 256,
    "x/" * 512 + "x",
]


async def test_odd_names_are_just_names(storage: ExchangeStorage) -> None:
    await asyncio.gather(*(_use(storage, name) for name in ODD_NAMES))
    assert await names(storage, QUEUE) == []
    assert await names(storage, RESULTS) == sorted(ODD_NAMES)


async def _use(storage: ExchangeStorage, name: str) -> None:
    written = await storage.write(QUEUE, name, b"x", metadata={"n": "1"}, condition=ABSENT)
    lease = lease_id()
    await storage.acquire_lease(QUEUE, name, lease, 15)
    await storage.renew_lease(QUEUE, name, lease)
    copied = await storage.copy((QUEUE, name), (RESULTS, name), metadata={"n": "2"})

    assert await names(storage, RESULTS, name) == [name]
    assert await read(storage, RESULTS, name, etag=copied.etag) == b"x"
    assert [info async for info in storage.list(RESULTS, name)] == [copied]
    assert await storage.delete(QUEUE, name, etag=written.etag, lease=lease)


async def test_names_that_lead_elsewhere_are_refused_everywhere(storage: ExchangeStorage) -> None:
    await storage.write(QUEUE, "good", b"x")
    for name in BAD_NAMES:
        await _refused(storage, name)
    assert await names(storage, QUEUE) == ["good"]


async def _refused(storage: ExchangeStorage, name: str) -> None:
    async def opened() -> None:
        async with storage.open(QUEUE, name):
            pass

    calls: list[Callable[[], Coroutine[Any, Any, Any]]] = [
        lambda: storage.stat(QUEUE, name),
        opened,
        lambda: storage.write(QUEUE, name, b"x"),
        lambda: storage.copy((QUEUE, "good"), (RESULTS, name), metadata={"n": "1"}),
        lambda: storage.copy((QUEUE, name), (RESULTS, "good"), metadata={"n": "1"}),
        lambda: storage.delete(QUEUE, name),
        lambda: storage.acquire_lease(QUEUE, name, lease_id(), 15),
        lambda: storage.renew_lease(QUEUE, name, lease_id()),
        lambda: storage.release_lease(QUEUE, name, lease_id()),
    ]
    for call in calls:
        with pytest.raises(Invalid):
            await call()


async def test_lists_are_in_order_with_prefix_and_root_only(storage: ExchangeStorage) -> None:
    stored = ["b.tar", "a.tar", "a-1.tar", "a/x.tar", "a0.tar", "B.tar", "claimed/b.tar", "claimed/a.tar"]
    await asyncio.gather(*(storage.write(RESULTS, name, b"x", metadata={"n": "1"}) for name in stored))

    async def listed(prefix: str = "", **options: bool) -> list[str]:
        infos = [info async for info in storage.list(RESULTS, prefix, **options)]
        assert all(info.metadata == {"n": "1"} for info in infos)
        return [info.name for info in infos]

    ordered = sorted(stored)
    assert await names(storage, RESULTS) == await listed() == ordered
    for prefix in (
        "a",
        "a/",
        "a.",
        "claimed/",
        "claimed/b",
        "claimed",
        "nothing",
        "no/thing",
        "..",
        "../",
        "/",
    ):
        expected = [name for name in ordered if name.startswith(prefix)]
        assert await names(storage, RESULTS, prefix) == await listed(prefix) == expected
        assert await listed(prefix, root_only=True) == [name for name in expected if "/" not in name]


async def test_lists_longer_than_a_page_are_complete(
    storage: ExchangeStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aioanalysis.storage.azure_lists.NAMES_A_PAGE", 7)
    monkeypatch.setattr("aioanalysis.storage.azure.BLOBS_A_PAGE", 7)
    monkeypatch.setattr("aioanalysis.storage.directory.BATCH", 7)
    stored = [f"{number:03}" for number in range(60)]
    await asyncio.gather(*(storage.write(QUEUE, name, name.encode()) for name in stored))

    assert await names(storage, QUEUE) == stored
    assert [info.name async for info in storage.list(QUEUE)] == stored
    assert [info.name async for info in storage.list(QUEUE, root_only=True)] == stored


async def test_a_long_list_comes_in_pages_and_what_is_new_before_them_moves_none(
    storage: ExchangeStorage,
) -> None:
    stored = sorted([f"x{number:02}" for number in range(8)] + ["x/a", "x/b", "x03.tar"])
    await asyncio.gather(*(storage.write(RESULTS, name, b"1", metadata={"n": name}) for name in stored))
    await storage.write(RESULTS, "y", b"")
    for limit in (1, 3, len(stored) - 1, len(stored), 100):
        found: list[str] = []
        place = None
        while True:
            page = await storage.page(RESULTS, "x", limit=limit, place=place)
            assert all(blob.metadata == {"n": blob.name} for blob in page.blobs)
            assert len(page.blobs) == limit or page.place is None
            found += [blob.name for blob in page.blobs]
            place = page.place
            await storage.write(RESULTS, f"x-{limit}-{len(found)}", b"", metadata={"n": "new"})
            if place is None:
                break
        assert found == stored
        async for name in storage.names(RESULTS, "x-"):
            await storage.delete(RESULTS, name)
    assert (await storage.page(QUEUE, limit=5)).blobs == []


async def test_check_names_the_containers(backend: Backend, storage: ExchangeStorage) -> None:
    text = await storage.check()

    wanted = list(backend.containers.values()) if isinstance(backend, AzureBackend) else ["queue", "results"]
    assert all(name in text for name in wanted)
    assert "\n" not in text


async def test_ranges_are_slices(storage: ExchangeStorage) -> None:
    data = block(1, 3 * MIB)
    written = await storage.write(RESULTS, "a", data, metadata={"n": "1"})
    await storage.write(RESULTS, "empty", b"")
    size = len(data)
    ends = [(0, None), (0, 1), (7, 7), (9, 3), (5, 2 * MIB), (size - 1, None), (size - 5, size + 5)]
    for start, end in [*ends, (size, None), (size + 5, None), (0, 0)]:
        async with storage.open(RESULTS, "a", start=start, end=end) as stream:
            assert stream.info == written
            pieces = [piece async for piece in stream.chunks()]
        assert b"".join(pieces) == data[start : end if end is None else max(start, end)], (start, end)
        assert await read(storage, RESULTS, "empty", start=start, end=end) == b""


async def test_opening_what_is_not_there_or_not_that_version_raises(storage: ExchangeStorage) -> None:
    for options in ({}, {"start": 5}, {"start": 3, "end": 3}):
        with pytest.raises(Missing):
            await read(storage, RESULTS, "none", **options)
    old = await storage.write(RESULTS, "a", b"old")
    assert await read(storage, RESULTS, "a", etag=old.etag) == b"old"
    await storage.write(RESULTS, "a", b"new")
    for options in ({}, {"start": 1}, {"start": 2, "end": 2}):
        with pytest.raises(Contested):
            await read(storage, RESULTS, "a", etag=old.etag, **options)


async def test_a_blob_replaced_while_it_is_read_is_never_mixed(storage: ExchangeStorage) -> None:
    await storage.write(RESULTS, "a", body(16))
    expected = b"".join([piece async for piece in body(16)])
    found = b""
    async with storage.open(RESULTS, "a") as stream:
        try:
            async for piece in stream.chunks():
                if not found:
                    await storage.write(RESULTS, "a", body(16, first=50))
                found += piece
        except Contested:
            assert expected.startswith(found)
        else:
            assert found == expected


async def test_cancelled_downloads_do_no_harm(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aioanalysis.storage.azure_reads.CONNECTIONS", 1)  # one that is lost is one too many
    async with backend.connect() as storage:
        await storage.write(RESULTS, "a", body(8))

        async def download() -> None:
            async with storage.open(RESULTS, "a") as stream:
                async for _ in stream.chunks():
                    pass

        for number in range(150):
            task = asyncio.create_task(download())
            for _ in range(number):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        async with storage.open(RESULTS, "a") as stream:
            async for _ in stream.chunks():
                break

        async with asyncio.timeout(5):
            assert await read(storage, RESULTS, "a", start=5, end=10) == block(0)[5:10]
