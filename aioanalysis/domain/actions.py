"""What a user's action makes of a job: its record only. The next pass makes storage follow.

A run that shall not count any more gets the next attempt: its package in the queue is then withdrawn, a live
run of it is interrupted, and what it still leaves is stale.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from typing import Final

from aioanalysis.domain.frames import Attempt, Frame, Hold
from aioanalysis.domain.job import Job
from aioanalysis.domain.outcomes import JobError, Reason
from aioanalysis.domain.states import Action, State, answer, refuse
from aioanalysis.errors import Refused

LEAST_TIME: Final = timedelta(minutes=1)


def act(
    job: Job, action: Action, *, by: str, now: datetime, time_limit: timedelta, all_frames: bool = False
) -> Job:
    """`job` after `action`; raises `InvalidTransition`, and `Refused` for a retry that has no time left.

    Of a job with frames each frame goes by its own state: the action is refused when it fits none.
    """
    change = _CHANGES[action]
    frames, fits = [], False
    for frame in job.frames:
        cell = answer(_row(frame.phase, frame.state, action), action)
        again = action is Action.RETRY and all_frames and frame.phase is State.COMPLETE and job.has_frames
        if cell == "409" and not again:
            frames.append(frame)
            continue
        fits = True
        frames.append(change(frame, now))
    if not fits:
        refuse(job.state, action, allowed_for(job))
    if action is Action.RETRY:
        job = replace(job, deadline=_new_deadline(job, now, time_limit))
    if action in {Action.RETRY, Action.UNBLOCK}:
        job = replace(job, failures_in_row=0, wrangled=None)
    state = State.KILLED if action is Action.KILL else None
    return job.noted(action.value, by=by, at=now, frames=frames, state=state)


def allowed_for(job: Job) -> tuple[Action, ...]:
    """The actions that fit the job as it is now: control actions by its runs, others by its state."""
    return _allowed(job.state, frozenset((frame.phase, frame.state) for frame in job.frames))


@cache
def _allowed(state: State, runs: frozenset[tuple[State, State]]) -> tuple[Action, ...]:
    """`runs` by (phase, state): there are few kinds of them."""
    return tuple(
        action
        for action in Action
        if (
            any(answer(_row(*run, action), action) != "409" for run in runs)
            if action in _CHANGES
            else answer(state, action) != "409"
        )
    )


def overridden(job: Job, to: State, *, by: str, now: datetime) -> Job:
    """`job` set to `to` by hand. Every run gets the next attempt, so that none under way counts."""

    def change(frame: Frame) -> Frame:
        raised = replace(frame, attempt=frame.attempt + 1)
        if to in {State.FAILING, State.RETRYING}:
            return raised
        holds = frozenset({Hold.USER}) if to is State.BLOCKED else frozenset()
        error = frame.error if to is State.FAILED else None
        return raised.entered(to, holds=holds, error=error)

    return job.noted(Action.OVERRIDE.value, by=by, at=now, frames=job.with_frames(change), state=to)


def _row(phase: State, state: State, action: Action) -> State:
    """The row of the table that answers: `phase` cells of a retried run ask that of its phase."""
    return phase if answer(state, action) == "phase" else state


def _new_deadline(job: Job, now: datetime, time_limit: timedelta) -> datetime:
    deadline = min(now + time_limit, job.expires_at)
    if deadline - now < LEAST_TIME:
        raise Refused(f"the job expires at {job.expires_at.isoformat()}: too soon to run again; resubmit it")
    return deadline


# --- one run ---


def _block(frame: Frame, now: datetime) -> Frame:
    """Held. A package of it that a worker has claimed meanwhile came first: the run then goes on."""
    return frame.entered(State.BLOCKED, holds=frame.holds | {Hold.USER})


def _block_now(frame: Frame, now: datetime) -> Frame:
    held = _interrupted(frame, now) if frame.phase in {State.QUEUED, State.RUNNING} else frame
    return held.entered(State.BLOCKED, holds=frame.holds | {Hold.USER})


def _unblock(frame: Frame, now: datetime) -> Frame:
    return frame.entered(State.WAITING)


def _interrupted(frame: Frame, now: datetime) -> Frame:
    attempts = frame.attempts
    if frame.phase is State.RUNNING:
        over = Attempt(number=frame.attempt, ending="interrupted", finished_at=now.isoformat())
        attempts = frame.ended(over)
    return frame.entered(State.WAITING, attempt=frame.attempt + 1, attempts=attempts)


def _suspend(frame: Frame, now: datetime) -> Frame:
    """What runs goes on; what only waits for a worker is taken back."""
    return frame if frame.phase is State.RUNNING else _interrupted(frame, now)


def _kill(frame: Frame, now: datetime) -> Frame:
    error = JobError(reason=Reason.KILLED, message="killed by a user")
    attempts = frame.attempts
    if frame.phase is State.RUNNING:
        over = Attempt(number=frame.attempt, ending="killed", finished_at=now.isoformat(), error=error)
        attempts = frame.ended(over)
    return frame.entered(State.KILLED, error=error, attempts=attempts)


def _retry(frame: Frame, now: datetime) -> Frame:
    return frame.entered(State.WAITING, attempt=frame.attempt + 1, recoveries=0, retried=0, usage=None)


_CHANGES: Final[dict[Action, Callable[[Frame, datetime], Frame]]] = {
    Action.BLOCK: _block,
    Action.BLOCK_NOW: _block_now,
    Action.UNBLOCK: _unblock,
    Action.INTERRUPT: _interrupted,
    Action.SUSPEND: _suspend,
    Action.KILL: _kill,
    Action.RETRY: _retry,
}
