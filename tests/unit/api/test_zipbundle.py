"""The layout of a zip of stored files: read back by zipfile and unzip, in parts, and beyond 4 GiB."""

from __future__ import annotations

import io
import random
import shutil
import subprocess
import zipfile
import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aioanalysis.api.zipbundle import Bundle, Entry

AT = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
GIB = 1024**3


def bundle_of(bodies: dict[str, bytes]) -> Bundle:
    entries = [Entry(name=name, size=len(body), crc=zlib.crc32(body)) for name, body in bodies.items()]
    return Bundle(entries, AT)


def part(bundle: Bundle, bodies: Sequence[bytes], start: int, end: int) -> bytes:
    return b"".join(
        piece.data if piece.entry is None else bodies[piece.entry][piece.start : piece.end]
        for piece in bundle.pieces(start, end)
    )


BODIES = {f"noop.00000000-{n}.zip": random.Random(n).randbytes(n * 37 % 101) for n in range(1, 30)}


def test_a_bundle_is_read_by_zipfile_and_unzip(tmp_path: Path) -> None:
    bundle = bundle_of(BODIES | {"empty": b""})
    whole = part(bundle, [*BODIES.values(), b""], 0, bundle.size)
    assert len(whole) == bundle.size
    with zipfile.ZipFile(io.BytesIO(whole)) as package:
        assert package.testzip() is None
        assert {name: package.read(name) for name in package.namelist()} == BODIES | {"empty": b""}
        assert {info.date_time for info in package.infolist()} == {(2026, 2, 3, 4, 5, 6)}
    if shutil.which("unzip"):
        (tmp_path / "whole.zip").write_bytes(whole)
        subprocess.run(["unzip", "-tqq", tmp_path / "whole.zip"], check=True)


def test_any_part_is_that_part_of_the_whole() -> None:
    bundle, bodies = bundle_of(BODIES), list(BODIES.values())
    whole = part(bundle, bodies, 0, bundle.size)
    draw = random.Random(7)
    for _ in range(500):
        start = draw.randrange(bundle.size)
        end = draw.randint(start, bundle.size)
        assert part(bundle, bodies, start, end) == whole[start:end]
    assert list(bundle.pieces(5, 5)) == []


class Virtual(io.RawIOBase):
    """A bundle of members that are zeros, as a file of any size."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.at = 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.at

    def seek(self, offset: int, whence: int = 0) -> int:
        self.at = offset + (0, self.at, self.bundle.size)[whence]
        return self.at

    def read(self, size: int = -1) -> bytes:
        end = self.bundle.size if size < 0 else min(self.at + size, self.bundle.size)
        pieces = self.bundle.pieces(self.at, end)
        self.at = max(self.at, end)
        return b"".join(piece.data or bytes(piece.end - piece.start) for piece in pieces)


@pytest.mark.parametrize("sizes", [[5 * GIB, 7], [3 * GIB, 3 * GIB, 7], [4 * GIB - 1, 7], [7] * 70_000])
def test_sizes_offsets_and_counts_that_no_plain_field_holds_are_zip64(sizes: list[int]) -> None:
    crc = zlib.crc32(bytes(7))
    bundle = Bundle([Entry(name=f"{n}", size=size, crc=crc) for n, size in enumerate(sizes)], AT)
    with zipfile.ZipFile(Virtual(bundle)) as package:
        assert [info.file_size for info in package.infolist()] == sizes
        assert package.read(str(len(sizes) - 1)) == bytes(7)
        with package.open("0") as member:
            assert member.read(3) == bytes(3)
