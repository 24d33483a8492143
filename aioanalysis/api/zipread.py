"""Reads one member out of a zip in storage, by ranges: the end, the central directory, and that member only.

The package may have any size (ZIP64). Nothing in it is believed that does not add up: a member's bytes are
counted and its CRC compared before the last of them is given out. Format: PKWARE APPNOTE 6.3.10.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from aioanalysis.aio import in_thread
from aioanalysis.domain.exchange import Container
from aioanalysis.errors import Damaged, Unavailable
from aioanalysis.interfaces import BlobInfo, PackageStorage
from aioanalysis.zipformat import (
    DEFLATED,
    ENCRYPTED,
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

COMMENT_MAX: Final = 0xFFFF
DIRECTORY_MAX_BYTES: Final = 64 * 1024 * 1024
TAIL_BYTES: Final = 64 * 1024
PIECE_BYTES: Final = 256 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """One member as the central directory describes it; `offset` is that of its local header."""

    name: str
    flags: int
    method: int
    crc: int
    compressed: int
    size: int
    offset: int


class ZipReader:
    """The zip `package` in results, of the version that was looked up."""

    def __init__(self, storage: PackageStorage, package: BlobInfo) -> None:
        self._storage = storage
        self._package = package

    async def members(self) -> Sequence[Member]:
        """All members, in the directory's order; raises `Damaged`, `Missing`, `Contested`."""
        start, size = await self._directory()
        if size > DIRECTORY_MAX_BYTES:
            raise Damaged(f"the directory of {self._package.name} is too large to be read")
        data = await self._read(start, start + size)
        return await in_thread(lambda: list(_entries(data)))

    async def find(self, name: str) -> Member | None:
        """The member of that very name; raises `Damaged` when there are two."""
        found = [member for member in await self.members() if member.name == name]
        if len(found) > 1:
            raise Damaged(f"{self._package.name} holds {name} twice")
        return found[0] if found else None

    @asynccontextmanager
    async def content(
        self, member: Member, *, start: int = 0, end: int | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The member's bytes from `start` up to `end`, inflated as they are asked for.

        Its last ones are given out only if all add up.
        """
        if member.flags & ENCRYPTED or member.method not in {STORED, DEFLATED}:
            raise Damaged(f"{member.name} is packed in a way that is not read here")
        header = await self._read(member.offset, member.offset + LOCAL.size)
        signature, *_, name_length, extra_length = _unpack(LOCAL, header, 0)
        if signature != LOCAL_MARK:
            raise Damaged(f"there is no header where {member.name} should begin")
        first = member.offset + LOCAL.size + name_length + extra_length
        last = first + member.compressed
        if last > self._package.size:
            raise Damaged(f"{member.name} goes beyond the end of its package")
        if first == last:
            yield _nothing(member)
            return
        async with self._storage.open(
            Container.RESULTS, self._package.name, start=first, end=last, etag=self._package.etag
        ) as stream:
            inflate = _inflated if member.method == DEFLATED else _stored
            async with (
                aclosing(inflate(stream.chunks())) as raw,
                aclosing(_checked(raw, member)) as pieces,
                aclosing(_part(pieces, start, member.size if end is None else end)) as part,
            ):
                yield part

    async def _directory(self) -> tuple[int, int]:
        """(offset, size) of the central directory."""
        size = self._package.size
        for length in (TAIL_BYTES, COMMENT_MAX + END.size + LOCATOR.size):
            tail = await self._read(max(0, size - length), size)
            at = _find_end(tail)
            if at is not None and (at >= LOCATOR.size or len(tail) == size):
                break
        else:
            raise Damaged(f"{self._package.name} is no zip, or its end is missing")
        _, _, _, _, count, length, start, _ = END.unpack_from(tail, at)
        if count == FULL16 or FULL32 in (length, start):
            start, length = await self._directory64(tail, at, (start, length))
        if start + length > size:
            raise Damaged(f"the directory of {self._package.name} goes beyond its end")
        return start, length

    async def _directory64(self, tail: bytes, at: int, plain: tuple[int, int]) -> tuple[int, int]:
        if at < LOCATOR.size:
            return plain
        signature, _, place, _ = LOCATOR.unpack_from(tail, at - LOCATOR.size)
        if signature != LOCATOR_MARK:
            return plain
        if place + END64.size > self._package.size:
            raise Damaged(f"the end of {self._package.name} points beyond it")
        record = await self._read(place, place + END64.size)
        signature, *_, length, start = END64.unpack(record)
        if signature != END64_MARK:
            raise Damaged(f"the ZIP64 end of {self._package.name} is not where it should be")
        return start, length

    async def _read(self, start: int, end: int) -> bytes:
        if start >= end:
            return b""
        if end > self._package.size:
            raise Damaged(f"{self._package.name} points beyond its end")
        data = bytearray()
        async with self._storage.open(
            Container.RESULTS, self._package.name, start=start, end=end, etag=self._package.etag
        ) as stream:
            async for chunk in stream.chunks():
                data += chunk
        if len(data) != end - start:
            raise Unavailable(f"{self._package.name} came incomplete")
        return bytes(data)


def _find_end(tail: bytes) -> int | None:
    """Where the end record begins: its comment must reach just to the end."""
    at = len(tail) - END.size
    while (at := tail.rfind(b"PK\x05\x06", 0, at + 4)) >= 0:
        if at + END.size + END.unpack_from(tail, at)[-1] == len(tail):
            return at
        at -= 1
    return None


def _entries(data: bytes) -> Iterator[Member]:
    at = 0
    while at < len(data):
        entry = _unpack(ENTRY, data, at)
        signature, _, _, flags, method, _, _, crc, compressed, size = entry[:10]
        name_length, extra_length, comment_length, *_, offset = entry[10:]
        if signature != ENTRY_MARK:
            raise Damaged("a zip's directory cannot be read")
        at += ENTRY.size
        name = data[at : at + name_length]
        extra = data[at + name_length : at + name_length + extra_length]
        at += name_length + extra_length + comment_length
        if at > len(data):
            raise Damaged("a zip's directory is cut off")
        if FULL32 in (size, compressed, offset):
            size, compressed, offset = _zip64(extra, size, compressed, offset)
        yield Member(
            name=name.decode("utf-8", "replace") if flags & UTF8 else name.decode("cp437"),
            flags=flags,
            method=method,
            crc=crc,
            compressed=compressed,
            size=size,
            offset=offset,
        )


def _zip64(extra: bytes, *fields: int) -> Iterator[int]:
    """The fields, those that are full taken from the ZIP64 extra field, in its fixed order."""
    wide = b""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == ZIP64_FIELD:
            wide = extra[at + 4 : at + 4 + length]
        at += 4 + length
    place = 0
    for field in fields:
        if field != FULL32:
            yield field
        elif place + 8 > len(wide):
            raise Damaged("a zip's directory lacks a size")
        else:
            yield struct.unpack_from("<Q", wide, place)[0]
            place += 8


def _unpack(form: struct.Struct, data: bytes, at: int) -> tuple[int, ...]:
    try:
        return form.unpack_from(data, at)
    except struct.error:
        raise Damaged("a zip's structure is cut off") from None


async def _inflated(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        async for chunk in chunks:
            rest = chunk
            while rest and not inflater.eof:
                piece = await in_thread(inflater.decompress, rest, PIECE_BYTES)
                rest = inflater.unconsumed_tail
                yield piece
        yield inflater.flush()
    except zlib.error as error:
        raise Damaged("a member of a zip cannot be inflated") from error
    if not inflater.eof:
        raise Damaged("a member of a zip ends early")


async def _stored(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    async for chunk in chunks:
        yield chunk


async def _part(pieces: AsyncIterator[bytes], start: int, end: int) -> AsyncGenerator[bytes, None]:
    """What of the pieces lies from `start` up to `end`."""
    at = 0
    async for piece in pieces:
        wanted = piece[max(0, start - at) : max(0, end - at)]
        at += len(piece)
        if wanted:
            yield wanted
        if at >= end:
            return


async def _checked(pieces: AsyncIterator[bytes], member: Member) -> AsyncGenerator[bytes, None]:
    """The pieces, one held back until the member's size and CRC are known to be right."""
    held, crc, count = b"", 0, 0
    async for piece in pieces:
        if not piece:
            continue
        crc = zlib.crc32(piece, crc)
        count += len(piece)
        if count > member.size:
            raise Damaged(f"{member.name} is longer than its package says")
        if held:
            yield held
        held = piece
    if count != member.size or crc != member.crc:
        raise Damaged(f"{member.name} is not what its package says")
    if held:
        yield held


async def _nothing(member: Member) -> AsyncGenerator[bytes, None]:
    async for piece in _checked(_stored(_no_chunks()), member):
        yield piece


async def _no_chunks() -> AsyncGenerator[bytes, None]:
    return
    yield b""
