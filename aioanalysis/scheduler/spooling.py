"""Records on their way into a package: checked and selected into a spool file, sent as a tar meanwhile."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import tarfile
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import IO, Any, Final

from aioanalysis.aio import Tasks, finish, in_thread
from aioanalysis.domain.members import PARAMS_MEMBER, RECORDS_MEMBER
from aioanalysis.domain.outcomes import Reason
from aioanalysis.domain.records import LineReader, Selection, Truncated
from aioanalysis.errors import JobFailure
from aioanalysis.interfaces import Head, RecordStream
from aioanalysis.recordlines import line_reader

CHUNK: Final = 1024 * 1024
PIECE: Final = 4 * CHUNK  # a thread costs little a piece, and a piece little memory
SLICE: Final = CHUNK // 8  # what a line becomes stays in the processor's cache


class Taken:
    """The records taken, in `spool`, whence `pieces` gives them while more come."""

    def __init__(self, spool: IO[bytes]) -> None:
        self._spool = spool
        self._size = 0
        self._whole = asyncio.Event()
        self._grown = asyncio.Event()
        self.count = 0

    def take(self, records: Sequence[tuple[bytes, Mapping[str, Any]]]) -> None:
        """Add lines, each with its record; blocks."""
        self._add(b"".join([line for line, _ in records]), len(records))

    def take_all(self, reader: LineReader, data: bytes) -> int:
        """Add all lines that `reader` finds in `data`; how many they are. Blocks."""
        lines, count = reader.lines(data)
        self._add(lines, count)
        return count

    def _add(self, lines: bytes, count: int) -> None:
        self._spool.write(lines)
        self._spool.flush()
        self._size += len(lines)
        self.count += count

    def tell(self, *, whole: bool = False) -> None:
        """Wake who follows; with `whole` nothing more will be taken."""
        if whole:
            self._whole.set()
        self._grown.set()

    async def wait_whole(self) -> None:
        """Return when nothing more will be taken."""
        await self._whole.wait()

    async def pieces(self) -> AsyncIterator[bytes]:
        """All bytes in order; waits for more until they are whole."""
        at = 0
        while True:
            self._grown.clear()
            if size := min(self._size - at, PIECE):
                yield await finish(in_thread(self.read, at, size), name="read spool")
                at += size
            elif self._whole.is_set():
                return
            else:
                await self._grown.wait()

    def read(self, start: int, size: int) -> bytes:
        """Up to `size` bytes from `start`, wherever the file stands; blocks."""
        return os.pread(self._spool.fileno(), size, start)

    @property
    def size(self) -> int:
        """The bytes of all records so far."""
        return self._size


async def take_records(stream: RecordStream, selection: Selection | None, taken: Taken) -> None:
    """Give `taken` all selected records, in threads, chunk by chunk.

    Raises `Malformed`, `Truncated` (also when fewer came than were announced), `Unavailable`, and
    `JobFailure` when none is left.
    """
    reader = line_reader()

    def keep(chunk: bytes | None) -> int:
        if chunk is None:
            return put(list(reader.close()))
        slices = (chunk[at : at + SLICE] for at in range(0, len(chunk), SLICE))
        if selection is None:
            return sum(taken.take_all(reader, data) for data in slices)
        return sum(put(list(reader.feed(data))) for data in slices)

    def put(came: list[tuple[bytes, dict[str, Any]]]) -> int:
        taken.take(came if selection is None else [pair for pair in came if selection.takes(pair[1])])
        return len(came)

    read = 0
    async for chunk in stream.chunks():
        read += await finish(in_thread(keep, chunk), name="take records")
        taken.tell()
    read += await finish(in_thread(keep, None), name="take records")
    if stream.announced is not None and read < stream.announced:
        raise Truncated(f"the record store announced {stream.announced} records and sent {read}")
    if taken.count == 0:
        selected = f" of {read} after the selection" if selection else ""
        raise JobFailure(Reason.RECORDS, f"there are no records{selected}")
    taken.tell(whole=True)


class Tar:
    """The package: `<stem>/params.json`, then `<stem>/records.jsonl`, sent while the records come.

    `head` is all that stands before the records: their header says how many bytes they have. So the SHA-256
    can only be begun when they are whole; they are read once more for it, while the last are still sent.
    """

    def __init__(self, stem: str, params: Mapping[str, Any], taken: Taken, at: datetime) -> None:
        self._stem = stem
        self._params = json.dumps(params, ensure_ascii=False, allow_nan=False).encode()
        self._taken = taken
        self._mtime = int(at.timestamp())
        self._sha256 = ""
        self.head = Head(size=len(self._front()), make=self._front)

    @property
    def sha256(self) -> str:
        """Of the whole tar, once `body` has ended."""
        return self._sha256

    async def body(self) -> AsyncGenerator[bytes, None]:
        """The records, and what closes the tar."""
        async with Tasks() as tasks:
            hashing = tasks.start(self._hash(), name="hash package")
            async for piece in self._taken.pieces():
                yield piece
            yield self._end()
            await hashing

    async def _hash(self) -> None:
        await self._taken.wait_whole()
        sha256 = hashlib.sha256(self._front())

        def update(start: int) -> None:
            for at in range(start, start + PIECE, SLICE):
                sha256.update(self._taken.read(at, SLICE))

        for start in range(0, self._taken.size, PIECE):
            await finish(in_thread(update, start), name="hash package")
        sha256.update(self._end())
        self._sha256 = sha256.hexdigest()

    def _end(self) -> bytes:
        return _padding(self._taken.size) + bytes(2 * tarfile.BLOCKSIZE)

    def _front(self) -> bytes:
        params = self._header(PARAMS_MEMBER, len(self._params)) + self._params + _padding(len(self._params))
        return params + self._header(RECORDS_MEMBER, self._taken.size)

    def _header(self, member: str, size: int) -> bytes:
        info = tarfile.TarInfo(f"{self._stem}/{member}")
        info.size = size
        info.mtime = self._mtime
        return info.tobuf(format=tarfile.GNU_FORMAT)  # one block, whatever the size


def _padding(size: int) -> bytes:
    return bytes(-size % tarfile.BLOCKSIZE)
