"""What only a directory can do to us: other processes, hands in the folder, crashes, odd file systems."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aioanalysis.errors import Contested, Invalid, LeaseLost, Misconfigured, Missing, Unavailable
from aioanalysis.interfaces import LeaseState
from aioanalysis.settings import load
from aioanalysis.storage.directory import DirectoryStorage, open_storage
from tests.support.storages import (
    ABSENT,
    MIB,
    QUEUE,
    RESULTS,
    DirectoryBackend,
    block,
    body,
    lease_id,
    names,
    read,
    stat,
)


@pytest.fixture
def backend(tmp_path: Path) -> DirectoryBackend:
    return DirectoryBackend(tmp_path)


@pytest.fixture
async def storage(backend: DirectoryBackend) -> AsyncIterator[DirectoryStorage]:
    async with backend.connect() as storage:
        yield storage


def hidden_files(root: Path) -> list[str]:
    files = (path for path in root.rglob("*") if path.is_file() and path.name != ".lock")
    found = [path.relative_to(root).as_posix() for path in files]
    return sorted(name for name in found if "/." in name)


# --- a folder to look into


async def test_blobs_are_plain_files_under_their_names(storage: DirectoryStorage, tmp_path: Path) -> None:
    await storage.write(QUEUE, "t.abc.tar", b"1", metadata={"uid": "u"})
    await storage.copy((QUEUE, "t.abc.tar"), (RESULTS, "claimed/t.abc.tar"), metadata={"uid": "u"})

    assert (tmp_path / "queue/t.abc.tar").read_bytes() == b"1"
    assert (tmp_path / "results/claimed/t.abc.tar").read_bytes() == b"1"


async def test_what_is_kept_beside_the_files_is_never_listed(
    storage: DirectoryStorage, tmp_path: Path
) -> None:
    await storage.write(RESULTS, "a/b", b"1")
    await storage.acquire_lease(RESULTS, "a/b", lease_id(), 15)

    assert len(hidden_files(tmp_path)) == 2
    for prefix in ("", ".", ".meta", ".meta/", "a/.", ".leases/a/"):
        assert await names(storage, RESULTS, prefix) == ["a/b"][: prefix == ""]
    assert [info.name async for info in storage.list(RESULTS, root_only=True)] == []


async def test_a_file_put_or_changed_or_removed_by_hand_counts(
    storage: DirectoryStorage, tmp_path: Path
) -> None:
    file = tmp_path / "queue/by-hand.tar"
    file.write_bytes(b"1")
    put = await stat(storage, QUEUE, "by-hand.tar")
    assert (put.size, put.metadata) == (1, {})
    assert await read(storage, QUEUE, "by-hand.tar", etag=put.etag) == b"1"
    copied = await storage.copy(
        (QUEUE, "by-hand.tar"), (RESULTS, "b"), metadata={"n": "1"}, source_etag=put.etag
    )
    assert copied.metadata == {"n": "1"}

    written = await storage.write(QUEUE, "by-hand.tar", b"22", metadata={"n": "2"})
    assert written.etag != put.etag
    file.write_bytes(b"333")
    changed = await stat(storage, QUEUE, "by-hand.tar")
    assert (changed.size, changed.metadata) == (3, {})

    file.unlink()
    assert await storage.stat(QUEUE, "by-hand.tar") is None
    await storage.write(QUEUE, "by-hand.tar", b"4", condition=ABSENT)


async def test_nothing_is_left_beside_blobs_that_have_gone(storage: DirectoryStorage, tmp_path: Path) -> None:
    for number in range(3):
        await storage.write(RESULTS, "a/b", b"%d" % number, metadata={"n": "1"})
        with pytest.raises(Contested):
            await storage.write(RESULTS, "a/b", body(2), condition=ABSENT)
        await storage.copy((RESULTS, "a/b"), (QUEUE, "b"), metadata={"n": "1"})
        await storage.copy((QUEUE, "b"), (RESULTS, "a/b"), metadata={"n": "2"})
        with pytest.raises(Missing):
            await storage.copy((QUEUE, "none"), (RESULTS, "a/b"), metadata={"n": "2"})
    await storage.acquire_lease(QUEUE, "b", lease := lease_id(), 15)
    assert len(hidden_files(tmp_path)) == 3

    await storage.delete(RESULTS, "a/b")
    await storage.delete(QUEUE, "b", lease=lease)
    assert hidden_files(tmp_path) == []


async def test_links_out_of_the_folder_are_not_followed(storage: DirectoryStorage, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "queue/a").symlink_to(tmp_path / "secret")
    (tmp_path / "queue/d").symlink_to(tmp_path)

    assert await names(storage, QUEUE) == []
    assert await storage.stat(QUEUE, "a") is None
    with pytest.raises(Missing):
        await read(storage, QUEUE, "a")


async def test_a_name_cannot_be_a_blob_and_a_folder(storage: DirectoryStorage, tmp_path: Path) -> None:
    await storage.write(QUEUE, "a/b", b"1")
    with pytest.raises(Invalid):
        await storage.write(QUEUE, "a", b"1")
    with pytest.raises(Invalid):
        await storage.write(QUEUE, "a/b/c", b"1")
    assert await storage.stat(QUEUE, "a") is None
    assert await storage.stat(QUEUE, "a/b/c") is None
    assert not await storage.delete(QUEUE, "a")
    assert await names(storage, QUEUE) == ["a/b"]
    assert len(hidden_files(tmp_path)) == 1


# --- versions


async def test_an_etag_never_comes_back_with_its_file(storage: DirectoryStorage) -> None:
    etags = [(await storage.write(QUEUE, "a", b"x", metadata={"n": "0"})).etag]
    for number in range(1, 6):  # the same inode leaves and comes back
        await storage.copy((QUEUE, "a"), (RESULTS, "a"), metadata={"n": "x"})
        await storage.delete(QUEUE, "a")
        back = await storage.copy((RESULTS, "a"), (QUEUE, "a"), metadata={"n": str(number)})
        assert await storage.stat(QUEUE, "a") == back
        assert back.metadata == {"n": str(number)}
        etags.append(back.etag)
    assert len(set(etags)) == 6


@pytest.mark.parametrize("code", [errno.EXDEV, errno.EPERM, errno.EMLINK])
async def test_a_file_system_without_links_copies(
    storage: DirectoryStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refuse)
    source = await storage.write(QUEUE, "a", body(3), metadata={"n": "1"})
    copied = await storage.copy((QUEUE, "a"), (RESULTS, "a"), metadata={"n": "2"}, source_etag=source.etag)

    assert await storage.stat(RESULTS, "a") == copied
    assert await read(storage, RESULTS, "a") == await read(storage, QUEUE, "a")
    assert (tmp_path / "queue/a").stat().st_ino != (tmp_path / "results/a").stat().st_ino
    with pytest.raises(Missing):
        await storage.copy((QUEUE, "none"), (RESULTS, "b"), metadata={"n": "2"})
    assert len(hidden_files(tmp_path)) == 2


async def test_a_file_cut_short_while_it_is_read_is_not_a_short_blob(
    storage: DirectoryStorage, tmp_path: Path
) -> None:
    await storage.write(RESULTS, "a", body(4))
    async with storage.open(RESULTS, "a") as stream:
        chunks = stream.chunks()
        assert len(await anext(aiter(chunks))) == MIB
        os.truncate(tmp_path / "results/a", MIB)
        with pytest.raises(Unavailable):
            await anext(aiter(chunks))


async def test_metadata_that_cannot_be_read_is_none(storage: DirectoryStorage, tmp_path: Path) -> None:
    await storage.write(QUEUE, "a", b"x", metadata={"n": "1"})
    for path in (tmp_path / "queue/.meta/a").iterdir():
        path.write_bytes(b"")

    assert (await stat(storage, QUEUE, "a")).metadata == {}
    assert [info.name async for info in storage.list(QUEUE)] == ["a"]
    await storage.write(QUEUE, "a", b"x", metadata={"n": "2"})
    assert (await stat(storage, QUEUE, "a")).metadata == {"n": "2"}


# --- processes

RACE = """
import asyncio, sys
from pathlib import Path
from aioanalysis.domain.exchange import Container
from aioanalysis.errors import Contested
from aioanalysis.interfaces import Condition
from aioanalysis.storage.directory import DirectoryStorage

async def main():
    storage = DirectoryStorage(Path(sys.argv[1]))

    async def create(name):
        try:
            await storage.write(Container.RESULTS, name, sys.argv[2].encode(), metadata={"by": sys.argv[2]},
                                condition=Condition(absent=True))
            return name
        except Contested:
            return ""

    print("ready", flush=True)
    sys.stdin.read()
    names = [f"progress/{number:03}" for number in range(100)]
    print(*await asyncio.gather(*(create(name) for name in names for _ in range(3))))

asyncio.run(main())
"""


async def test_among_processes_one_creates_each_blob(storage: DirectoryStorage, tmp_path: Path) -> None:
    pipe = asyncio.subprocess.PIPE
    racers = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", RACE, str(tmp_path), str(number), stdin=pipe, stdout=pipe
        )
        for number in range(3)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert await racer.stdout.readline() == b"ready\n"
    outputs = await asyncio.gather(*(racer.communicate(b"go") for racer in racers))
    won = sorted((name, str(n)) for n, (out, _) in enumerate(outputs) for name in out.decode().split())

    assert [racer.returncode for racer in racers] == [0, 0, 0]
    assert [name for name, _ in won] == [f"progress/{number:03}" for number in range(100)]
    assert [(info.name, info.metadata["by"]) async for info in storage.list(RESULTS)] == won
    for name, by in won:
        assert await read(storage, RESULTS, name) == by.encode()


KILLED = """
import asyncio, sys
from pathlib import Path
from aioanalysis.domain.exchange import Container
from aioanalysis.storage.directory import DirectoryStorage

async def main():
    storage = DirectoryStorage(Path(sys.argv[1]))
    async def body():
        yield b"x" * 3_000_000
        print("writing", flush=True)
        await asyncio.Event().wait()
    await storage.write(Container.QUEUE, "a", body())

asyncio.run(main())
"""


async def test_a_writer_that_is_killed_leaves_nothing_to_be_seen(
    backend: DirectoryBackend, storage: DirectoryStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, str(tmp_path), stdout=asyncio.subprocess.PIPE
    )
    assert writer.stdout is not None
    assert await writer.stdout.readline() == b"writing\n"
    writer.kill()
    await writer.wait()

    assert await names(storage, QUEUE) == []
    assert len(hidden_files(tmp_path)) == 1
    async with backend.connect():
        assert len(hidden_files(tmp_path)) == 1  # it might still be at work
    monkeypatch.setattr("aioanalysis.storage.tree.STALE_SECONDS", -1)
    async with backend.connect():
        assert hidden_files(tmp_path) == []


async def test_a_process_that_stops_within_a_change_is_not_waited_for_long(
    storage: DirectoryStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aioanalysis.storage.holders.LOCK_SECONDS", 0.1)
    written = await storage.write(QUEUE, "a", b"x")
    with (tmp_path / "queue/.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for call in (
            storage.acquire_lease(QUEUE, "a", lease_id(), 15),
            storage.write(QUEUE, "a", b"y"),
            storage.delete(QUEUE, "a"),
        ):
            with pytest.raises(Unavailable):
                await call
        assert await storage.stat(QUEUE, "a") == written
        assert await read(storage, QUEUE, "a") == b"x"
    assert await storage.delete(QUEUE, "a")


async def test_leases_are_known_to_all_and_end_with_a_restart_of_the_host(
    backend: DirectoryBackend, storage: DirectoryStorage
) -> None:
    ours = lease_id()
    await storage.write(QUEUE, "a", b"x")
    await storage.acquire_lease(QUEUE, "a", ours, 60)
    async with backend.connect() as other:
        assert (await stat(other, QUEUE, "a")).lease is LeaseState.HELD
        with pytest.raises(LeaseLost):
            await other.acquire_lease(QUEUE, "a", lease_id(), 15)
        backend.now -= 500  # the clock begins anew
        assert (await stat(other, QUEUE, "a")).lease is LeaseState.LAPSED
        await other.acquire_lease(QUEUE, "a", lease_id(), 15)


async def test_the_clock_of_leases_is_one_for_all_processes() -> None:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "import time; print(time.monotonic())", stdout=asyncio.subprocess.PIPE
    )
    out, _ = await child.communicate()

    assert abs(time.monotonic() - float(out)) < 10


# --- set-up


async def test_the_settings_name_the_folder_and_both_containers(tmp_path: Path) -> None:
    settings = load(
        storage_directory=tmp_path / "deep/down",
        queue_container="q-1",
        results_container="r-1",
        _env_file=None,
    )
    async with open_storage(settings) as storage:
        text = await storage.check()
        await storage.write(RESULTS, "a", block(1, 5))

    assert text == f"directory {tmp_path}/deep/down, containers q-1 and r-1"
    assert (tmp_path / "deep/down/r-1/a").exists()


async def test_a_folder_that_cannot_be_is_misconfigured(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Misconfigured, match="file"):
        async with open_storage(load(storage_directory=tmp_path / "file", _env_file=None)):
            pass


async def test_a_folder_that_has_gone_is_no_empty_one(storage: DirectoryStorage, tmp_path: Path) -> None:
    (tmp_path / "queue").rename(tmp_path / "moved")
    with pytest.raises(Misconfigured, match="queue"):
        await storage.check()
    for call in (
        names(storage, QUEUE),
        storage.stat(QUEUE, "a"),
        storage.write(QUEUE, "a", b"x"),
        storage.delete(QUEUE, "a"),
        storage.acquire_lease(QUEUE, "a", lease_id(), 15),
        storage.copy((QUEUE, "a"), (RESULTS, "a"), metadata={"n": "1"}),
        read(storage, QUEUE, "a"),
    ):
        with pytest.raises(Misconfigured):
            await call


async def test_a_full_disk_is_passing_and_leaves_nothing(
    storage: DirectoryStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("aioanalysis.storage.files._flush", full)
    for content in (b"x", body(3)):
        with pytest.raises(Unavailable, match="No space left"):
            await storage.write(QUEUE, "a", content)

    assert await names(storage, QUEUE) == []
    assert hidden_files(tmp_path) == []


async def test_results_are_flushed_to_the_disk_and_signs_of_life_are_not(
    storage: DirectoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []
    monkeypatch.setattr("aioanalysis.storage.files._flush", flushed.append)

    await storage.write(RESULTS, "progress/a.json", b"x")
    await storage.write(RESULTS, "workers/a.json", b"x")
    assert len(flushed) == 0
    await storage.write(RESULTS, "a.zip", b"x")
    assert len(flushed) == 2
