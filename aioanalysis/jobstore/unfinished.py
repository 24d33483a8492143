"""Reads the jobs that are not complete, again and again: of what was read before, only what has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from aioanalysis.domain.job import Job
from aioanalysis.domain.states import State
from aioanalysis.errors import Damaged, Missing
from aioanalysis.interfaces import JobEvents

CHUNK: Final = 250  # some 5 ms of reading between two looks at the event loop
VERSIONS_CHUNK: Final = 1_000
EVENTS_MAX: Final = 1_000
"""After more changes than these, all are looked at."""

Found = Mapping[str, Job | Damaged | None]


class UnfinishedJobs:
    """What was read last, by id, oldest first, and the event up to which it was so."""

    def __init__(
        self,
        events: JobEvents,
        *,
        index: Callable[[], Awaitable[tuple[str, Sequence[str]]]],
        versions: Callable[[Sequence[str]], Awaitable[Sequence[str | None]]],
        read: Callable[[Sequence[str]], Awaitable[Sequence[Job | Damaged | None]]],
    ) -> None:
        """`index` gives the newest event, then the ids, oldest first; the others what is stored of some."""
        self._events = events
        self._index = index
        self._versions = versions
        self._read = read
        self._jobs: Mapping[str, Job] = {}
        self._event: str | None = None

    async def all(self) -> tuple[Sequence[Job], Found]:
        """All as they are now, and what was found of those that were looked at, jobs or not."""
        event, ids = await self._index()
        found: dict[str, Job | Damaged | None] = {}
        for chunk in _chunks(ids, VERSIONS_CHUNK):
            changed = []
            for job_id, version in zip(chunk, await self._versions(chunk), strict=True):
                known = self._jobs.get(job_id)
                if known is not None and known.version == version:
                    found[job_id] = known
                else:
                    changed.append(job_id)
            found |= await self._look(changed)
        self._jobs = {job.id: job for job in _unfinished(found[job_id] for job_id in ids)}
        self._event = event
        return list(self._jobs.values()), found

    async def changed(self) -> tuple[Sequence[Job], Found]:
        """As `all`, but by what events tell; one that has expired since is still there."""
        if self._event is None:
            return await self.all()
        try:
            events = await self._events.after(self._event, limit=EVENTS_MAX)
        except Missing:
            return await self.all()
        if len(events) == EVENTS_MAX:
            return await self.all()
        found: Found = {}
        if events:
            found = await self._look({event.job for event in events})
            jobs = [*_unfinished({**self._jobs, **found}.values())]
            jobs.sort(key=lambda job: (job.submitted_at, job.id))
            self._jobs = {job.id: job for job in jobs}
            self._event = events[-1].id
        return list(self._jobs.values()), found

    async def _look(self, ids: Iterable[str]) -> dict[str, Job | Damaged | None]:
        found: dict[str, Job | Damaged | None] = {}
        for part in _chunks(ids, CHUNK):
            found |= zip(part, await self._read(part), strict=True)
            await asyncio.sleep(0)
        return found


def _unfinished(found: Iterable[Job | Damaged | None]) -> Iterator[Job]:
    """The jobs among them, but for those that have been completed since the index was read."""
    for job in found:
        if isinstance(job, Job) and job.state is not State.COMPLETE:
            yield job


def _chunks(ids: Iterable[str], size: int) -> Iterator[list[str]]:
    rest = iter(ids)
    while chunk := list(islice(rest, size)):
        yield chunk
