"""Single jobs with what is known of them beside their record, in few calls for many who ask at once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from redis.asyncio import Redis

from aioanalysis.aio import Batched, Tasks
from aioanalysis.domain.job import Job, is_job_id
from aioanalysis.domain.states import State
from aioanalysis.errors import Damaged
from aioanalysis.interfaces import Glance
from aioanalysis.jobstore import codec, scripts
from aioanalysis.jobstore.client import answering
from aioanalysis.jobstore.keys import Keys
from aioanalysis.jobstore.outlooks import load_outlook
from aioanalysis.jobstore.progress import RedisProgressBoard

CALL_MAX: Final = 100
CALL_SECONDS: Final = 1.5
"""Of one call: whoever asks waits for the one under way, and for the own."""

REMEMBERED: Final = 512
REMEMBERED_CHARACTERS: Final = 16 * 1024
"""Of a job's document; larger ones are read anew each time, so that those kept take a few MiB at most."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """What Redis holds about a job, as it was when `glance` was made of it."""

    version: str
    looked: str
    outlook: str | None
    progress: Sequence[str]
    glance: Glance


class RedisGlances:
    """`Glances`. What was read is remembered by the version of the record, which comes of its content."""

    def __init__(self, client: Redis, progress: RedisProgressBoard, *, prefix: str, tasks: Tasks) -> None:
        self._keys = Keys(prefix)
        self._progress = progress
        self._look = client.register_script(scripts.LOOK)
        self._batched = Batched(self._answered, tasks, name="look at jobs", most=CALL_MAX)
        self._known: OrderedDict[str, _Stored] = OrderedDict()

    async def glance(self, job_id: str) -> Glance | None:
        if not is_job_id(job_id):
            return None
        found = await self._batched.get(job_id)
        if isinstance(found, Damaged):
            raise found
        return found

    async def _answered(self, ids: Sequence[str]) -> list[Glance | Damaged | None]:
        async with answering(CALL_SECONDS):
            return await self._read(ids)

    async def _read(self, ids: Sequence[str]) -> list[Glance | Damaged | None]:
        known = [self._known.get(job_id) for job_id in ids]
        pairs = [
            part
            for job_id, stored in zip(ids, known, strict=True)
            for part in (job_id, stored.version if stored else "")
        ]
        answer: list[str | None] = await self._look(
            [self._keys.last_pass, self._keys.outlooks], [self._keys.records, *pairs]
        )
        looked = answer[0] or ""
        rows = [(answer[at], answer[at + 1], answer[at + 2]) for at in range(1, len(answer), 3)]
        jobs = [
            stored.glance.job
            if stored and stored.version == version
            else codec.found_job(version, document, codec.looked(looked))
            for stored, (version, document, _) in zip(known, rows, strict=True)
        ]
        running = {job.id: runs for job in jobs if isinstance(job, Job) and (runs := _running(job))}
        told = await self._progress.documents(running) if running else {}
        return [
            self._found(job, stored, row, looked, told.get(job_id, ()))
            for job_id, job, stored, row in zip(ids, jobs, known, rows, strict=True)
        ]

    def _found(
        self,
        job: Job | Damaged | None,
        stored: _Stored | None,
        row: tuple[str | None, str | None, str | None],
        looked: str,
        progress: Sequence[str],
    ) -> Glance | Damaged | None:
        """The very glance of before if all that it was made of is as it was."""
        version, document, outlook = row
        if not isinstance(job, Job) or version is None:
            return job if isinstance(job, Damaged) else None
        if stored is not None and stored.version == version:
            if (stored.looked, stored.outlook, stored.progress) == (looked, outlook, progress):
                self._remember(stored)
                return stored.glance
            job = codec.looked_at(job, codec.looked(looked))
        glance = Glance(
            job=job,
            outlook=load_outlook(job.id, outlook) if outlook is not None else None,
            progress=self._progress.loaded(progress),
        )
        if document is None or len(document) <= REMEMBERED_CHARACTERS:
            self._remember(_Stored(version, looked, outlook, progress, glance))
        return glance

    def _remember(self, stored: _Stored) -> None:
        """As the latest; it may have been forgotten since its call began, for others of that call."""
        job_id = stored.glance.job.id
        self._known[job_id] = stored
        self._known.move_to_end(job_id)
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)


def _running(job: Job) -> list[int | None]:
    return [frame.number for frame in job.frames if frame.phase is State.RUNNING]
