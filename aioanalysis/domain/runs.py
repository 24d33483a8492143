"""What a pass makes of one run: its next phase, and what is to be done with its files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

from aioanalysis.domain import foreign
from aioanalysis.domain.commands import Archive, CleanUp, Command, Interrupt, Note, Recover, Withdraw
from aioanalysis.domain.dependencies import is_met
from aioanalysis.domain.exchange import Ending, Sidecar
from aioanalysis.domain.frames import Attempt, Frame, Hold
from aioanalysis.domain.job import Job
from aioanalysis.domain.observation import ClaimedPackage, Observation, Outcome, QueuedPackage
from aioanalysis.domain.outcomes import JobError, Reason
from aioanalysis.domain.retries import is_retried
from aioanalysis.domain.states import FINISHED, Event, State
from aioanalysis.domain.usage import Usage

Package = TypeVar("Package", QueuedPackage, ClaimedPackage)


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """`frame` as it becomes by `event` (None: unchanged); commands before and after its record is saved."""

    frame: Frame
    event: Event | None = None
    before: tuple[Command, ...] = ()
    after: tuple[Command, ...] = ()


def examine(job: Job, frame: Frame, seen: Observation, now: datetime, *, max_recoveries: int) -> Verdict:
    """Decide one run, by the row of the state table that its phase has (PROTOCOL.md section 5)."""
    if _rests(job, frame, seen, now):
        return Verdict(frame=frame)
    look = _Look(job, frame, seen, now, max_recoveries)
    return look.decide()


def _rests(job: Job, frame: Frame, seen: Observation, now: datetime) -> bool:
    """Whether nothing was seen of it and nothing is due: of a great many runs that is all there is to say."""
    stem = job.stem(frame)
    if stem in seen.queue or stem in seen.claims or seen.outcomes.get(stem):
        return False
    return frame.phase in FINISHED or (frame.phase is State.WAITING and now < job.deadline)


def recovered(frame: Frame, claim: ClaimedPackage, now: datetime) -> Frame | None:
    """The run after its worker was lost, put back under the next attempt; None if that is on it already."""
    attempt = claim.meta.attempt
    if frame.attempt > attempt:
        return None
    over = Attempt(number=attempt, ending="lost", finished_at=now.isoformat(), host=claim.meta.worker)
    return frame.entered(
        State.QUEUED, attempt=attempt + 1, recoveries=frame.recoveries + 1, attempts=frame.ended(over)
    )


class _Look:
    """One run and what was seen of it."""

    def __init__(self, job: Job, frame: Frame, seen: Observation, now: datetime, max_recoveries: int) -> None:
        self.job, self.frame, self.seen, self.now = job, frame, seen, now
        self.max_recoveries = max_recoveries
        self.stem = job.stem(frame)
        self.queued = self._own(seen.queue.get(self.stem))
        self.claim = self._own(seen.claims.get(self.stem))
        found = [o for o in seen.outcomes.get(self.stem, ()) if o.mark.uid in (None, job.uid)]
        self.stale = [o for o in found if self._is_stale(o)]
        self.current = {o.ending: o for o in found if not self._is_stale(o)}

    def _own(self, package: Package | None) -> Package | None:
        """`package` if it is the job's: of its uid, or of an older tool that writes none."""
        return package if package is not None and package.meta.uid in (None, self.job.uid) else None

    def _is_stale(self, outcome: Outcome) -> bool:
        """Of an earlier attempt; of a killed run nothing counts."""
        attempt = outcome.attempt
        return self.frame.phase is State.KILLED or (attempt is not None and attempt < self.frame.attempt)

    # --- the decision ---

    def decide(self) -> Verdict:
        archived = tuple(
            Archive(stem=self.stem, ending=o.ending, attempt=o.attempt or self.frame.attempt)
            for o in self.stale
        )
        verdict = self._decide()
        return replace(verdict, before=archived + verdict.before)

    def _decide(self) -> Verdict:
        unreadable = [o for o in self.current.values() if o.sidecar is None]
        ended = self._ended()
        if ended is not None:
            return ended
        if self.frame.phase in FINISHED:
            return self._same(*self._put_away(self.frame))
        if self.now >= self.job.deadline:
            return self._past_deadline()
        if unreadable:
            name = f"{self.stem}{unreadable[0].ending.sidecar_suffix}"
            return self._same(Note(text=f"{name} cannot be read: {unreadable[0].problem}"))
        if self.frame.phase is State.BLOCKED:
            return self._blocked()
        if self.queued is not None and self.queued.meta.attempt >= self.frame.attempt:
            return self._in_queue(self.queued)
        before = self._withdraw()
        if self.claim is not None:
            verdict = self._claimed(self.claim)
        elif self.frame.phase is State.QUEUED and self._looked_up and self.frame.packaging is None:
            verdict = self._to(State.RUNNING, Event.GONE)
        else:
            verdict = self._same()
        return replace(verdict, before=before + verdict.before)

    @property
    def _looked_up(self) -> bool:
        return self.stem in self.seen.outcomes

    def _same(self, *commands: Command) -> Verdict:
        return Verdict(frame=self.frame, after=commands)

    def _to(self, phase: State, event: Event, *commands: Command, **changes: Any) -> Verdict:
        """In `phase`, if that or anything else about it changes."""
        frame = self.frame.entered(phase, **changes)
        return Verdict(frame=frame, event=None if frame == self.frame else event, after=commands)

    # --- a run that has ended ---

    def _ended(self) -> Verdict | None:
        """A result wins over a failure; None where there is neither that can be read and changes anything."""
        result, failure = self.current.get(Ending.COMPLETE), self.current.get(Ending.FAILED)
        if self.frame.phase is State.COMPLETE:
            return None
        if result is not None and result.sidecar is not None:
            return self._complete(result, result.sidecar)
        if failure is None or failure.sidecar is None or result is not None:
            return None
        if self.frame.phase is State.FAILED:
            return self._add_to_time_limit(failure, failure.sidecar)
        return self._failed(failure, failure.sidecar)

    def _complete(self, outcome: Outcome, sidecar: Sidecar) -> Verdict:
        attempt = max(self.frame.attempt, outcome.attempt or 0)
        over = _attempt(attempt, "complete", sidecar, None)
        frame = self.frame.entered(
            State.COMPLETE,
            error=None,
            usage=_lean(sidecar.usage),
            attempt=attempt,
            attempts=self.frame.ended(over),
            packaged_count=_first(sidecar.packaged_count, self.frame.packaged_count),
        )
        return Verdict(frame=frame, event=Event.RESULT, after=self._put_away(frame, ended=True))

    def _failed(self, outcome: Outcome, sidecar: Sidecar) -> Verdict:
        error = sidecar.error or JobError(
            reason=Reason.CONTAINER, message="the run failed and said nothing of why"
        )
        attempt = max(self.frame.attempt, outcome.attempt or 0)
        changes: dict[str, Any] = {
            "usage": _lean(sidecar.usage),
            "attempts": self.frame.ended(_attempt(attempt, "failed", sidecar, error)),
            "packaged_count": _first(sidecar.packaged_count, self.frame.packaged_count),
        }
        if self.now < self.job.deadline and is_retried(self.frame, error, self.job.retries):
            return self._retried(attempt, changes)
        frame = self.frame.entered(State.FAILED, error=error, attempt=attempt, **changes)
        return Verdict(frame=frame, event=Event.FAIL, after=self._put_away(frame, ended=True))

    def _retried(self, attempt: int, changes: dict[str, Any]) -> Verdict:
        """Back into the queue from the claim, once its worker has let it go; else packaged anew."""
        if self.claim is not None and self.claim.held:
            return self._same()
        changes |= {"attempt": attempt + 1, "retried": self.frame.retried + 1}
        archive = Archive(stem=self.stem, ending=Ending.FAILED, attempt=attempt)
        if self.frame.phase is State.BLOCKED:
            return Verdict(frame=replace(self.frame, **changes), event=Event.FAIL_RETRYABLE, after=(archive,))
        if self.claim is None:
            return self._to(State.WAITING, Event.FAIL_RETRYABLE, archive, **changes)
        return self._to(State.QUEUED, Event.FAIL_RETRYABLE, archive, self._recover(self.claim), **changes)

    def _add_to_time_limit(self, outcome: Outcome, sidecar: Sidecar) -> Verdict | None:
        """After the deadline the time limit stays the reason; what the run says of itself is added."""
        error, said = self.frame.error, sidecar.error
        if error is None or error.reason is not Reason.TIME_LIMIT or said is None or error.error is not None:
            return None
        text = said.error or said.message
        attempt = max(self.frame.attempt, outcome.attempt or 0)
        frame = replace(
            self.frame,
            error=replace(error, script=said.script, error=text),
            attempt=attempt,
            attempts=self.frame.ended(_attempt(attempt, "failed", sidecar, said)),
        )
        return Verdict(frame=frame, event=Event.FAIL, after=self._put_away(frame, ended=True))

    # --- a run under way ---

    def _in_queue(self, queued: QueuedPackage) -> Verdict:
        """In the queue: also after a crash between upload and state write, or given back by a worker."""
        meta, claim = queued.meta, self.claim
        commands: tuple[Command, ...] = ()
        if claim is not None and not claim.held and claim.meta.attempt < meta.attempt:
            commands = (CleanUp(stem=self.stem, claim=claim),)
        count = _first(meta.records, self.frame.packaged_count)
        return self._to(State.QUEUED, Event.QUEUE, *commands, attempt=meta.attempt, packaged_count=count)

    def _claimed(self, claim: ClaimedPackage) -> Verdict:
        attempt = claim.meta.attempt
        if attempt < self.frame.attempt:
            return self._overtaken(claim)
        if not claim.lapsed or not self._looked_up:
            return self._to(State.RUNNING, Event.CLAIM, attempt=attempt)
        if self.frame.recoveries < self.max_recoveries:
            return self._same(self._recover(claim))
        worker = claim.meta.worker or "unknown"
        text = f"the worker {worker} vanished, as did {self.frame.recoveries} before it"
        error = JobError(reason=Reason.WORKER_LOST, message=text)
        over = Attempt(
            number=attempt, ending="lost", finished_at=self.now.isoformat(), host=worker, error=error
        )
        clean = CleanUp(stem=self.stem, claim=claim)
        attempts = self.frame.ended(over)
        return self._to(State.FAILED, Event.LEASE_EXHAUSTED, clean, error=error, attempts=attempts)

    def _overtaken(self, claim: ClaimedPackage) -> Verdict:
        """A claim of an earlier attempt: its run is being ended, or a way back that was broken off."""
        if claim.held:
            return self._same(Interrupt(stem=self.stem, attempt=claim.meta.attempt, action="interrupt"))
        if not (claim.lapsed or claim.released):
            return self._same()
        if self.frame.phase in {State.QUEUED, State.RUNNING}:
            return self._same(self._recover(claim))
        return self._same(CleanUp(stem=self.stem, claim=claim))

    def _recover(self, claim: ClaimedPackage) -> Recover:
        return Recover(job_id=self.job.id, number=self.frame.number, stem=self.stem, claim=claim)

    def _blocked(self) -> Verdict:
        before = self._withdraw()
        claim = self.claim
        if claim is not None and claim.meta.attempt >= self.frame.attempt:
            if claim.held:  # the block came too late
                verdict = self._to(State.RUNNING, Event.CLAIM, attempt=claim.meta.attempt)
            elif claim.lapsed and self._looked_up:
                verdict = self._same(CleanUp(stem=self.stem, claim=claim))
            else:
                verdict = self._same()
        elif claim is not None:
            verdict = self._overtaken(claim)
        elif self.frame.holds == {Hold.DEPENDENCIES} and self._dependencies_are_met():
            verdict = self._to(State.WAITING, Event.DEPENDENCIES_MET)
        else:
            verdict = self._same()
        return replace(verdict, before=before + verdict.before)

    def _dependencies_are_met(self) -> bool:
        parents, number = self.seen.parents, self.frame.number
        return all(is_met(d, parents.get(d.job), number) is True for d in self.job.after)

    def _past_deadline(self) -> Verdict:
        phase, job = self.frame.phase, self.job
        reason = Reason.DEPENDENCY if Hold.DEPENDENCIES in self.frame.holds else Reason.TIME_LIMIT
        hours = (job.deadline - job.submitted_at).total_seconds() / 3600
        text = f"the time limit, {hours:g} h after submission, passed while it was {phase.value}"
        if self.frame.postponed is not None:
            text += f"; its records could not be had: {self.frame.postponed.text}"
        if reason is Reason.DEPENDENCY:
            text += f", waiting for {', '.join(f'{d.job} to be {d.when.value}' for d in job.after)}"
        error = JobError(reason=reason, message=text)
        return self._to(State.FAILED, Event.DEADLINE, *self._withdraw(), error=error)

    # --- files ---

    def _withdraw(self) -> tuple[Command, ...]:
        return (Withdraw(stem=self.stem, etag=self.queued.etag),) if self.queued else ()

    def _put_away(self, frame: Frame, *, ended: bool = False) -> tuple[Command, ...]:
        """What goes once a run is over; a held claim only of a killed run, which is told to end."""
        withdraw, claim = self._withdraw(), self.claim
        if claim is not None and claim.held:
            if frame.phase is not State.KILLED:
                return withdraw
            return (*withdraw, Interrupt(stem=self.stem, attempt=claim.meta.attempt, action="kill"))
        if not (ended or withdraw or claim):
            return ()
        return (*withdraw, CleanUp(stem=self.stem, claim=claim))


def _attempt(number: int, ending: str, sidecar: Sidecar, error: JobError | None) -> Attempt:
    body, usage = sidecar.body, sidecar.usage
    exit_code, method, worker = (body.get(key) for key in ("exit_code", "method", "worker"))
    return Attempt(
        number=number,
        ending=ending,
        digest=foreign.text(method.get("digest")) if isinstance(method, dict) else None,
        started_at=foreign.text(body.get("started_at")),
        finished_at=foreign.text(body.get("finished_at")),
        host=sidecar.worker,
        worker=foreign.text(worker.get("id")) if isinstance(worker, dict) else None,
        exit_code=exit_code if isinstance(exit_code, int) else None,
        error=error,
        usage=_lean(usage),
        result_bytes=sidecar.result_bytes,
    )


def _lean(usage: Usage | None) -> Usage | None:
    """Without its series: the sidecar keeps that."""
    return None if usage is None else replace(usage, series=())


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
