"""Records become a package while they come, and no package at all when they do not come whole."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import tarfile
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from aioanalysis.domain.exchange import Container
from aioanalysis.domain.frames import Part
from aioanalysis.domain.job import Split
from aioanalysis.domain.records import Malformed, Selection, Truncated
from aioanalysis.errors import AnalysisError, JobFailure, Unavailable
from aioanalysis.scheduler.snapshots import Cutter
from aioanalysis.scheduler.spooling import Taken, Tar, take_records
from aioanalysis.storage.directory import DirectoryStorage
from tests.support.waiting import eventually

AT = datetime(2026, 1, 2, tzinfo=UTC)
LINES = [
    json.dumps({"processid": f"P-{number}", "nuc": "A" * 600}).encode() + b"\n" for number in range(5_000)
]


class Records:
    """`RecordStream` of `chunks`; then raises `error`, if any. Waits for `gate` before the last chunk."""

    def __init__(
        self, *chunks: bytes, announced: int | None = None, error: AnalysisError | None = None
    ) -> None:
        self.announced = announced
        self.gate = asyncio.Event()
        self.gate.set()
        self._chunks, self._error = chunks, error

    async def chunks(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks[:-1]:
            yield chunk
        await self.gate.wait()
        yield self._chunks[-1]
        if self._error is not None:
            raise self._error


class Package:
    """One on its way into a directory; `spool` holds its records, `storage` will hold it."""

    def __init__(self, storage: DirectoryStorage, taken: Taken) -> None:
        self.storage, self.taken = storage, taken
        self.tar = Tar("noop.0123abcd", {"title": "naïve"}, taken, AT)
        self.passed = 0

    async def make(self, records: Records, selection: Selection | None = None) -> bytes:
        """Take and send at the same time; the package as it then lies in storage."""
        async with asyncio.TaskGroup() as group:
            group.create_task(take_records(records, selection, self.taken))
            await self.storage.write(Container.QUEUE, "a.tar", self._body(), head=self.tar.head)
        async with self.storage.open(Container.QUEUE, "a.tar") as stream:
            return b"".join([chunk async for chunk in stream.chunks()])

    async def _body(self) -> AsyncIterator[bytes]:
        async for piece in self.tar.body():
            self.passed += len(piece)
            yield piece

    async def fails(self, records: Records, selection: Selection | None = None) -> BaseException:
        """The one error of making it; nothing is in storage then."""
        with pytest.raises(ExceptionGroup) as caught:
            await self.make(records, selection)
        assert [name async for name in self.storage.names(Container.QUEUE)] == []
        [error] = caught.value.exceptions
        return error


@pytest.fixture
async def package(tmp_path: Path) -> AsyncIterator[Package]:
    storage = DirectoryStorage(tmp_path / "storage")
    await storage.prepare()
    with TemporaryFile(dir=tmp_path) as spool:
        yield Package(storage, Taken(spool))


def members(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        found = {}
        for member in tar:
            file = tar.extractfile(member)
            assert file is not None
            assert member.mtime == AT.timestamp()
            found[member.name] = file.read()
        return found


@pytest.mark.parametrize("count", [1, 700, 5_000])
async def test_a_package_holds_params_and_records_and_knows_its_digest(package: Package, count: int) -> None:
    text = b"".join(LINES[:count])
    data = await package.make(Records(text[:1000], text[1000:], announced=count))
    found = members(data)
    assert found.pop("noop.0123abcd/records.jsonl") == text
    assert json.loads(found.pop("noop.0123abcd/params.json")) == {"title": "naïve"}
    assert not found
    assert package.tar.sha256 == hashlib.sha256(data).hexdigest()
    assert package.taken.count == count


async def test_records_are_sent_while_more_are_coming(package: Package) -> None:
    records = Records(b"".join(LINES[:4_000]), b"".join(LINES[4_000:]))
    records.gate.clear()
    making = asyncio.create_task(package.make(records))
    await eventually(lambda: package.passed == len(b"".join(LINES[:4_000])), within=10)
    assert not making.done()
    records.gate.set()
    assert members(await making)["noop.0123abcd/records.jsonl"] == b"".join(LINES)


async def test_what_has_been_taken_whole_is_hashed_while_it_is_still_being_sent(package: Package) -> None:
    taken, tar = package.taken, package.tar
    await take_records(Records(*LINES), None, taken)
    async with aclosing(tar.body()) as body:
        first = await anext(body)
        await eventually(lambda: tar.sha256, within=10)
        data = b"".join([tar.head.make(), first, *[piece async for piece in body]])
    assert tar.sha256 == hashlib.sha256(data).hexdigest()


async def test_a_selection_packages_only_what_it_takes(package: Package) -> None:
    selection = Selection(mode="include", ids=frozenset({"P-7", "P-4000"}))
    data = await package.make(Records(*LINES), selection)
    assert members(data)["noop.0123abcd/records.jsonl"] == LINES[7] + LINES[4000]
    assert package.taken.count == 2


@pytest.mark.parametrize(
    ("records", "kind", "text"),
    [
        (lambda: Records(*LINES, error=Unavailable("it broke")), Unavailable, "it broke"),
        (lambda: Records(*LINES, b"<html>\n"), Malformed, "line 5001: not JSON"),
        (lambda: Records(*LINES, b'{"a'), Truncated, "the last line, 5001, is incomplete"),
        (lambda: Records(*LINES, announced=5_001), Truncated, "announced 5001 records and sent 5000"),
        (lambda: Records(b"\n"), JobFailure, "there are no records"),
    ],
)
async def test_records_that_do_not_come_whole_are_no_package(
    package: Package, records: Callable[[], Records], kind: type[Exception], text: str
) -> None:
    error = await package.fails(records())
    assert isinstance(error, kind)
    assert text in str(error)


async def test_no_record_left_after_the_selection_is_said_so(package: Package) -> None:
    error = await package.fails(Records(*LINES), Selection(mode="include", ids=frozenset()))
    assert str(error) == "there are no records of 5000 after the selection"


async def test_what_is_cancelled_leaves_no_package(package: Package) -> None:
    records = Records(*LINES)
    records.gate.clear()
    making = asyncio.create_task(package.make(records))
    await eventually(lambda: package.passed, within=10)
    making.cancel()
    await asyncio.wait({making})
    assert making.cancelled()
    assert [name async for name in package.storage.names(Container.QUEUE)] == []


def test_the_head_has_one_size_whatever_comes_after_it(tmp_path: Path) -> None:
    class Huge(Taken):
        size = 0

    with TemporaryFile(dir=tmp_path) as spool:
        taken = Huge(spool)
        tar = Tar("noop.0123abcd-1000", {}, taken, AT)
        for taken.size in (0, 1, 8**11 - 1, 8**11, 1 << 40):
            head = tar.head.make()
            assert len(head) == tar.head.size
            assert tarfile.TarInfo.frombuf(head[-512:], "utf-8", "strict").size == taken.size


async def test_a_split_knows_where_the_lines_of_each_part_lie(tmp_path: Path) -> None:
    lines = [
        json.dumps({"genus": name}).encode() + b"\n" for name in ("Apis", "Bombus", "Apis", "", "Bombus")
    ]
    with TemporaryFile(dir=tmp_path) as spool, TemporaryFile(dir=tmp_path) as target:
        by_genus = Cutter(spool, Split(by="genus"))
        await take_records(Records(*lines), None, by_genus)
        parts: list[Part] = by_genus.cut(target)
    assert [(part.value, part.records) for part in parts] == [("Apis", 2), ("Bombus", 2), (None, 1)]
    with TemporaryFile(dir=tmp_path) as spool, TemporaryFile(dir=tmp_path) as target:
        by_two = Cutter(spool, Split(records=2))
        await take_records(Records(b"".join(lines[:3]), *lines[3:]), None, by_two)
        parts = by_two.cut(target)
    assert [part.records for part in parts] == [2, 2, 1]
