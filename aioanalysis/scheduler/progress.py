"""Follows running jobs: of what their workers tell, only that is read which has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import Final

from aioanalysis import logs
from aioanalysis.domain.exchange import PROGRESS, PROGRESS_MAX_BYTES, Container, progress_name
from aioanalysis.domain.frames import Frame
from aioanalysis.domain.job import Job
from aioanalysis.domain.progress import parse_progress
from aioanalysis.domain.states import State
from aioanalysis.errors import AnalysisError, Damaged, Missing
from aioanalysis.interfaces import BlobInfo, JobProgress, PackageStorage, ProgressBoard

READS: Final = 8
log = logs.get()


class ProgressFollower:
    """Posts what has changed in `progress/`; a trouble of its own is logged and stops nothing."""

    def __init__(self, storage: PackageStorage, board: ProgressBoard) -> None:
        self._storage = storage
        self._board = board
        self._seen: dict[str, str] = {}

    async def look(self, jobs: Sequence[Job], *, without: Collection[str] = ()) -> None:
        """One look at the running ones of `jobs`, but for those with an id in `without`."""
        running = {
            progress_name(job.stem(frame)): (job, frame)
            for job in jobs
            if job.id not in without
            for frame in job.frames
            if frame.phase is State.RUNNING
        }
        try:
            changed = await self._changed(running) if running else []
            if changed:
                await self._post([(blob, *running[blob.name]) for blob in changed])
        except AnalysisError as error:
            log.warning("progress_not_followed", error=str(error))
        self._seen = {name: etag for name, etag in self._seen.items() if name in running}

    async def _changed(self, names: Collection[str]) -> list[BlobInfo]:
        return [
            blob
            async for blob in self._storage.list(Container.RESULTS, PROGRESS)
            if blob.name in names and self._seen.get(blob.name) != blob.etag
        ]

    async def _post(self, changed: Sequence[tuple[BlobInfo, Job, Frame]]) -> None:
        places = asyncio.Semaphore(READS)

        async def read(blob: BlobInfo, job: Job, frame: Frame) -> JobProgress | None:
            async with places:
                return await self._read(blob, job, frame)

        found = await asyncio.gather(*(read(*one) for one in changed))
        await self._board.post([progress for progress in found if progress is not None])
        self._seen.update((blob.name, blob.etag) for blob, _, _ in changed)

    async def _read(self, blob: BlobInfo, job: Job, frame: Frame) -> JobProgress | None:
        """None when it has gone meanwhile, tells of another run, or of no stage yet."""
        try:
            if blob.size > PROGRESS_MAX_BYTES:
                raise Damaged(f"larger than {PROGRESS_MAX_BYTES} bytes")
            async with self._storage.open(Container.RESULTS, blob.name) as stream:
                data = b"".join([piece async for piece in stream.chunks()])
            progress = parse_progress(data, uid=job.uid)
        except Missing:
            return None
        except Damaged as error:
            log.warning("progress_damaged", stem=job.stem(frame), problem=str(error))
            return None
        if progress is None or progress.attempt != frame.attempt:
            return None
        return JobProgress(
            job=job.id, submitter=job.submitter, title=job.title, frame=frame.number, progress=progress
        )
