"""The zip writer, read back by others: zipfile, unzip, and by hand where they are too kind."""

from __future__ import annotations

import io
import struct
import subprocess
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aioanalysis.worker.zipwriter import Piece, ZipWriter, deflate
from tests.support.parts import require

AT = datetime(2026, 2, 3, 4, 5, 7, tzinfo=UTC)
FILE, PROGRAM = 0o100644, 0o100755
GIB = 1024**3


def plain(*pieces: bytes) -> Iterator[Piece]:
    crc = 0
    for piece in pieces:
        crc = zlib.crc32(piece, crc)
        yield Piece(piece, len(piece), crc)


def packed(*pieces: bytes) -> Iterator[Piece]:
    for piece in plain(*pieces):
        yield replace(piece, data=deflate(piece.data))


def test_members_of_any_kind_are_read_by_zipfile_and_unzip(tmp_path: Path) -> None:
    writer = ZipWriter()
    text, image = [b"a line\n" * 5_000, b"and another\n" * 9_000], b"\x89PNG" * 1_000
    data = b"".join(
        [
            *writer.deflated("naïve ☃.txt", AT, FILE, packed(*text), at_most=1 << 20),
            *writer.deflated("empty", AT, FILE, packed(), at_most=0),
            *writer.stored("plot.png", AT, FILE, plain(image), size=len(image), crc=zlib.crc32(image)),
            *writer.stored("none.png", AT, FILE, plain(), size=0, crc=0),
            *writer.deflated("large/run.sh", AT, PROGRAM, packed(*text), at_most=5 * GIB),
            writer.end(),
        ]
    )
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        assert package.testzip() is None
        assert {name: package.read(name) for name in package.namelist()} == {
            "naïve ☃.txt": b"".join(text),
            "empty": b"",
            "plot.png": image,
            "none.png": b"",
            "large/run.sh": b"".join(text),
        }
        infos = {info.filename: info for info in package.infolist()}
    assert {info.date_time for info in infos.values()} == {(2026, 2, 3, 4, 5, 6)}
    assert {name: info.external_attr >> 16 for name, info in infos.items()} == {
        **dict.fromkeys(infos, FILE),
        "large/run.sh": PROGRAM,
    }
    for info in infos.values():
        assert struct.unpack("<2HBl", info.extra) == (0x5455, 5, 1, AT.timestamp())
    (tmp_path / "out.zip").write_bytes(data)
    unzip = require("unzip")
    done = subprocess.run([unzip, "-t", tmp_path / "out.zip"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    subprocess.run([unzip, "-q", tmp_path / "out.zip", "-d", tmp_path / "out"], check=True)
    assert (tmp_path / "out" / "plot.png").stat().st_mtime == AT.timestamp()
    assert (tmp_path / "out" / "large" / "run.sh").stat().st_mode & 0o777 == 0o755


def test_the_same_members_make_the_same_bytes() -> None:
    def made() -> bytes:
        writer = ZipWriter()
        return b"".join([*writer.deflated("a", AT, FILE, packed(b"x" * 9_999), at_most=9_999), writer.end()])

    assert made() == made()


def test_more_members_than_a_plain_zip_can_count() -> None:
    writer = ZipWriter()
    pieces: list[bytes] = []
    for number in range(70_000):
        pieces += writer.stored(f"{number}.png", AT, FILE, (), size=0, crc=0)
    with zipfile.ZipFile(io.BytesIO(b"".join([*pieces, writer.end()]))) as package:
        assert len(package.namelist()) == 70_000
        assert package.read("69999.png") == b""


class Far(io.RawIOBase):
    """Zeros as far as `size`, but for `parts`: what zipfile reads of a zip of many GiB."""

    def __init__(self, parts: Iterable[tuple[int, bytes]], size: int) -> None:
        self.parts, self.size, self.at = list(parts), size, 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self.at = offset + (0, self.at, self.size)[whence]
        return self.at

    def tell(self) -> int:
        return self.at

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        count = max(min(len(buffer), self.size - self.at), 0)
        buffer[:count] = bytes(count)
        for start, data in self.parts:
            low, high = max(start, self.at), min(start + len(data), self.at + count)
            if low < high:
                buffer[low - self.at : high - self.at] = data[low - start : high - start]
        self.at += count
        return count


def test_members_beyond_4_gib_large_or_far_are_found() -> None:
    """The large ones are zeros that nobody keeps: stored with what their CRC would be."""
    writer, parts, at = ZipWriter(), [], 0
    zeros = bytes(64 << 20)

    def keep(pieces: Iterable[bytes]) -> None:
        nonlocal at
        for piece in pieces:
            if len(piece) != len(zeros):
                parts.append((at, piece))
            at += len(piece)

    size = 5 * GIB
    keep(
        writer.stored("huge.gz", AT, FILE, (Piece(zeros, len(zeros), 7) for _ in range(80)), size=size, crc=7)
    )
    keep(writer.deflated("far.txt", AT, FILE, packed(b"far" * 99), at_most=297))
    keep([writer.end()])
    with zipfile.ZipFile(io.BufferedReader(Far(parts, at))) as package:
        assert [(info.filename, info.file_size) for info in package.infolist()] == [
            ("huge.gz", size),
            ("far.txt", 297),
        ]
        assert package.getinfo("far.txt").header_offset > 4 * GIB
        assert package.read("far.txt") == b"far" * 99
        with package.open("huge.gz") as member:
            assert member.read(10) == bytes(10)


def test_a_deflated_member_of_more_than_4_gib_tells_its_size_behind_it(tmp_path: Path) -> None:
    writer = ZipWriter()
    piece, count = bytes(64 << 20), 66
    with (tmp_path / "out.zip").open("wb") as file:
        data = [Piece(deflate(piece), len(piece), 7)] * count  # a CRC of zeros is not what is tried here
        for part in (*writer.deflated("zeros", AT, FILE, data, at_most=count * len(piece)), writer.end()):
            file.write(part)
    with zipfile.ZipFile(tmp_path / "out.zip") as package:
        [info] = package.infolist()
    assert info.file_size == count * len(piece) > 4 * GIB
    raw = (tmp_path / "out.zip").read_bytes()
    _, _, _, _, _, _, crc, compressed, size, name, extra = struct.unpack_from("<L5H3L2H", raw)
    assert (crc, compressed, size) == (0, 0xFFFFFFFF, 0xFFFFFFFF)
    start = 30 + name + extra
    found = zlib.decompressobj(-15)
    inflated = len(found.decompress(raw[start : start + info.compress_size], 100 << 20))
    assert inflated == 100 << 20
    descriptor = struct.unpack_from("<2L2Q", raw, start + info.compress_size)
    assert descriptor == (0x08074B50, 7, info.compress_size, info.file_size)


@pytest.mark.parametrize("body", [b"other", b"longer than it was", b""])
def test_a_stored_member_that_is_not_as_told_ends_the_zip(body: bytes) -> None:
    writer = ZipWriter()
    with pytest.raises(ValueError, match=r"plot\.png has changed"):
        list(writer.stored("plot.png", AT, FILE, plain(body), size=5, crc=zlib.crc32(b"plots")))


@pytest.mark.parametrize("year", [1979, 2037, 2038, 2039, 2107])
def test_a_member_of_any_year_can_be_written(year: int) -> None:
    writer = ZipWriter()
    at = datetime(year, 12, 31, 23, 59, 58, tzinfo=UTC)
    data = b"".join([*writer.deflated("a", at, FILE, packed(b"text"), at_most=4), writer.end()])
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        assert package.read("a") == b"text"
        assert package.getinfo("a").date_time[0] == max(year, 1980)
