"""Records on their way into a package: checked and selected into a spool file, then sent as a tar."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import IO, Any, Final

from aioanalysis.aio import in_thread
from aioanalysis.domain.exchange import PARAMS_MEMBER, RECORDS_MEMBER
from aioanalysis.domain.outcomes import Reason
from aioanalysis.domain.records import LineReader, Selection, Truncated
from aioanalysis.errors import JobFailure
from aioanalysis.interfaces import RecordStream

CHUNK: Final = 1024 * 1024


class Taken:
    """What is done with each record line that is taken; `spool` receives it."""

    def __init__(self, spool: IO[bytes]) -> None:
        self._spool = spool
        self.count = 0

    def take(self, line: bytes, record: Mapping[str, Any]) -> None:
        self._spool.write(line)
        self.count += 1


async def take_records(stream: RecordStream, selection: Selection | None, taken: Taken) -> None:
    """Give `taken` all selected records, in threads, chunk by chunk.

    Raises `Malformed`, `Truncated` (also when fewer came than were announced), `Unavailable`, and
    `JobFailure` when none is left.
    """
    reader = LineReader()
    read = 0

    def keep(chunk: bytes | None) -> int:
        came = 0
        for line, record in reader.close() if chunk is None else reader.feed(chunk):
            came += 1
            if selection is None or selection.takes(record):
                taken.take(line, record)
        return came

    async for chunk in stream.chunks():
        read += await in_thread(keep, chunk)
    read += await in_thread(keep, None)
    if stream.announced is not None and read < stream.announced:
        raise Truncated(f"the record store announced {stream.announced} records and sent {read}")
    if taken.count == 0:
        selected = f" of {read} after the selection" if selection else ""
        raise JobFailure(Reason.RECORDS, f"there are no records{selected}")


class Tar:
    """The package as a stream: `<stem>/params.json`, then `<stem>/records.jsonl` from the spool file."""

    def __init__(self, stem: str, params: Mapping[str, Any], spool: IO[bytes], at: datetime) -> None:
        self._stem = stem
        self._params = json.dumps(params, ensure_ascii=False, allow_nan=False).encode()
        self._spool = spool
        self._mtime = int(at.timestamp())
        self._sha256 = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """Of all that `chunks` has given."""
        return self._sha256.hexdigest()

    async def chunks(self) -> AsyncIterator[bytes]:
        size = self._spool.seek(0, 2)
        self._spool.seek(0)
        params = self._header(PARAMS_MEMBER, len(self._params)) + self._params + _padding(len(self._params))
        yield self._hashed(params + self._header(RECORDS_MEMBER, size))
        while chunk := await in_thread(self._read):
            yield chunk
        yield self._hashed(_padding(size) + bytes(2 * tarfile.BLOCKSIZE))

    def _read(self) -> bytes:
        return self._hashed(self._spool.read(CHUNK))

    def _hashed(self, data: bytes) -> bytes:
        self._sha256.update(data)
        return data

    def _header(self, member: str, size: int) -> bytes:
        info = tarfile.TarInfo(f"{self._stem}/{member}")
        info.size = size
        info.mtime = self._mtime
        return info.tobuf(format=tarfile.PAX_FORMAT)


def _padding(size: int) -> bytes:
    return bytes(-size % tarfile.BLOCKSIZE)
