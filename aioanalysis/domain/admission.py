"""Which waiting runs are packaged next: submitters take turns."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from itertools import islice

from aioanalysis.domain.commands import Admit
from aioanalysis.domain.frames import Frame
from aioanalysis.domain.job import Job
from aioanalysis.domain.observation import Observation
from aioanalysis.domain.states import State

Run = tuple[str, int | None]
"""A job's id and a frame's number (None: its only run)."""


def admissions(
    jobs: Sequence[Job], seen: Observation, now: datetime, *, limit: int, busy: Collection[Run]
) -> list[Admit]:
    """The runs to package now, while fewer than `limit` packages are in the queue.

    `busy` runs are being packaged, each with its place.
    """
    room = limit - len(seen.queue) - len(busy)
    return list(islice(line(jobs, seen, now, busy=busy), room)) if room > 0 else []


def line(jobs: Sequence[Job], seen: Observation, now: datetime, *, busy: Collection[Run]) -> Iterator[Admit]:
    """The runs that wait for room in the queue, in the order in which they will get it as things are.

    The next place goes to the submitter with the fewest packages queued or being built; within one submitter
    the oldest job goes first, its frames in order.
    """
    owners: Counter[str] = Counter(p.meta.owner for p in seen.queue.values() if p.meta.owner is not None)
    by_id = {job.id: job for job in jobs}
    owners.update(by_id[job_id].submitter for job_id, _ in busy if job_id in by_id)
    lines: dict[str, list[Job]] = {}
    for job in sorted(jobs, key=lambda job: (job.submitted_at, job.id)):
        if now < job.deadline:
            lines.setdefault(job.submitter, []).append(job)
    runs = {name: _ready(line, seen, now, busy) for name, line in lines.items()}
    heads: list[tuple[int, datetime, str, Admit]] = []  # a heap; no two are of one submitter

    def take_next(name: str) -> None:
        head = next(runs[name], None)
        if head is not None:
            heapq.heappush(heads, (owners[name], head.job.submitted_at, name, head))

    for name in runs:
        take_next(name)
    while heads:
        *_, name, head = heapq.heappop(heads)
        yield head
        owners[name] += 1
        take_next(name)


def _ready(jobs: Sequence[Job], seen: Observation, now: datetime, busy: Collection[Run]) -> Iterator[Admit]:
    """Runs that can be packaged, in order."""
    for job in jobs:
        for frame in job.frames:
            if _is_ready(job, frame, seen, now) and (job.id, frame.number) not in busy:
                yield Admit(job=job, number=frame.number)


def _is_ready(job: Job, frame: Frame, seen: Observation, now: datetime) -> bool:
    """Waiting, not put off, and no package of any attempt exists (else a former run is being ended)."""
    if frame.phase is not State.WAITING or (frame.postponed is not None and frame.postponed.until > now):
        return False
    stem = job.stem(frame)
    return stem not in seen.queue and stem not in seen.claims
