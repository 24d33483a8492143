"""A zip of files that are stored elsewhere, laid out before a byte of them is read.

Members are stored as they are, so that sizes and CRCs known beforehand fix every byte: the bundle has a
length, and any part of it can be made without the rest.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate

from aioanalysis.zipformat import Member, end


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
        self._pieces: list[Piece] = []
        directory, offset = bytearray(), 0
        for index, entry in enumerate(entries):
            member = Member(
                name=entry.name,
                at=at,
                crc=entry.crc,
                size=entry.size,
                compressed=entry.size,
                offset=offset,
            )
            header = member.local()
            directory += member.entry()
            self._pieces += [Piece(data=header), Piece(entry=index, end=entry.size)]
            offset += len(header) + entry.size
        self._pieces.append(Piece(data=bytes(directory) + end(len(entries), offset, len(directory))))
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


def _length(piece: Piece) -> int:
    return len(piece.data) if piece.entry is None else piece.end - piece.start
