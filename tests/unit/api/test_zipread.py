"""One member out of a zip, by ranges."""

from __future__ import annotations

import io
import random
import struct
import zipfile
import zlib
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from aioanalysis.api.zipread import Member, ZipReader
from aioanalysis.domain.exchange import Container
from aioanalysis.errors import Damaged, Unavailable
from aioanalysis.interfaces import BlobInfo, PackageStorage
from aioanalysis.worker.zipwriter import Piece, ZipWriter, deflate

REPORT = b"<html>" + b"a report, " * 40_000 + b"</html>"


class Ranges:
    """A blob of any size that is zeros but for `parts`, read as storage reads it; counts what is read."""

    def __init__(self, parts: Mapping[int, bytes], size: int | None = None, *, chunk: int = 50_000) -> None:
        self.parts = parts
        self.info = BlobInfo(
            name="noop.00000000.zip",
            size=max(at + len(data) for at, data in parts.items()) if size is None else size,
            etag="e",
            modified_at=datetime.now(UTC),
        )
        self.chunk = chunk
        self.read = 0

    def bytes_of(self, start: int, end: int) -> bytes:
        found = bytearray(end - start)
        for at, data in self.parts.items():
            low, high = max(start, at), min(end, at + len(data))
            if low < high:
                found[low - start : high - start] = data[low - at : high - at]
        return bytes(found)

    @asynccontextmanager
    async def open(
        self,
        container: Container,
        name: str,
        *,
        start: int = 0,
        end: int | None = None,
        etag: str | None = None,
    ) -> AsyncIterator[Any]:
        assert (container, name, etag) == (Container.RESULTS, self.info.name, "e")
        assert end is not None
        assert 0 <= start < end <= self.info.size
        blob = self

        class Stream:
            info = blob.info

            async def chunks(self) -> AsyncIterator[bytes]:
                for at in range(start, end, blob.chunk):
                    piece = blob.bytes_of(at, min(at + blob.chunk, end))
                    blob.read += len(piece)
                    yield piece

        yield Stream()

    @property
    def reader(self) -> ZipReader:
        return ZipReader(cast(PackageStorage, self), self.info)


def plain(
    members: Iterable[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED, comment: bytes = b""
) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as package:
        for name, data in members:
            package.writestr(name, data)
        package.comment = comment
    return out.getvalue()


async def read(blob: Ranges, name: str = "analysis_report.html") -> bytes:
    member = await blob.reader.find(name)
    assert member is not None
    async with blob.reader.content(member) as pieces:
        data = b"".join([piece async for piece in pieces])
    assert len(data) == member.size
    return data


async def drain(blob: Ranges, member: Member, into: bytearray) -> None:
    async with blob.reader.content(member) as pieces:
        async for piece in pieces:
            into += piece


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("chunk", [1000, 1_000_000])
@pytest.mark.parametrize("comment", [b"", b"a comment", b"PK\x05\x06" * 1000, b"x" * 65_535])
async def test_a_member_is_read_as_it_was_written(method: int, chunk: int, comment: bytes) -> None:
    data = plain([("a.txt", b"a" * 999), ("analysis_report.html", REPORT), ("b.txt", b"b")], method, comment)
    assert await read(Ranges({0: data}, chunk=chunk)) == REPORT


async def test_an_empty_member_is_read() -> None:
    assert await read(Ranges({0: plain([("analysis_report.html", b"")])})) == b""
    stored = plain([("analysis_report.html", b"")], zipfile.ZIP_STORED)
    assert await read(Ranges({0: stored})) == b""


@pytest.mark.parametrize("at_most", [len(REPORT), 5 * 1024**3])
async def test_zips_of_the_worker_s_writer_are_read(at_most: int) -> None:
    writer, at, crc = ZipWriter(), datetime(2026, 1, 1, tzinfo=UTC), zlib.crc32(REPORT)
    packed = [Piece(deflate(REPORT), len(REPORT), crc)]
    written = [
        *writer.deflated("x/y.txt", at, 0o100600, packed, at_most=at_most),
        *writer.deflated("analysis_report.html", at, 0o100600, packed, at_most=at_most),
        *writer.stored(
            "plot.png", at, 0o100600, [Piece(REPORT, len(REPORT), crc)], size=len(REPORT), crc=crc
        ),
        writer.end(),
    ]
    for name in ("analysis_report.html", "plot.png"):
        assert await read(Ranges({0: b"".join(written)}), name) == REPORT


async def test_zips_with_forced_zip64_fields_are_read() -> None:
    out = io.BytesIO()
    with (
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as package,
        package.open("analysis_report.html", "w", force_zip64=True) as member,
    ):
        member.write(REPORT)
    assert await read(Ranges({0: out.getvalue()})) == REPORT


def beyond_4_gib(names: int = 1) -> Ranges:
    """A zip whose one real member lies behind 5 GiB of another."""
    gap = 5 * 1024**3
    packed = zlib.compressobj(wbits=-15)
    body = packed.compress(REPORT) + packed.flush()
    name, crc = b"analysis_report.html", zlib.crc32(REPORT)
    local = (
        struct.pack("<L5H3L2H", 0x04034B50, 45, 0, 8, 0, 0, crc, len(body), len(REPORT), len(name), 0) + name
    )
    directory = b""
    for other in [b"data/%d.bin" % number for number in range(names)]:
        extra = struct.pack("<2H2Q", 1, 16, gap, gap)
        directory += struct.pack(
            "<L6H3L5H2L",
            *(
                0x02014B50,
                45,
                45,
                0,
                0,
                0,
                0,
                0,
                0xFFFFFFFF,
                0xFFFFFFFF,
                len(other),
                len(extra),
                0,
                0,
                0,
                0,
                0,
            ),
        )
        directory += other + extra
    extra = struct.pack("<2HQ", 1, 8, gap)
    directory += struct.pack(
        "<L6H3L5H2L",
        *(0x02014B50, 45, 45, 0, 8, 0, 0, crc, len(body), len(REPORT), len(name), len(extra), 0, 0, 0, 0),
        0xFFFFFFFF,
    )
    directory += name + extra
    at = gap + len(local) + len(body)
    count = names + 1
    end64 = struct.pack("<LQ2H2L4Q", 0x06064B50, 44, 45, 45, 0, 0, count, count, len(directory), at)
    locator = struct.pack("<2LQL", 0x07064B50, 0, at + len(directory), 1)
    end = struct.pack("<L4H2LH", 0x06054B50, 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return Ranges({gap: local + body + directory + end64 + locator + end})


async def test_a_member_beyond_4_gib_is_read_by_few_bytes() -> None:
    blob = beyond_4_gib()
    assert await read(blob) == REPORT
    assert blob.read < 200_000


async def test_a_directory_of_many_members_costs_its_own_size_only() -> None:
    blob = beyond_4_gib(names=10_000)
    assert await read(blob) == REPORT
    assert blob.read < 2 * 1024 * 1024


async def test_a_member_that_is_not_there_is_none() -> None:
    blob = Ranges({0: plain([("a.txt", b"a")])})
    assert await blob.reader.find("analysis_report.html") is None
    assert [member.name for member in await blob.reader.members()] == ["a.txt"]


async def test_a_name_that_is_there_twice_is_damage() -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        data = plain([("analysis_report.html", b"one"), ("analysis_report.html", b"two")])
    with pytest.raises(Damaged, match="twice"):
        await Ranges({0: data}).reader.find("analysis_report.html")


@pytest.mark.parametrize(
    "data",
    [
        b"PK",
        b"no zip at all" * 1000,
        plain([("analysis_report.html", REPORT)])[:-1],
        b"PK\x05\x06" + b"\0" * 17,
    ],
)
async def test_what_is_no_zip_is_damage(data: bytes) -> None:
    with pytest.raises(Damaged):
        await Ranges({0: data}).reader.members()


async def test_a_bomb_that_lies_about_its_size_ends_at_its_word() -> None:
    data = bytearray(plain([("analysis_report.html", b"\0" * 50_000_000)]))
    entry = data.rindex(b"PK\x01\x02")
    struct.pack_into("<L", data, entry + 24, 1000)
    blob = Ranges({0: bytes(data)}, chunk=1000)
    member = await blob.reader.find("analysis_report.html")
    assert member is not None
    assert member.size == 1000
    with pytest.raises(Damaged, match="longer"):
        async with blob.reader.content(member) as pieces:
            assert sum([len(piece) async for piece in pieces]) <= 1000


async def test_the_last_bytes_of_a_changed_member_are_not_given_out() -> None:
    data = bytearray(plain([("analysis_report.html", REPORT)], zipfile.ZIP_STORED))
    data[1000] ^= 1
    blob = Ranges({0: bytes(data)})
    member = await blob.reader.find("analysis_report.html")
    assert member is not None
    received = bytearray()
    with pytest.raises(Damaged):
        await drain(blob, member, received)
    assert len(received) < member.size


@pytest.mark.parametrize(("field", "value"), [(8, 1), (10, 12), (42, 0x7FFFFFFF), (20, 0x7FFFFFFF)])
async def test_members_that_cannot_be_read_are_damage(field: int, value: int) -> None:
    data = bytearray(plain([("analysis_report.html", REPORT)]))
    struct.pack_into("<H" if field < 20 else "<L", data, data.rindex(b"PK\x01\x02") + field, value)
    with pytest.raises(Damaged):
        await read(Ranges({0: bytes(data)}))


async def test_random_damage_is_found_and_never_another_error() -> None:
    whole = plain([("a.txt", b"a" * 500), ("analysis_report.html", REPORT[:5000])])
    chance = random.Random(7)
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            member = await Ranges({0: bytes(data)}).reader.find("analysis_report.html")
            if member is not None:
                async with Ranges({0: bytes(data)}).reader.content(member) as pieces:
                    assert b"".join([piece async for piece in pieces]) == REPORT[:5000]
        except (Damaged, Unavailable):
            continue
