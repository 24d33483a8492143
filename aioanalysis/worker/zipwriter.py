"""Writes a zip as a stream of bytes, deflated by isal at level 1.

A writer of our own, for its speed: those that stream (stream-zip, zipstream-ng) pass each piece through
chains of generators, zipfile takes no other compressor than zlib, and none has several pieces of a member
compressed at the same time. What a zip is made of is in `zipformat`; here is the order in which it goes out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from isal import isal_zlib

from aioanalysis.zipformat import DEFLATED, STORED, Member, end

LARGE_BYTES: Final = 3 << 30  # well below 4 GiB, with room for what does not shrink
RAW: Final = -15
LAST_BLOCK: Final = b"\x03\x00"  # empty, with the mark that none follows


@dataclass(frozen=True, slots=True)
class Piece:
    """Some of a member: `data` as they go into the zip, of `size` bytes; `crc` is that of all up to here."""

    data: bytes
    size: int
    crc: int


def deflate(data: bytes) -> bytes:
    """Blocks of a deflate stream that need nothing of what was before them; no thread waits for another."""
    compressor = isal_zlib.compressobj(level=1, wbits=RAW)
    return compressor.compress(data) + compressor.flush(isal_zlib.Z_SYNC_FLUSH)


class ZipWriter:
    """Each call gives bytes; together, in the order of the calls, they are the zip."""

    def __init__(self) -> None:
        self._offset = 0
        self._count = 0
        self._directory = bytearray()

    def deflated(
        self, name: str, at: datetime, mode: int, data: Iterable[Piece], *, at_most: int
    ) -> Iterator[bytes]:
        """A member of pieces that `deflate` has made, of `at_most` so many bytes."""
        member = Member(
            name=name,
            at=at,
            mode=mode,
            method=DEFLATED,
            streamed=True,
            large=at_most > LARGE_BYTES,
            unix_time=True,
            offset=self._offset,
        )
        yield self._sent(member.local())
        for piece in data:
            member.crc = piece.crc
            member.size += piece.size
            member.compressed += len(piece.data)
            yield self._sent(piece.data)
        member.compressed += len(LAST_BLOCK)
        yield self._sent(LAST_BLOCK + member.descriptor())
        self._enter(member)

    def stored(
        self, name: str, at: datetime, mode: int, data: Iterable[Piece], *, size: int, crc: int
    ) -> Iterator[bytes]:
        """A member as it is, of that size and CRC-32; raises `ValueError` if it is another by now."""
        member = Member(
            name=name,
            at=at,
            mode=mode,
            method=STORED,
            unix_time=True,
            crc=crc,
            size=size,
            compressed=size,
            offset=self._offset,
        )
        yield self._sent(member.local())
        left, found = size, 0
        for piece in data:
            left -= piece.size
            found = piece.crc
            yield self._sent(piece.data)
        if left or found != crc:
            raise ValueError(f"{name} has changed since its size and CRC-32 were told")
        self._enter(member)

    def end(self) -> bytes:
        """The directory and the end; nothing may follow."""
        return bytes(self._directory) + end(self._count, self._offset, len(self._directory))

    def _sent(self, data: bytes) -> bytes:
        self._offset += len(data)
        return data

    def _enter(self, member: Member) -> None:
        self._count += 1
        self._directory += member.entry()
