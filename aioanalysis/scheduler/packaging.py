"""Builds the packages of admitted runs, in bounded tasks beside the pass."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Final

from aioanalysis import logs
from aioanalysis.aio import Tasks
from aioanalysis.domain.admission import Run
from aioanalysis.domain.exchange import Container, PackageMeta, package_name
from aioanalysis.domain.frames import Frame, Packaging, Part, Postponement
from aioanalysis.domain.job import Job, Split
from aioanalysis.domain.outcomes import JobError, Reason
from aioanalysis.domain.planning import SCHEDULER
from aioanalysis.domain.records import Malformed, Truncated
from aioanalysis.domain.states import State
from aioanalysis.errors import AnalysisError, Contested, JobFailure, Missing, Unavailable
from aioanalysis.interfaces import BlobInfo, Condition, RecordStore, RecordStream
from aioanalysis.operations import Operations
from aioanalysis.scheduler.snapshots import Cutter, PartStream, open_part, write_snapshot
from aioanalysis.scheduler.spooling import Taken, Tar, take_records

FIRST_PAUSE: Final = 2.0
LONGEST_PAUSE: Final = 300.0
log = logs.get()


class Packager:
    """Packages runs under one fencing number, at most `limit` at a time.

    `busy` are the runs admitted and not yet done: each has a reserved place in the queue. Records are written
    to a spool file, checked and selected line by line, and sent from there as they come: memory does not grow
    with them, and nobody waits for a slow storage but the package itself.
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
        self._busy: set[Run] = set()

    @property
    def busy(self) -> Collection[Run]:
        return frozenset(self._busy)

    def admit(self, job: Job, number: int | None) -> None:
        """Begin packaging a run of `job` in a task of its own."""
        self._busy.add((job.id, number))
        self._tasks.start(self._package(job.id, number), name=f"package {job.id} {number or ''}")

    async def _package(self, job_id: str, number: int | None) -> None:
        """Package one run; whatever happens ends up on its record or in the log, never in the pass."""
        try:
            async with self._places:
                job = await self._change(job_id, number, self._intend, event=None)
                frame = job.frame(number)
                if frame is not None and frame.phase is State.WAITING and frame.packaging is not None:
                    await self._build(job, frame)
        except (Missing, Contested) as error:
            log.info("packaging_overtaken", job_id=job_id, frame=number, reason=str(error))
        except AnalysisError as error:
            log.warning("packaging_failed", job_id=job_id, frame=number, error=str(error))
        finally:
            self._busy.discard((job_id, number))

    async def _build(self, job: Job, frame: Frame) -> None:
        try:
            if job.split is not None and not job.has_frames:
                await self._cut(job, frame, job.split)
            else:
                await self._upload(job, frame)
        except JobFailure as failure:
            await self._fail(job, frame, failure)
        except Malformed as error:
            malformed = JobFailure(Reason.RECORDS, f"the records are malformed: {error}")
            await self._fail(job, frame, malformed)
        except (Unavailable, Truncated) as error:
            await self._postpone(job, frame, str(error), getattr(error, "retry_after", None))
        except (Missing, Contested):
            raise
        except Exception as error:
            log.exception("packaging_broken", job_id=job.id, frame=frame.number)
            await self._postpone(job, frame, f"packaging failed: {type(error).__name__}", None)

    # --- the two kinds of work ---

    async def _upload(self, job: Job, frame: Frame) -> None:
        with self._spooled() as spool:
            async with self._open(job, frame) as stream:
                package = await self._send(job, frame, stream, Taken(spool))
        count = PackageMeta.from_metadata(package.metadata).records
        if self._packaged is not None:
            self._packaged()
        try:
            await self._change(job.id, frame.number, lambda now: _queued(now, frame, count), event="queue")
        except Missing:
            await self._storage.delete(Container.QUEUE, package.name, etag=package.etag)
            log.info("package_withdrawn", stem=job.stem(frame), reason="the job has been removed")
        else:
            log.info("run_packaged", stem=job.stem(frame), records=count, attempt=frame.attempt)

    async def _cut(self, job: Job, frame: Frame, split: Split) -> None:
        """Fetch the records of a job with `split` once, and make its frames of them."""
        with self._spooled() as spool:
            cutter = Cutter(spool, split)
            async with self._open(job, frame) as stream:
                await take_records(stream, job.selection, cutter)
            parts = await write_snapshot(self._storage, job, cutter, str(self._spool))

        def decide(now: Job) -> Job | None:
            only = now.frame(None)
            if not now.is_uncut or only is None or only.attempt != frame.attempt:
                return None
            at, note = self._operations.clock(), f"{cutter.count} records in {len(parts)} frames"
            return now.noted("split", by=SCHEDULER, at=at, frames=_frames(only, parts), note=note)

        await self._operations.change(job.id, decide, fence=self._fence)
        log.info("job_split", job_id=job.id, frames=len(parts), records=cutter.count)

    def _spooled(self) -> IO[bytes]:
        self._spool.mkdir(parents=True, exist_ok=True)
        return TemporaryFile(dir=self._spool)

    @asynccontextmanager
    async def _open(self, job: Job, frame: Frame) -> AsyncIterator[RecordStream]:
        if frame.part is not None:
            async with open_part(self._storage, job, frame.part) as stream:
                yield stream
        elif job.source.kind == "lost":
            text = "the job was made again from storage: its source and key are not known, submit it anew"
            raise JobFailure(Reason.RECORDS, text)
        elif job.source.kind == "attached":
            try:
                yield PartStream(self._operations.attached.chunks(job.source.value or ""), None)
            except Missing as error:
                raise JobFailure(
                    Reason.RECORDS, "the attached records have gone: submit them again"
                ) from error
        else:
            key = await self._operations.jobs.key(job.id)
            async with self._records.open(job.source, key) as stream:
                yield stream

    async def _send(self, job: Job, frame: Frame, stream: RecordStream, taken: Taken) -> BlobInfo:
        """Take the records and upload their package at the same time; what fails ends both."""
        try:
            async with asyncio.TaskGroup() as group:
                selection = None if frame.part else job.selection
                taking = group.create_task(
                    take_records(stream, selection, taken), name=f"records of {job.stem(frame)}"
                )
                package = await self._write(job, frame, taken)
                taking.cancel()  # not whole when the package had been there
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return package

    async def _write(self, job: Job, frame: Frame, taken: Taken) -> BlobInfo:
        stem = job.stem(frame)
        tar = Tar(stem, {**job.params, **frame.params}, taken, job.submitted_at)
        meta = PackageMeta(
            uid=job.uid,
            attempt=frame.attempt,
            owner=job.submitter,
            submitted_at=job.submitted_at,
            deadline=job.deadline,
            expires_at=job.expires_at,
        )
        name = package_name(stem)
        try:
            return await self._storage.write(
                Container.QUEUE,
                name,
                tar.body(),
                head=tar.head,
                metadata=lambda: replace(meta, records=taken.count, sha256=tar.sha256).to_metadata(),
                condition=Condition(absent=True),
            )
        except Contested:
            there = await self._storage.stat(Container.QUEUE, name)
            found = PackageMeta.from_metadata(there.metadata) if there else None
            if there and found and (found.uid, found.attempt) == (job.uid, frame.attempt):
                return there  # ours: the reply was lost, or a scheduler before us got as far
            raise Unavailable(f"another package called {name} is in the queue") from None

    # --- the record ---

    async def _change(
        self,
        job_id: str,
        number: int | None,
        decide: Callable[[Frame], Frame | None],
        *,
        event: str | None,
    ) -> Job:
        """Change one waiting run on the record; with `event` the history tells it."""

        def apply(job: Job) -> Job | None:
            frame = job.frame(number)
            changed = decide(frame) if frame is not None and frame.phase is State.WAITING else None
            if changed is None:
                return None
            frames = job.with_frame(changed)
            if event is None:
                return replace(job, frames=frames)
            note = None if number is None else f"frame {number}"
            return job.noted(event, by=SCHEDULER, at=self._operations.clock(), frames=frames, note=note)

        return await self._operations.change(job_id, apply, fence=self._fence)

    def _intend(self, frame: Frame) -> Frame:
        return replace(frame, packaging=Packaging(fence=self._fence, since=self._operations.clock()))

    async def _fail(self, job: Job, frame: Frame, failure: JobFailure) -> None:
        error = JobError(reason=Reason(failure.reason), message=failure.text)
        await self._change(
            job.id, frame.number, lambda now: now.entered(State.FAILED, error=error), event="fail"
        )
        log.info(
            "run_unpackable", job_id=job.id, frame=frame.number, reason=failure.reason, error=failure.text
        )

    async def _postpone(self, job: Job, frame: Frame, text: str, retry_after: float | None) -> None:
        tries = frame.postponed.tries + 1 if frame.postponed else 1
        pause = max(min(FIRST_PAUSE * 2 ** (tries - 1), LONGEST_PAUSE), retry_after or 0)
        until = self._operations.clock() + timedelta(seconds=pause)
        put_off = Postponement(until=until, tries=tries, text=text)
        await self._change(
            job.id, frame.number, lambda now: replace(now, packaging=None, postponed=put_off), event=None
        )
        log.warning("packaging_postponed", job_id=job.id, frame=frame.number, error=text, tries=tries)


def _queued(now: Frame, packaged: Frame, count: int | None) -> Frame | None:
    """The run after its upload; None if it has been put back meanwhile."""
    if now.attempt != packaged.attempt:
        return None
    return now.entered(State.QUEUED, packaged_count=count)


def _frames(only: Frame, parts: Iterable[Part]) -> list[Frame]:
    common: dict[str, Any] = {"params": only.params, "phase": only.phase, "holds": only.holds}
    return [
        Frame(number=number, part=part, attempt=only.attempt, **common)
        for number, part in enumerate(parts, start=1)
    ]
