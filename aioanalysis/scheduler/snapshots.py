"""The records of a job with `split`, cut once: one gzip member a frame, in one blob."""

from __future__ import annotations

import zlib
from array import array
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from tempfile import TemporaryFile
from typing import IO, Any, Final

from aioanalysis.aio import in_thread
from aioanalysis.domain.exchange import Container, RunMark, snapshot_name
from aioanalysis.domain.frames import Part
from aioanalysis.domain.job import FRAMES_MAX, Job, Split
from aioanalysis.domain.outcomes import Reason
from aioanalysis.domain.records import LineReader
from aioanalysis.errors import Contested, JobFailure, Missing
from aioanalysis.interfaces import Condition, ExchangeStorage, RecordStream
from aioanalysis.scheduler.spooling import CHUNK, Taken

GZIP: Final = 31
LEVEL: Final = 6


class Cutter(Taken):
    """Takes records into the spool and remembers where those of each part lie.

    Raises `JobFailure` when there would be more than 1,000 frames.
    """

    def __init__(self, spool: IO[bytes], split: Split) -> None:
        super().__init__(spool)
        self._split = split
        self._lines: dict[str | None, array[int]] = {}

    def take(self, records: Sequence[tuple[bytes, Mapping[str, Any]]]) -> None:
        at = self.size
        for number, (line, record) in enumerate(records, start=self.count):
            key = self._key(number, record)
            if key not in self._lines and len(self._lines) == FRAMES_MAX:
                raise JobFailure(Reason.RECORDS, f"the split makes more than {FRAMES_MAX:,} frames")
            self._lines.setdefault(key, array("q")).extend((at, len(line)))
            at += len(line)
        super().take(records)

    def take_all(self, reader: LineReader, data: bytes) -> int:
        records = list(reader.feed(data))
        self.take(records)
        return len(records)

    def _key(self, number: int, record: Mapping[str, Any]) -> str | None:
        """The value of the field, None where it is missing; or the number of the chunk."""
        if self._split.by is None:
            return str(number // (self._split.records or 1))
        value = record.get(self._split.by)
        if isinstance(value, list):
            value = ",".join(str(item) for item in value)
        text = "" if value is None else str(value).strip()
        return text or None

    def cut(self, target: IO[bytes]) -> list[Part]:
        """Write each part to `target` as a gzip member of its own; where they lie, in order."""
        parts = []
        for key, lines in self._lines.items():
            start = target.tell()
            squeeze = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP)
            for at, length in _runs(lines):
                target.write(squeeze.compress(self.read(at, length)))
            target.write(squeeze.flush())
            value = None if self._split.by is None else key
            parts.append(Part(start=start, end=target.tell(), records=len(lines) // 2, value=value))
        return parts


def _runs(lines: array[int]) -> Iterator[tuple[int, int]]:
    """(offset, length) of stretches of at most some MiB that lie together."""
    at, length = lines[0], 0
    for start, size in zip(lines[::2], lines[1::2], strict=True):
        if start != at + length or length > CHUNK:
            yield at, length
            at, length = start, 0
        length += size
    yield at, length


async def write_snapshot(storage: ExchangeStorage, job: Job, cutter: Cutter, folder: str) -> list[Part]:
    """Cut and upload; one that a scheduler before us left, without frames on the record, is replaced."""
    name = snapshot_name(job.name)
    with TemporaryFile(dir=folder) as file:
        parts = await in_thread(cutter.cut, file)
        await in_thread(file.seek, 0)
        await storage.delete(Container.RESULTS, name)
        await storage.write(
            Container.RESULTS,
            name,
            _pieces(file),
            metadata=RunMark(uid=job.uid).to_metadata(),
            condition=Condition(absent=True),
        )
    return parts


async def _pieces(file: IO[bytes]) -> AsyncIterator[bytes]:
    while chunk := await in_thread(file.read, CHUNK):
        yield chunk


class PartStream:
    """`RecordStream` of gzip in pieces: one part, or attached records."""

    def __init__(self, chunks: AsyncIterator[bytes], announced: int | None) -> None:
        self._chunks = chunks
        self.announced = announced

    async def chunks(self) -> AsyncIterator[bytes]:
        inflate = zlib.decompressobj(GZIP)
        async for chunk in self._chunks:
            rest = chunk
            while rest and not inflate.eof:
                yield await in_thread(inflate.decompress, rest, CHUNK)
                rest = inflate.unconsumed_tail


@asynccontextmanager
async def open_part(storage: ExchangeStorage, job: Job, part: Part) -> AsyncIterator[RecordStream]:
    """The records of one frame of a split; raises `JobFailure` when the snapshot has gone."""
    try:
        async with storage.open(
            Container.RESULTS, snapshot_name(job.name), start=part.start, end=part.end
        ) as stream:
            yield PartStream(stream.chunks(), part.records)
    except (Missing, Contested) as error:
        raise JobFailure(Reason.RECORDS, "the snapshot of the job's records has gone: resubmit it") from error
