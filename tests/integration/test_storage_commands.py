"""`aioanalysis storage` as an operator uses it, on both backends."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import re
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aioanalysis import cli
from aioanalysis.domain.exchange import Container
from aioanalysis.errors import Unavailable
from aioanalysis.interfaces import BlobStream, ExchangeStorage
from aioanalysis.settings import PREFIX, Settings, load
from aioanalysis.wiring import open_storage

CONTENT = bytes(range(256)) * 12_000  # three pieces
Shell = Callable[..., tuple[int, str, str]]


@pytest.fixture(params=["directory", "azurite"])
def shell(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    unique: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Shell:
    """Runs one command in an empty folder, on fresh containers: its exit code, output and errors."""
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        monkeypatch.delenv(name)
    if request.param == "directory":
        monkeypatch.setenv(f"{PREFIX}STORAGE_DIRECTORY", str(tmp_path / "blobs"))
    else:
        azurite = request.getfixturevalue("azurite")
        monkeypatch.setenv(f"{PREFIX}AZURE_CONNECTION_STRING", azurite.connection_string)
    monkeypatch.setenv(f"{PREFIX}QUEUE_CONTAINER", f"{unique}-queue")
    monkeypatch.setenv(f"{PREFIX}RESULTS_CONTAINER", f"{unique}-results")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["aioanalysis", "storage", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        code = ended.value.code
        assert isinstance(code, int | None)
        told = capfd.readouterr()
        return code or 0, told.out, told.err

    assert run("create")[0] == 0
    return run


def listed(shell: Shell, *words: str) -> list[dict[str, Any]]:
    code, out, _ = shell("ls", *words, "--json")
    assert code == 0
    found = json.loads(out)
    assert isinstance(found, list)
    return found


def local(name: str, data: bytes = CONTENT) -> str:
    Path(name).write_bytes(data)
    return name


def test_what_was_put_is_listed_and_comes_back_byte_for_byte(shell: Shell) -> None:
    digest = hashlib.sha256(CONTENT).hexdigest()
    words = ("put", "queue", local("t.00000000.tar"), "--metadata", "attempt=1", "--json")
    code, out, _ = shell(*words)
    assert code == 0
    assert json.loads(out) == {
        "name": "t.00000000.tar",
        "path": "t.00000000.tar",
        "size": len(CONTENT),
        "sha256": digest,
        "verified": True,
    }
    [found] = listed(shell)
    assert (found["container"], found["name"], found["size"]) == ("queue", "t.00000000.tar", len(CONTENT))
    assert found["metadata"] == {"attempt": "1", "sha256": digest}
    assert found["lease"] == "free"
    Path("folder").mkdir()
    for target in ("copy", "folder"):
        code, out, _ = shell("get", "queue", "t.00000000.tar", "--output", target)
        assert code == 0
        assert f"{len(CONTENT)} bytes  sha256 {digest}  verified" in out
    assert Path("copy").read_bytes() == CONTENT
    assert Path("folder/t.00000000.tar").read_bytes() == CONTENT
    assert shell("get", "queue", "t.00000000.tar", "--output", "/dev/null")[0] == 0


def test_a_list_is_for_people_and_can_be_cut_by_container_and_prefix(shell: Shell) -> None:
    for name in ("attempts/b", "attempts/a", "other"):
        assert shell("put", "results", local("file", b"12345"), "--name", name)[0] == 0
    code, out, err = shell("ls", "results", "--prefix", "attempts/")
    assert (code, err) == (0, "2 files, 10 bytes\n")
    for line, name in zip(out.splitlines(), ("attempts/a", "attempts/b"), strict=True):
        assert re.fullmatch(rf" +5  20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ +results  {name}", line)
    assert [one["name"] for one in listed(shell, "results")] == ["attempts/a", "attempts/b", "other"]
    assert listed(shell, "queue") == []


def test_nothing_is_written_over_without_force(shell: Shell) -> None:
    assert shell("put", "results", local("file", b"old"))[0] == 0
    code, _, err = shell("put", "results", local("file", b"new"))
    assert (code, err) == (1, "aioanalysis: file is in results already; --force writes over it\n")
    assert [one["size"] for one in listed(shell)] == [3]
    assert shell("get", "results", "file", "-o", "copy")[0] == 0
    assert Path("copy").read_bytes() == b"old"
    assert shell("put", "results", "file", "--force")[0] == 0
    assert shell("get", "results", "file", "-o", "copy")[0] == 0
    assert Path("copy").read_bytes() == b"new"


def test_a_removal_is_asked_for_or_said_to_be_meant(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for name in ("a", "b", "c"):
        assert shell("put", "results", local(name, b"1"))[0] == 0
    assert shell("rm", "results", "a") == (
        1,
        "",
        "aioanalysis: nobody is there to be asked: --yes removes without\n",
    )
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    code, _, err = shell("rm", "results", "a", "b")
    assert (code, "Remove 2 files from results for good?" in err) == (1, True)
    assert len(listed(shell)) == 3
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    code, out, _ = shell("rm", "results", "a")
    assert (code, out.strip()) == (0, "removed a")
    code, out, err = shell("rm", "results", "none", "b", "--yes")
    assert (code, out) == (1, "removed b\n")
    assert err == "aioanalysis: there is no none in results\n"
    assert [one["name"] for one in listed(shell)] == ["c"]


async def lease(name: str) -> None:
    async with open_storage(load()) as storage:
        await storage.acquire_lease(Container.QUEUE, name, str(uuid.uuid4()), 60)


def test_what_a_worker_holds_is_shown_and_neither_removed_nor_written_over(shell: Shell) -> None:
    assert shell("put", "queue", local("file", b"1"))[0] == 0
    asyncio.run(lease("file"))
    assert [one["lease"] for one in listed(shell)] == ["held"]
    for words in (("rm", "queue", "file", "--yes"), ("put", "queue", "file", "--force")):
        code, _, err = shell(*words)
        assert code == 1
        assert err.startswith("aioanalysis: file in queue is being changed, or a worker holds it: ")
        assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("get", "results", "none"), "there is no none in results"),
        (("put", "results", "none"), "none is not a file"),
        (("put", "results", "file", "--name", "../x"), "not a name for a blob"),
        (("put", "results", "file", "--metadata", "x"), "write KEY=VALUE"),
        (("put", "results", "file", "--metadata", "X Y=1"), "not a key for metadata"),
        (("get", "results", "there", "-o", "none/file"), "none/file cannot be written: No such file"),
    ],
)
def test_what_cannot_be_done_is_one_line(shell: Shell, words: tuple[str, ...], text: str) -> None:
    assert shell("put", "results", local("file", b"1"), "--name", "there")[0] == 0
    code, out, err = shell(*words)
    assert (code, out) == (1, "")
    assert err.startswith("aioanalysis: ")
    assert text in err
    assert err.count("\n") == 1
    assert [path.name for path in Path().iterdir()] == ["file"]


class Stream:
    """A blob of which one piece comes and then, where `whole`, others than were stored."""

    def __init__(self, stream: BlobStream, *, whole: bool) -> None:
        self.info = stream.info
        self._stream = stream
        self._whole = whole

    async def chunks(self) -> AsyncIterator[bytes]:
        async for piece in self._stream.chunks():
            yield bytes(len(piece))
            if not self._whole:
                raise Unavailable("the connection broke")


class Faulty:
    """Storage whose blobs are read as `Stream`s."""

    def __init__(self, storage: ExchangeStorage, *, whole: bool) -> None:
        self._storage = storage
        self._whole = whole

    @asynccontextmanager
    async def open(self, container: Container, name: str) -> AsyncIterator[Stream]:
        async with self._storage.open(container, name) as stream:
            yield Stream(stream, whole=self._whole)


@pytest.mark.parametrize(
    ("whole", "code", "text"),
    [(False, 3, "the connection broke"), (True, 1, "SHA-256 that it was stored with: nothing is kept")],
    ids=["broken", "damaged"],
)
def test_a_copy_that_fails_leaves_what_was_there(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, whole: bool, code: int, text: str
) -> None:
    assert shell("put", "results", local("file"))[0] == 0
    local("file", b"older")

    @asynccontextmanager
    async def faulty(settings: Settings) -> AsyncIterator[Faulty]:
        async with open_storage(settings) as storage:
            yield Faulty(storage, whole=whole)

    monkeypatch.setattr("aioanalysis.wiring.open_storage", faulty)
    ended, _, err = shell("get", "results", "file")
    assert (ended, text in err, err.count("\n")) == (code, True, 1)
    assert Path("file").read_bytes() == b"older"
    assert [path.name for path in Path().iterdir()] == ["file"]
