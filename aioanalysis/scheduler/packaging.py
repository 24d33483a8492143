"""Builds the packages of admitted jobs, in bounded tasks beside the pass."""

from __future__ import annotations

import asyncio
import hashlib
import json
import tarfile
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final

from aioanalysis import logs
from aioanalysis.aio import Tasks, in_thread
from aioanalysis.domain.exchange import (
    PARAMS_MEMBER,
    RECORDS_MEMBER,
    Container,
    PackageMeta,
    package_name,
)
from aioanalysis.domain.job import Job, Packaging, Postponement
from aioanalysis.domain.outcomes import JobError, Reason
from aioanalysis.domain.records import LineReader, Malformed, Truncated
from aioanalysis.domain.states import State
from aioanalysis.errors import AnalysisError, Contested, JobFailure, Missing, Unavailable
from aioanalysis.interfaces import BlobInfo, Condition, RecordStore, RecordStream
from aioanalysis.operations import Operations

CHUNK: Final = 1024 * 1024
FIRST_PAUSE: Final = 2.0
LONGEST_PAUSE: Final = 300.0
BY: Final = "scheduler"
log = logs.get()


class Packager:
    """Packages jobs under one fencing number, at most `tasks` at a time.

    `busy` are the ids admitted and not yet done: each has a reserved place in the queue. Records are written
    to a spool file, checked and selected line by line, and sent from there: memory does not grow with them.
    """

    def __init__(
        self,
        operations: Operations,
        records: RecordStore,
        tasks: Tasks,
        *,
        fence: int,
        spool: Path,
        limit: int,
        packaged: Callable[[], None] | None = None,
    ) -> None:
        self._operations = operations
        self._packaged = packaged
        self._storage = operations.storage
        self._records = records
        self._tasks = tasks
        self._fence = fence
        self._spool = spool
        self._places = asyncio.Semaphore(limit)
        self._busy: set[str] = set()

    @property
    def busy(self) -> Collection[str]:
        return frozenset(self._busy)

    def admit(self, job: Job) -> None:
        """Begin packaging `job` in a task of its own."""
        self._busy.add(job.id)
        self._tasks.start(self._package(job.id), name=f"package {job.id}")

    async def _package(self, job_id: str) -> None:
        """Package one job; whatever happens ends up on its record or in the log, never in the pass."""
        try:
            async with self._places:
                job = await self._operations.change(job_id, self._intend, fence=self._fence)
                if job.state is State.WAITING and job.packaging is not None:
                    await self._build(job)
        except (Missing, Contested) as error:
            log.info("packaging_overtaken", job_id=job_id, reason=str(error))
        except AnalysisError as error:
            log.warning("packaging_failed", job_id=job_id, error=str(error))
        finally:
            self._busy.discard(job_id)

    def _intend(self, job: Job) -> Job | None:
        if job.state is not State.WAITING:
            return None
        return replace(job, packaging=Packaging(fence=self._fence, since=self._operations.clock()))

    async def _build(self, job: Job) -> None:
        try:
            await self._upload(job)
        except JobFailure as failure:
            await self._fail(job, failure)
        except Malformed as error:
            await self._fail(job, JobFailure(Reason.RECORDS, f"the records are malformed: {error}"))
        except (Unavailable, Truncated) as error:
            await self._postpone(job, str(error), getattr(error, "retry_after", None))
        except (Missing, Contested):
            raise
        except Exception as error:
            log.exception("packaging_broken", job_id=job.id)
            await self._postpone(job, f"packaging failed: {type(error).__name__}", None)

    async def _upload(self, job: Job) -> None:
        key = await self._operations.jobs.key(job.id)
        self._spool.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=self._spool) as spool:
            async with self._records.open(job.source, key) as stream:
                count = await _take(stream, job, spool)
            package = await self._write(job, spool, count)
        if self._packaged is not None:
            self._packaged()
        try:
            await self._operations.change(
                job.id, lambda now: self._queued(now, job, count), fence=self._fence
            )
        except Missing:
            await self._storage.delete(Container.QUEUE, package.name, etag=package.etag)
            log.info("package_withdrawn", stem=job.stem, reason="the job has been removed")

    async def _write(self, job: Job, spool: IO[bytes], count: int) -> BlobInfo:
        tar = _Tar(job, spool)
        meta = PackageMeta(
            uid=job.uid,
            attempt=job.attempt,
            owner=job.submitter,
            submitted_at=job.submitted_at,
            deadline=job.deadline,
            expires_at=job.expires_at,
            records=count,
        )
        name = package_name(job.stem)
        try:
            return await self._storage.write(
                Container.QUEUE,
                name,
                tar.chunks(),
                metadata=lambda: replace(meta, sha256=tar.sha256).to_metadata(),
                condition=Condition(absent=True),
            )
        except Contested:
            there = await self._storage.stat(Container.QUEUE, name)
            found = PackageMeta.from_metadata(there.metadata) if there else None
            if there and found and (found.uid, found.attempt) == (job.uid, job.attempt):
                return there  # ours: the reply was lost, or a scheduler before us got as far
            raise Unavailable(f"another package called {name} is in the queue") from None

    def _queued(self, now: Job, packaged: Job, count: int) -> Job | None:
        """The job after the upload; None if a pass has seen the package before us."""
        if now.state is State.WAITING and now.attempt == packaged.attempt:
            at = self._operations.clock()
            changes = {"packaged_count": count, "packaging": None, "postponed": None}
            log.info("job_packaged", job_id=now.id, title=now.title, records=count, attempt=now.attempt)
            return now.moved(State.QUEUED, event="queue", by=BY, at=at, **changes)
        return None

    async def _fail(self, job: Job, failure: JobFailure) -> None:
        error = JobError(reason=Reason(failure.reason), message=failure.text)

        def decide(now: Job) -> Job | None:
            if now.state is not State.WAITING:
                return None
            at = self._operations.clock()
            changes = {"error": error, "packaging": None, "postponed": None}
            return now.moved(State.FAILED, event="fail", by=BY, at=at, **changes)

        await self._operations.change(job.id, decide, fence=self._fence)
        log.info("job_unpackable", job_id=job.id, reason=failure.reason, error=failure.text)

    async def _postpone(self, job: Job, text: str, retry_after: float | None) -> None:
        def decide(now: Job) -> Job | None:
            if now.state is not State.WAITING:
                return None
            tries = now.postponed.tries + 1 if now.postponed else 1
            pause = max(min(FIRST_PAUSE * 2 ** (tries - 1), LONGEST_PAUSE), retry_after or 0)
            until = self._operations.clock() + timedelta(seconds=pause)
            return replace(now, packaging=None, postponed=Postponement(until=until, tries=tries, text=text))

        put_off = await self._operations.change(job.id, decide, fence=self._fence)
        tries = put_off.postponed.tries if put_off.postponed else 0
        log.warning("packaging_postponed", job_id=job.id, error=text, tries=tries)


async def _take(stream: RecordStream, job: Job, spool: IO[bytes]) -> int:
    """Write the selected records to `spool`, return their number.

    Raises `Malformed`, `Truncated` (also when fewer came than were announced), `Unavailable`, and
    `JobFailure` when none is left.
    """
    reader = LineReader()
    taken = read = 0

    def keep(chunk: bytes | None) -> tuple[int, int]:
        lines = reader.close() if chunk is None else reader.feed(chunk)
        kept = came = 0
        for line, record in lines:
            came += 1
            if job.selection is None or job.selection.takes(record):
                spool.write(line)
                kept += 1
        return kept, came

    async for chunk in stream.chunks():
        kept, came = await in_thread(keep, chunk)
        taken, read = taken + kept, read + came
    kept, came = await in_thread(keep, None)
    taken, read = taken + kept, read + came
    if stream.announced is not None and read < stream.announced:
        raise Truncated(f"the record store announced {stream.announced} records and sent {read}")
    if taken == 0:
        selected = f" of {read} after the selection" if job.selection else ""
        raise JobFailure(Reason.RECORDS, f"there are no records{selected}")
    return taken


class _Tar:
    """The package as a stream: `<stem>/params.json`, then `<stem>/records.jsonl` from the spool file."""

    def __init__(self, job: Job, spool: IO[bytes]) -> None:
        self._job = job
        self._spool = spool
        self._sha256 = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """Of all that `chunks` has given."""
        return self._sha256.hexdigest()

    async def chunks(self) -> AsyncIterator[bytes]:
        params = json.dumps(self._job.params, ensure_ascii=False, allow_nan=False).encode()
        size = self._spool.seek(0, 2)
        self._spool.seek(0)
        head = self._header(PARAMS_MEMBER, len(params)) + params + _padding(len(params))
        yield self._hashed(head + self._header(RECORDS_MEMBER, size))
        while chunk := await in_thread(self._read):
            yield chunk
        yield self._hashed(_padding(size) + bytes(2 * tarfile.BLOCKSIZE))

    def _read(self) -> bytes:
        return self._hashed(self._spool.read(CHUNK))

    def _hashed(self, data: bytes) -> bytes:
        self._sha256.update(data)
        return data

    def _header(self, member: str, size: int) -> bytes:
        info = tarfile.TarInfo(f"{self._job.stem}/{member}")
        info.size = size
        info.mtime = int(self._job.submitted_at.timestamp())
        return info.tobuf(format=tarfile.PAX_FORMAT)


def _padding(size: int) -> bytes:
    return bytes(-size % tarfile.BLOCKSIZE)
