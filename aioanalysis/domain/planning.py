"""What a scheduler pass decides: `plan(jobs, seen, now)` gives commands, and performs nothing.

Each job's commands are one `Work`, to be performed in order; one that fails stops the rest of that job's work
and nothing else. Records are saved before files are touched, so that a pass that dies is simply made again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from aioanalysis.domain.commands import (
    CleanUp,
    Command,
    Forget,
    Interrupt,
    Save,
    Sweep,
    Withdraw,
    Work,
)
from aioanalysis.domain.frames import Frame, Hold, aggregate
from aioanalysis.domain.job import Job, Tombstone
from aioanalysis.domain.observation import Observation
from aioanalysis.domain.runs import Verdict, examine
from aioanalysis.domain.states import FINISHED, Event, State

SCHEDULER: Final = "scheduler"


def plan(
    jobs: Sequence[Job],
    seen: Observation,
    now: datetime,
    *,
    max_recoveries: int,
    wrangle_failures: int = 0,
    strangers: Mapping[str, Job | None] | None = None,
    tombstones: Sequence[Tombstone] = (),
) -> list[Work]:
    """Reconcile every job with what was seen.

    `jobs` are the unfinished ones; `strangers` maps stems in queue or claimed that belong to none of them to
    their job, None where there is no such record. Admission is apart (`admission`).
    """
    work = [
        reconcile(job, seen, now, max_recoveries=max_recoveries, wrangle_failures=wrangle_failures)
        for job in jobs
    ]
    buried = {stem: tombstone for tombstone in tombstones for stem in tombstone.stems}
    for stem, job in (strangers or {}).items():
        work.append(_stranger(stem, job, buried.get(stem), seen, now))
    work += [_bury(tombstone, seen, now) for tombstone in tombstones]
    return [item for item in work if item.commands]


def reconcile(
    job: Job, seen: Observation, now: datetime, *, max_recoveries: int, wrangle_failures: int = 0
) -> Work:
    """What becomes of one job: each of its runs, then the state that they make, in one `Save`."""
    verdicts = [examine(job, frame, seen, now, max_recoveries=max_recoveries) for frame in job.frames]
    after = _noted(job, verdicts, now)
    after = _wrangled(after, verdicts, now, wrangle_failures)
    after = _parents_seen(after, seen)
    if after is job and job.state is not State.KILLED and job.state is not aggregate(job.frames):
        after = job.noted("aggregate", by=SCHEDULER, at=now)
    commands: list[Command] = [command for verdict in verdicts for command in verdict.before]
    if after is not job:
        commands.append(Save(job=after))
    commands += [command for verdict in verdicts for command in verdict.after]
    return Work(job_id=job.id, commands=tuple(commands))


def _noted(job: Job, verdicts: Sequence[Verdict], now: datetime) -> Job:
    """The job with all changed runs, and one entry of its history for each kind of event."""
    events: dict[Event, list[Frame]] = {}
    for verdict in verdicts:
        if verdict.event is not None:
            events.setdefault(verdict.event, []).append(verdict.frame)
    for event, frames in events.items():
        changed = {frame.number: frame for frame in frames}
        runs = [changed.get(frame.number, frame) for frame in job.frames]
        note = _ranges([frame.number for frame in frames if frame.number is not None])
        job = job.noted(event.value, by=SCHEDULER, at=now, frames=runs, note=note)
    return job


def _ranges(numbers: Sequence[int]) -> str | None:
    """`frames 1-3, 7`; None for a job without frames."""
    if not numbers:
        return None
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][-1] + 1:
            spans[-1] = [spans[-1][0], number]
        else:
            spans.append([number, number])
    named = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
    return f"frame {named}" if len(numbers) == 1 else f"frames {named}"


def _wrangled(job: Job, verdicts: Sequence[Verdict], now: datetime, limit: int) -> Job:
    """Count final failures in a row; at `limit` hold what has not started. 0 turns it off."""
    if not job.has_frames or not limit:
        return job
    count, before = job.failures_in_row, job.failures_in_row
    for verdict in verdicts:
        if verdict.event is Event.RESULT:
            count = 0
        elif verdict.event in {Event.FAIL, Event.LEASE_EXHAUSTED} and verdict.frame.phase is State.FAILED:
            count += 1
    if count == before:
        return job
    job = replace(job, failures_in_row=count)
    if count < limit or job.wrangled is not None:
        return job
    waiting = {State.WAITING, State.QUEUED}
    last = [f"{f.number} ({f.error.reason.value})" for f in job.frames if f.phase is State.FAILED and f.error]
    evidence = f"{count} frames in a row have failed, the last of them {', '.join(last[-limit:])}"
    held = job.with_frames(
        lambda frame: (
            frame.entered(State.BLOCKED, holds=frozenset({Hold.WRANGLED}))
            if frame.phase in waiting
            else frame
        )
    )
    return job.noted("wrangle", by=SCHEDULER, at=now, frames=held, note=evidence, wrangled=evidence)


def _parents_seen(job: Job, seen: Observation) -> Job:
    """Remember how the parents of a job that is held ended: their records may expire before it starts."""
    if not any(Hold.DEPENDENCIES in frame.holds for frame in job.frames):
        return job
    parents = {d.job: seen.parents[d.job].state for d in job.after if d.job in seen.parents}
    after = tuple(
        replace(d, seen=parents[d.job]) if parents.get(d.job, d.seen) in FINISHED and d.job in parents else d
        for d in job.after
    )
    return job if after == job.after else replace(job, after=after)


def _stranger(
    stem: str, job: Job | None, tombstone: Tombstone | None, seen: Observation, now: datetime
) -> Work:
    """A package in queue or claimed of no unfinished job: of a complete (`job`), removed or expired one.

    One that nothing is known of is left alone: after a loss of Redis, `rebuild` makes its record again.
    """
    queued, claim = seen.queue.get(stem), seen.claims.get(stem)
    commands: list[Command] = []
    for package in (queued, claim):
        if package is None:
            continue
        uid, expires_at = package.meta.uid, package.meta.expires_at
        ours = job is not None and uid in (None, job.uid)
        removed = tombstone is not None and uid in (None, tombstone.uid)
        expired = expires_at is not None and expires_at <= now
        if not (ours or removed or expired):
            continue
        if package is queued:
            commands.append(Withdraw(stem=stem, etag=package.etag))
        elif claim is not None and claim.held:
            if removed:
                commands.append(Interrupt(stem=stem, attempt=claim.meta.attempt, action="discard"))
        else:
            commands.append(CleanUp(stem=stem, claim=claim))
    return Work(job_id=job.id if job else stem, commands=tuple(commands))


def _bury(tombstone: Tombstone, seen: Observation, now: datetime) -> Work:
    """Sweep what arrived after a removal; forget it once its time is over and nothing is claimed."""
    alive = [stem for stem in tombstone.stems if stem in seen.claims or stem in seen.queue]
    commands: list[Command] = [
        Sweep(tombstone=tombstone, stem=stem) for stem in tombstone.stems if stem in seen.remains
    ]
    if now >= tombstone.keep_until and not alive and not commands:
        commands.append(Forget(tombstone=tombstone))
    return Work(job_id=tombstone.id, commands=tuple(commands))
