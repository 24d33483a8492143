"""The result zip holds the job directory's plain files and nothing of the host's."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import socket
import subprocess
import threading
import time
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest

from aioanalysis.worker import archive as module
from aioanalysis.worker.archive import Archive
from aioanalysis.worker.jobtree import JobFile, Skipped, disk_bytes, escaped, read_small, tail, walk
from aioanalysis.worker.workspace import remove_tree
from tests.support.parts import require


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    return folder


async def zipped(job: Path, *, max_bytes: int = 1 << 40, **extra: bytes) -> tuple[Archive, bytes]:
    members = {name.replace("__", "."): data for name, data in extra.items()}
    archive = Archive(job, extra=members, about={"stem": "noop.0123abcd"}, max_bytes=max_bytes)
    return archive, b"".join([piece async for piece in archive.chunks()])


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def contents(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def unzip_agrees(data: bytes, tmp_path: Path) -> None:
    program = require("unzip")
    path = tmp_path / "out.zip"
    path.write_bytes(data)
    done = subprocess.run([program, "-t", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


async def test_members_come_back_byte_for_byte_and_the_manifest_vouches_for_them(
    job: Path, tmp_path: Path
) -> None:
    files = {
        "records.jsonl": b'{"a": 1}\n' * 200_000,
        "tables/summary.tsv": b"a\tb\n",
        "plots/plot.png": os.urandom(3_000_000),
        "empty": b"",
    }
    for name, data in files.items():
        (job / name).parent.mkdir(exist_ok=True)
        (job / name).write_bytes(data)
    (job / ".alive").touch()
    archive, data = await zipped(job, resource_stats__json=b"{}")
    got = contents(data)
    manifest = json.loads(got.pop("manifest.json"))
    assert got == {**files, "resource_stats.json": b"{}"}
    assert {m["name"]: (m["size"], m["sha256"]) for m in manifest["members"]} == {
        name: (len(body), hashlib.sha256(body).hexdigest()) for name, body in got.items()
    }
    assert manifest["stem"] == "noop.0123abcd"
    assert manifest["skipped"] == []
    unzip_agrees(data, tmp_path)
    assert archive.digest is not None
    assert archive.digest.size == len(data)
    assert archive.digest.sha256 == hashlib.sha256(data).hexdigest()
    assert archive.digest.crc32 == f"{zlib.crc32(data):08x}"
    assert len(data) < 3_500_000


async def test_the_manifest_is_the_last_member(job: Path) -> None:
    (job / "z").touch()
    _, data = await zipped(job, a__json=b"1")
    assert zipfile.ZipFile(io.BytesIO(data)).namelist() == ["z", "a.json", "manifest.json"]


async def test_links_pipes_and_sockets_are_named_and_never_opened(job: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"host secret")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "inner").write_bytes(b"host secret")
    (job / "link").symlink_to(secret)
    (job / "folder").symlink_to(tmp_path / "outside")
    (job / "loop").symlink_to(job / "loop")
    (job / "dangling").symlink_to("/nowhere")
    os.mkfifo(job / "pipe")
    with socket.socket(socket.AF_UNIX) as server, contextlib.chdir(job):
        server.bind("socket")
    (job / "good").write_bytes(b"good")
    began = time.monotonic()
    _, data = await zipped(job)
    assert time.monotonic() - began < 5
    got = contents(data)
    manifest = json.loads(got["manifest.json"])
    assert set(got) == {"good", "manifest.json"}
    assert b"host secret" not in b"".join(got.values())
    assert {s["name"]: s["reason"] for s in manifest["skipped"]} == {
        "link": "a link",
        "folder": "a link",
        "loop": "a link",
        "dangling": "a link",
        "pipe": "a pipe",
        "socket": "a socket",
    }
    assert manifest["skipped_count"] == 6


async def test_odd_names_dates_and_modes_are_taken_care_of(job: Path, tmp_path: Path) -> None:
    names = [b"caf\xe9", "naïve ☃.txt".encode(), b"a\nb", b"a\\b", b"50%.txt", b"50%25.txt"]
    for name in names:
        (job / os.fsdecode(name)).write_bytes(name)
    os.utime(job / "50%.txt", (0, 0))
    os.utime(job / "naïve ☃.txt", (2**33, 2**33))
    (job / "closed").mkdir()
    (job / "closed" / "file").write_bytes(b"closed")
    (job / "closed" / "file").chmod(0)
    (job / "closed").chmod(0)
    _, data = await zipped(job)
    got = contents(data)
    assert set(got) - {"manifest.json"} == {
        "caf%E9", "naïve ☃.txt", "a%0Ab", "a%5Cb", "50%.txt", "50%2525.txt", "closed/file",
    }  # fmt: skip
    assert got["closed/file"] == b"closed"
    unzip_agrees(data, tmp_path)
    assert remove_tree(job)


async def test_a_jobs_own_manifest_is_kept_under_another_name(job: Path) -> None:
    (job / "manifest.json").write_bytes(b"mine")
    (job / "resource_stats.json").write_bytes(b"forged")
    _, data = await zipped(job, resource_stats__json=b"ours")
    got = contents(data)
    assert got["%6Danifest.json"] == b"mine"
    assert got["%72esource_stats.json"] == b"forged"
    assert got["resource_stats.json"] == b"ours"
    originals = {m["name"]: m.get("original") for m in json.loads(got["manifest.json"])["members"]}
    assert originals["%6Danifest.json"] == "manifest.json"


async def test_what_exceeds_the_limit_is_left_out_and_said_so(job: Path) -> None:
    with (job / "sparse").open("wb") as file:
        file.truncate(1 << 42)
    (job / "small").write_bytes(b"small")
    _, data = await zipped(job, max_bytes=1 << 20)
    got = contents(data)
    assert set(got) == {"small", "manifest.json"}
    assert json.loads(got["manifest.json"])["skipped"] == [
        {"name": "sparse", "reason": "over the size limit"}
    ]


async def test_very_deep_folders_are_cut_off(job: Path) -> None:
    deep = job
    for _ in range(70):
        deep = deep / "d"
        deep.mkdir()
    (deep / "bottom").touch()
    _, data = await zipped(job)
    assert json.loads(contents(data)["manifest.json"])["skipped"][0]["reason"] == "too deep"


async def test_a_file_that_grows_is_packed_as_it_was_seen_and_one_that_shrinks_as_it_is(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("grows.txt", "shrinks.txt", "grows.png"):
        (job / name).write_bytes(b"x" * 1000)

    def walked(*args: Any, **kwargs: Any) -> list[JobFile]:
        files = walk(*args, **kwargs)
        for name, size in (("grows.txt", 2000), ("shrinks.txt", 10), ("grows.png", 2000)):
            (job / name).write_bytes(b"y" * size)
        return files

    monkeypatch.setattr(module, "walk", walked)
    _, data = await zipped(job)
    got = contents(data)
    assert {name: len(body) for name, body in got.items() if name != "manifest.json"} == {
        "grows.txt": 1000,
        "shrinks.txt": 10,
        "grows.png": 1000,
    }


async def test_a_stored_file_that_changes_under_our_hands_makes_no_package(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job / "plot.png").write_bytes(b"x" * 1000)
    told = Archive._size_and_crc

    def changed(self: Archive, handle: int, size: int) -> tuple[int, int]:
        found = told(self, handle, size)
        (job / "plot.png").write_bytes(b"y" * 1000)
        return found

    monkeypatch.setattr(Archive, "_size_and_crc", changed)
    with pytest.raises(ValueError, match=r"plot\.png has changed"):
        await zipped(job)


async def test_many_small_files_make_few_pieces(job: Path) -> None:
    for number in range(2000):
        (job / f"{number}.txt").write_bytes(b"x" * 100)
    archive = Archive(job, extra={}, about={}, max_bytes=1 << 40)
    pieces = [piece async for piece in archive.chunks()]
    assert len(pieces) < 5
    assert len(contents(b"".join(pieces))) == 2001


async def test_a_reader_that_leaves_early_leaves_no_thread_and_no_open_file(job: Path) -> None:
    for number in range(4):
        (job / f"{number}.bin").write_bytes(os.urandom(4 << 20))
    archive = Archive(job, extra={}, about={}, max_bytes=1 << 40)
    before = open_files()
    async with contextlib.aclosing(archive.chunks()) as pieces:
        async for _ in pieces:
            break
    assert archive.digest is None
    assert open_files() == before


def test_only_small_regular_files_are_read(job: Path) -> None:
    (job / "status.json").write_bytes(b"{}")
    (job / "large").write_bytes(b"x" * 100)
    (job / "link").symlink_to("status.json")
    os.mkfifo(job / "pipe")
    assert read_small(job, "status.json", 10) == b"{}"
    assert [read_small(job, name, 10) for name in ("large", "link", "pipe", "absent")] == [None] * 4
    assert tail(job, "large", 3) == b"xxx"
    assert tail(job, "link", 3) == b""


def test_what_the_disk_holds_is_counted_and_a_sparse_file_is_not(job: Path) -> None:
    with (job / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    (job / "sub").mkdir()
    (job / "sub" / "data").write_bytes(os.urandom(1 << 20))
    assert 1 << 20 <= disk_bytes(job, enough=1 << 50) < 2 << 20
    assert disk_bytes(job / "absent", enough=1) == 0


def test_a_walk_lists_at_most_so_many_skipped_files() -> None:
    skipped = Skipped()
    for number in range(20_000):
        skipped.add(str(number), "a link")
    assert (skipped.count, len(skipped.listed)) == (20_000, 10_000)


def test_escaping_is_unambiguous() -> None:
    assert escaped("a%0A") != escaped("a\n")
    assert escaped("plain 100%") == "plain 100%"


def test_a_walk_survives_files_that_vanish(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        (job / str(number)).touch()
    thread = threading.Thread(target=lambda: [(job / str(n)).unlink(missing_ok=True) for n in range(50)])
    thread.start()
    files: list[Any] = walk(job, max_bytes=1 << 20, skipped=Skipped())
    thread.join()
    assert len(files) <= 50
