"""Control actions: every state by every action as the table says, and what frames make of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from aioanalysis.domain.actions import act, allowed_for, overridden
from aioanalysis.domain.frames import Frame, Hold
from aioanalysis.domain.job import Job
from aioanalysis.domain.states import Action, InvalidTransition, State, answer
from aioanalysis.errors import Refused
from tests.support.jobs import make_job

CONTROL = [
    Action.BLOCK,
    Action.BLOCK_NOW,
    Action.UNBLOCK,
    Action.INTERRUPT,
    Action.SUSPEND,
    Action.KILL,
    Action.RETRY,
]
ONE_PACKAGE = [state for state in State if state not in {State.FAILING, State.RETRYING}]
JOB = make_job()
NOW = JOB.submitted_at + timedelta(hours=1)
LIMIT = timedelta(hours=6)


def apply(job: Job, action: Action, **more: bool) -> Job:
    return act(job, action, by="ann", now=NOW, time_limit=LIMIT, **more)


@pytest.mark.parametrize("action", CONTROL)
@pytest.mark.parametrize("state", ONE_PACKAGE)
def test_a_job_of_one_package_goes_by_the_table(state: State, action: Action) -> None:
    job = make_job(state=state)
    cell = answer(state, action)
    if cell == "409":
        with pytest.raises(InvalidTransition) as refused:
            apply(job, action)
        assert refused.value.allowed == tuple(allowed.value for allowed in allowed_for(job))
        assert action.value not in refused.value.allowed
        assert refused.value.state == state
    else:
        changed = apply(job, action)
        assert changed.state is (state if cell == "." else State(cell))
        assert (changed.history[-1].event, changed.history[-1].by) == (action.value, "ann")


@pytest.mark.parametrize("phase", [State.WAITING, State.QUEUED, State.RUNNING])
@pytest.mark.parametrize("action", CONTROL)
def test_a_retrying_job_goes_by_its_phase_where_the_table_says_so(phase: State, action: Action) -> None:
    job = make_job(frames=(Frame(phase=phase, retried=1),), state=State.RETRYING)
    cell = answer(State.RETRYING, action)
    cell = answer(phase, action) if cell == "phase" else cell
    if cell == "409":
        with pytest.raises(InvalidTransition):
            apply(job, action)
    else:
        expected = phase if cell == "." else State(cell)
        assert apply(job, action).frames[0].phase is expected


def test_what_is_put_back_gets_the_next_attempt_and_what_is_only_held_does_not() -> None:
    assert apply(make_job(state=State.RUNNING), Action.INTERRUPT).attempt == 2
    assert apply(make_job(state=State.QUEUED), Action.SUSPEND).attempt == 2
    assert apply(make_job(state=State.RUNNING), Action.BLOCK_NOW).attempt == 2
    assert apply(make_job(state=State.FAILED), Action.RETRY).attempt == 2
    assert apply(make_job(state=State.QUEUED), Action.BLOCK).attempt == 1
    assert apply(make_job(state=State.RUNNING), Action.KILL).attempt == 1


def test_an_interrupted_and_a_killed_run_are_among_the_attempts() -> None:
    for action, ending in ((Action.INTERRUPT, "interrupted"), (Action.KILL, "killed")):
        (attempt,) = apply(make_job(state=State.RUNNING), action).frames[0].attempts
        assert (attempt.number, attempt.ending) == (1, ending)


def test_a_retry_has_a_new_time_limit_and_never_a_new_expiry() -> None:
    job = make_job(state=State.FAILED)
    again = apply(job, Action.RETRY)
    assert again.deadline == NOW + LIMIT
    assert again.expires_at == job.expires_at
    assert again.error is None


def test_a_retry_ends_with_the_job_and_is_refused_in_its_last_minute() -> None:
    job = make_job(state=State.FAILED)
    late = job.expires_at - timedelta(hours=1)
    assert act(job, Action.RETRY, by="ann", now=late, time_limit=LIMIT).deadline == job.expires_at
    with pytest.raises(Refused, match="resubmit"):
        act(
            job,
            Action.RETRY,
            by="ann",
            now=job.expires_at - timedelta(seconds=59),
            time_limit=LIMIT,
        )


def framed(*phases: State, **changes: object) -> Job:
    frames = tuple(Frame(number=n, phase=phase) for n, phase in enumerate(phases, start=1))
    return make_job(frames=frames, state=changes.pop("state"), **changes)


def phases(job: Job) -> list[str]:
    return [frame.phase.value for frame in job.frames]


def test_a_block_of_a_job_with_frames_holds_what_has_not_started() -> None:
    job = framed(State.RUNNING, State.QUEUED, State.WAITING, State.COMPLETE, state=State.RUNNING)
    held = apply(job, Action.BLOCK)
    assert phases(held) == ["running", "blocked", "blocked", "complete"]
    assert held.state is State.RUNNING
    assert phases(apply(held, Action.UNBLOCK)) == ["running", "waiting", "waiting", "complete"]


def test_an_unblock_needs_a_blocked_frame() -> None:
    with pytest.raises(InvalidTransition):
        apply(framed(State.FAILED, State.RUNNING, state=State.FAILING), Action.UNBLOCK)


def test_suspend_lets_running_frames_finish_and_interrupt_does_not() -> None:
    job = framed(State.RUNNING, State.QUEUED, state=State.RUNNING)
    assert phases(apply(job, Action.SUSPEND)) == ["running", "waiting"]
    assert phases(apply(job, Action.INTERRUPT)) == ["waiting", "queued"]


def test_a_kill_ends_every_unfinished_frame_and_the_job_is_killed() -> None:
    job = framed(State.FAILED, State.RUNNING, State.WAITING, State.COMPLETE, state=State.FAILING)
    killed = apply(job, Action.KILL)
    assert phases(killed) == ["failed", "killed", "killed", "complete"]
    assert killed.state is State.KILLED


def test_a_retry_puts_back_the_frames_that_failed_or_all() -> None:
    job = framed(State.FAILED, State.COMPLETE, State.KILLED, state=State.FAILED)
    assert phases(apply(job, Action.RETRY)) == ["waiting", "complete", "waiting"]
    everything = apply(job, Action.RETRY, all_frames=True)
    assert phases(everything) == ["waiting"] * 3
    assert [frame.attempt for frame in everything.frames] == [2, 2, 2]


@pytest.mark.parametrize("to", State)
def test_the_override_sets_any_state_and_raises_every_attempt(to: State) -> None:
    for job in (make_job(state=State.RUNNING), framed(State.COMPLETE, State.RUNNING, state=State.RUNNING)):
        changed = overridden(job, to, by="system", now=NOW)
        assert changed.state is to
        assert all(frame.attempt == 2 for frame in changed.frames)


def test_a_job_blocked_by_hand_is_held_by_its_user() -> None:
    assert overridden(JOB, State.BLOCKED, by="system", now=NOW).frames[0].holds == {Hold.USER}
    twice = apply(replace(apply(JOB, Action.BLOCK)), Action.BLOCK)
    assert twice.frames[0].holds == {Hold.USER}
