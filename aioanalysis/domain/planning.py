"""What a scheduler pass decides: `plan(jobs, seen, now)` gives commands, and performs nothing.

Each job's commands are one `Work`, to be performed in order; one that fails stops the rest of that job's work
and nothing else. Records are saved before files are touched, so that a pass that dies is simply made again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from aioanalysis.domain.commands import (
    Admit,
    Archive,
    CleanUp,
    Command,
    Forget,
    Interrupt,
    Note,
    Requeue,
    Save,
    Sweep,
    Withdraw,
    Work,
)
from aioanalysis.domain.exchange import Ending
from aioanalysis.domain.job import Job, Tombstone
from aioanalysis.domain.observation import ClaimedPackage, Observation, Outcome, QueuedPackage
from aioanalysis.domain.outcomes import JobError, Reason
from aioanalysis.domain.states import FINISHED, Event, State, after

SCHEDULER: Final = "scheduler"


def plan(
    jobs: Sequence[Job],
    seen: Observation,
    now: datetime,
    *,
    max_recoveries: int,
    strangers: Mapping[str, Job | None] | None = None,
    tombstones: Sequence[Tombstone] = (),
) -> list[Work]:
    """Reconcile every job with what was seen.

    `jobs` are the unfinished ones; `strangers` maps stems in queue or claimed that belong to none of them to
    their job, None where there is no such record. Admission is apart (`admissions`).
    """
    work = [reconcile(job, seen, now, max_recoveries=max_recoveries) for job in jobs]
    buried = {stem: tombstone for tombstone in tombstones for stem in tombstone.stems}
    for stem, job in (strangers or {}).items():
        work.append(_stranger(stem, job, buried.get(stem), seen, now))
    work += [_bury(tombstone, seen, now) for tombstone in tombstones]
    return [item for item in work if item.commands]


def reconcile(job: Job, seen: Observation, now: datetime, *, max_recoveries: int) -> Work:
    """What the state of one job of one package becomes, and which of its files go."""
    stem = job.stem
    queued = _own(seen.queue.get(stem), job)
    claim = _own(seen.claims.get(stem), job)
    outcomes = [o for o in seen.outcomes.get(stem, ()) if o.mark.uid in (None, job.uid)]
    stale = [o for o in outcomes if _attempt(o) is not None and (_attempt(o) or 0) < job.attempt]
    current = [o for o in outcomes if o not in stale]
    commands: list[Command] = [
        Archive(stem=stem, ending=o.ending, attempt=_attempt(o) or job.attempt) for o in stale
    ]

    ended = _ended(job, current, now)
    commands += ended or ()
    ends_now = any(isinstance(command, Save) for command in commands)
    if ends_now or job.state in FINISHED:
        if ends_now or queued or claim:
            commands += _put_away(stem, queued, claim)
    elif now >= job.deadline:
        commands.append(Save(job=_past_deadline(job, now)))
        commands += [Withdraw(stem=stem, etag=queued.etag)] if queued else []
    elif ended is not None:
        pass  # an ending that cannot be read: the job stays as it is
    elif queued is not None and queued.meta.attempt >= job.attempt:
        commands += _in_queue(job, queued, claim, now)
    else:
        commands += [Withdraw(stem=stem, etag=queued.etag)] if queued else []
        if claim is not None:
            commands += _claimed(job, claim, seen, now, max_recoveries)
        elif stem in seen.outcomes and job.packaging is None:
            commands += _moved(job, Event.GONE, now)
    return Work(job_id=job.id, commands=tuple(commands))


def _own(package: Any, job: Job) -> Any:
    """`package` if it is the job's: its uid, or of an older tool that writes none."""
    return package if package is not None and package.meta.uid in (None, job.uid) else None


def _attempt(outcome: Outcome) -> int | None:
    marked = outcome.mark.attempt
    return outcome.sidecar.attempt if marked is None and outcome.sidecar else marked


def _moved(job: Job, event: Event, now: datetime, **changes: Any) -> list[Command]:
    """Save the job in the state that the table gives, if that or anything else about it changes."""
    to = after(job.state, event)
    changed = any(getattr(job, name) != value for name, value in changes.items())
    if to is job.state and not changed:
        return []
    return [Save(job=job.moved(to, event=event.value, by=SCHEDULER, at=now, **changes))]


def _ended(job: Job, outcomes: Sequence[Outcome], now: datetime) -> list[Command] | None:
    """Commands for a run that has ended, None where none has: a result wins over a failure."""
    by_ending = {outcome.ending: outcome for outcome in outcomes}
    for ending, event in ((Ending.COMPLETE, Event.RESULT), (Ending.FAILED, Event.FAIL)):
        outcome = by_ending.get(ending)
        if outcome is None:
            continue
        if outcome.sidecar is None:
            return [Note(text=f"the sidecar of {job.stem}{ending.value} cannot be read: {outcome.problem}")]
        return _apply(job, outcome, event, now)
    return None


def _apply(job: Job, outcome: Outcome, event: Event, now: datetime) -> list[Command]:
    sidecar = outcome.sidecar
    if sidecar is None or after(job.state, event) is job.state:
        return []
    error = None
    if event is Event.FAIL:
        error = sidecar.error or JobError(reason=Reason.CONTAINER, message="the run failed and said nothing")
    count = sidecar.packaged_count
    return _moved(
        job,
        event,
        now,
        error=error,
        usage=sidecar.usage,
        attempt=max(job.attempt, _attempt(outcome) or job.attempt),
        packaged_count=count if count is not None else job.packaged_count,
        packaging=None,
        postponed=None,
    )


def _past_deadline(job: Job, now: datetime) -> Job:
    hours = (job.deadline - job.submitted_at).total_seconds() / 3600
    text = f"the time limit of {hours:g} h from submission passed while the job was {job.state.value}"
    if job.postponed is not None:
        text += f"; its records could not be had: {job.postponed.text}"
    return job.moved(
        after(job.state, Event.DEADLINE),
        event=Event.DEADLINE.value,
        by=SCHEDULER,
        at=now,
        error=JobError(reason=Reason.TIME_LIMIT, message=text),
        packaging=None,
        postponed=None,
    )


def _put_away(stem: str, queued: QueuedPackage | None, claim: ClaimedPackage | None) -> list[Command]:
    withdraw: list[Command] = [Withdraw(stem=stem, etag=queued.etag)] if queued else []
    if claim is not None and claim.held:
        return withdraw
    return [*withdraw, CleanUp(stem=stem, claim=claim)]


def _in_queue(job: Job, queued: QueuedPackage, claim: ClaimedPackage | None, now: datetime) -> list[Command]:
    """In the queue: also after a crash between upload and state write, or given back by a worker."""
    count = queued.meta.records
    commands = _moved(
        job,
        Event.QUEUE,
        now,
        attempt=queued.meta.attempt,
        packaged_count=count if count is not None else job.packaged_count,
        packaging=None,
        postponed=None,
    )
    if claim is not None and not claim.held and claim.meta.attempt < queued.meta.attempt:
        commands.append(CleanUp(stem=job.stem, claim=claim))
    return commands


def _claimed(
    job: Job, claim: ClaimedPackage, seen: Observation, now: datetime, max_recoveries: int
) -> list[Command]:
    """Held by a worker, or lost. A lost one of an earlier attempt is a recovery that was broken off, or of a
    job that has been put back: then it only stands in the way."""
    attempt = claim.meta.attempt
    current = attempt >= job.attempt
    if not claim.lapsed or job.stem not in seen.outcomes:
        return _moved(job, Event.CLAIM, now, attempt=attempt, packaging=None) if current else []
    if not current and job.state in {State.QUEUED, State.RUNNING}:
        return [Requeue(job=job, claim=claim, save=False)]
    if not current:
        return [CleanUp(stem=job.stem, claim=claim)]
    if after(job.state, Event.LEASE) is not State.QUEUED and job.state is not State.QUEUED:
        return []
    if job.recoveries >= max_recoveries:
        text = f"the worker {claim.meta.worker or 'unknown'} vanished, as did {job.recoveries} before it"
        error = JobError(reason=Reason.WORKER_LOST, message=text)
        return [
            *_moved(job, Event.LEASE_EXHAUSTED, now, error=error),
            CleanUp(stem=job.stem, claim=claim),
        ]
    back = job.moved(
        State.QUEUED,
        event=Event.LEASE.value,
        by=SCHEDULER,
        at=now,
        attempt=attempt + 1,
        recoveries=job.recoveries + 1,
    )
    return [Requeue(job=back, claim=claim, save=True)]


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


def admissions(
    jobs: Sequence[Job], seen: Observation, now: datetime, *, limit: int, busy: Collection[str]
) -> list[Admit]:
    """Which waiting jobs to package now, while fewer than `limit` packages are in the queue.

    Submitters take turns: the next place goes to whoever has the fewest packages queued or being built;
    within one submitter the oldest job goes first. `busy` are the ids being packaged, each with its place.
    """
    owners: Counter[str] = Counter(p.meta.owner for p in seen.queue.values() if p.meta.owner is not None)
    owners.update(job.submitter for job in jobs if job.id in busy)
    lines: dict[str, list[Job]] = {}
    for job in sorted(jobs, key=lambda job: (job.submitted_at, job.id), reverse=True):
        if _ready(job, seen, now) and job.id not in busy:
            lines.setdefault(job.submitter, []).append(job)
    admitted: list[Admit] = []
    for _ in range(max(0, limit - len(seen.queue) - len(busy))):
        if not lines:
            break
        name = min(lines, key=lambda name: (owners[name], lines[name][-1].submitted_at, name))
        admitted.append(Admit(job=lines[name].pop()))
        owners[name] += 1
        if not lines[name]:
            del lines[name]
    return admitted


def _ready(job: Job, seen: Observation, now: datetime) -> bool:
    """Waiting, not put off, in time, and no package of any attempt exists (else a former run is ending)."""
    return (
        job.state is State.WAITING
        and now < job.deadline
        and (job.postponed is None or job.postponed.until <= now)
        and job.stem not in seen.queue
        and job.stem not in seen.claims
    )
