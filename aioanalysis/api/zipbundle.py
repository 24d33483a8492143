"""A zip of files that are stored elsewhere, laid out before a byte of them is read.

Members are stored as they are, so that sizes and CRCs known beforehand fix every byte: the bundle has a
length, and any part of it can be made without the rest. ZIP64 where needed. Format: PKWARE APPNOTE 6.3.10.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import Final

from aioanalysis.api.zipread import (
    END,
    END64,
    END64_MARK,
    ENTRY,
    ENTRY_MARK,
    FULL16,
    FULL32,
    LOCAL,
    LOCAL_MARK,
    LOCATOR,
    LOCATOR_MARK,
    STORED,
    UTF8,
    ZIP64_FIELD,
)

END_MARK: Final = 0x06054B50
PLAIN_VERSION: Final = 20
ZIP64_VERSION: Final = 45
MADE_BY: Final = (3 << 8) | ZIP64_VERSION  # Unix, for the permissions
PERMISSIONS: Final = 0o100644 << 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A member to be: its name in the zip, and the size and CRC-32 of what is stored elsewhere."""

    name: str
    size: int
    crc: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """Bytes `start` up to `end` of the entry of that index; or `data`, the zip's own."""

    data: bytes = b""
    entry: int | None = None
    start: int = 0
    end: int = 0


class Bundle:
    """The layout of a zip of `entries`, all of them of the time `at`."""

    def __init__(self, entries: Sequence[Entry], at: datetime) -> None:
        self._stamp = _dos_time(at)
        self._pieces: list[Piece] = []
        directory, offset = bytearray(), 0
        for index, entry in enumerate(entries):
            header = self._local(entry)
            directory += self._central(entry, offset)
            self._pieces += [Piece(data=header), Piece(entry=index, end=entry.size)]
            offset += len(header) + entry.size
        end = _end(len(entries), offset, len(directory))
        self._pieces.append(Piece(data=bytes(directory) + end))
        self._ends = list(accumulate(_length(piece) for piece in self._pieces))

    @property
    def size(self) -> int:
        return self._ends[-1]

    def pieces(self, start: int, end: int) -> Iterator[Piece]:
        """What makes bytes `start` up to `end` of the zip, in order."""
        at = bisect_right(self._ends, start)
        while start < end:
            piece = self._pieces[at]
            begin = self._ends[at] - _length(piece)
            low, high = start - begin, min(end, self._ends[at]) - begin
            if low < high:
                if piece.entry is None:
                    yield Piece(data=piece.data[low:high])
                else:
                    yield Piece(entry=piece.entry, start=low, end=high)
            start = self._ends[at]
            at += 1

    def _local(self, entry: Entry) -> bytes:
        name, large = entry.name.encode(), entry.size >= FULL32
        extra = struct.pack("<2H2Q", ZIP64_FIELD, 16, entry.size, entry.size) if large else b""
        size = FULL32 if large else entry.size
        version = ZIP64_VERSION if large else PLAIN_VERSION
        return (
            LOCAL.pack(
                LOCAL_MARK, version, UTF8, STORED, *self._stamp, entry.crc, size, size, len(name), len(extra)
            )
            + name
            + extra
        )

    def _central(self, entry: Entry, offset: int) -> bytes:
        name, size, wide = entry.name.encode(), entry.size, b""
        if size >= FULL32:
            wide, size = struct.pack("<2Q", size, size), FULL32
        if offset >= FULL32:
            wide, offset = wide + struct.pack("<Q", offset), FULL32
        extra = struct.pack("<2H", ZIP64_FIELD, len(wide)) + wide if wide else b""
        version = ZIP64_VERSION if wide else PLAIN_VERSION
        sizes = (entry.crc, size, size, len(name), len(extra), 0, 0, 0, PERMISSIONS, offset)
        head = ENTRY.pack(ENTRY_MARK, MADE_BY, version, UTF8, STORED, *self._stamp, *sizes)
        return head + name + extra


def _end(count: int, start: int, length: int) -> bytes:
    """The end records, those of ZIP64 only where a field would be full."""
    wide = b""
    if count >= FULL16 or max(start, length) >= FULL32:
        fields = (MADE_BY, ZIP64_VERSION, 0, 0, count, count, length, start)
        wide = END64.pack(END64_MARK, END64.size - 12, *fields)
        wide += LOCATOR.pack(LOCATOR_MARK, 0, start + length, 1)
        count, length, start = min(count, FULL16), min(length, FULL32), min(start, FULL32)
    return wide + END.pack(END_MARK, 0, 0, count, count, length, start, 0)


def _length(piece: Piece) -> int:
    return len(piece.data) if piece.entry is None else piece.end - piece.start


def _dos_time(at: datetime) -> tuple[int, int]:
    """(time, date), to two seconds; the format knows no zone and nothing before 1980."""
    date = (max(at.year, 1980) - 1980) << 9 | at.month << 5 | at.day
    return at.hour << 11 | at.minute << 5 | at.second // 2, date
