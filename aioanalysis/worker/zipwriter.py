"""Writes a zip as a stream of bytes, deflated by isal at level 1.

A writer of our own, for its speed: those that stream (stream-zip, zipstream-ng) pass each piece through
chains of generators or know zlib only, zipfile takes no other compressor. What a zip is made of is in
`zipformat`; here is only the order in which it goes out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from isal import isal_zlib

from aioanalysis.zipformat import DEFLATED, STORED, Member, end

LARGE_BYTES: Final = 3 << 30  # well below 4 GiB, with room for what does not shrink
RAW: Final = -15


class ZipWriter:
    """Each call gives bytes; together, in the order of the calls, they are the zip.

    A member's data come in pieces, each with the CRC-32 of all up to it.
    """

    def __init__(self) -> None:
        self._offset = 0
        self._count = 0
        self._directory = bytearray()

    def deflated(
        self, name: str, at: datetime, mode: int, data: Iterable[tuple[bytes, int]], *, at_most: int
    ) -> Iterator[bytes]:
        """A member of `at_most` so many bytes."""
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
        compressor = isal_zlib.compressobj(level=1, wbits=RAW)
        for piece, member.crc in data:
            member.size += len(piece)
            if packed := compressor.compress(piece):
                member.compressed += len(packed)
                yield self._sent(packed)
        packed = compressor.flush()
        member.compressed += len(packed)
        yield self._sent(packed + member.descriptor())
        self._enter(member)

    def stored(
        self, name: str, at: datetime, mode: int, data: Iterable[tuple[bytes, int]], *, size: int, crc: int
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
        start, crc_so_far = self._offset, 0
        for piece, crc_so_far in data:  # noqa: B007
            yield self._sent(piece)
        if (self._offset - start, crc_so_far) != (size, crc):
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
