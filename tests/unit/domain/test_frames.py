"""Frames, dependencies and wrangling: many runs, one job."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import product

import pytest

from aioanalysis.domain.commands import Save
from aioanalysis.domain.dependencies import Condition, Dependency, Parent, is_met
from aioanalysis.domain.exchange import Ending, RunMark
from aioanalysis.domain.frames import Frame, Hold, aggregate
from aioanalysis.domain.job import Job
from aioanalysis.domain.observation import Observation, Outcome
from aioanalysis.domain.outcomes import Reason
from aioanalysis.domain.planning import reconcile
from aioanalysis.domain.states import FINISHED, State
from tests.support.jobs import make_job, make_sidecar

PHASES = [state for state in State if state not in {State.FAILING, State.RETRYING}]
SUBMITTED = make_job().submitted_at


def frames(*phases: State) -> tuple[Frame, ...]:
    return tuple(Frame(number=n, phase=phase) for n, phase in enumerate(phases, start=1))


@pytest.mark.parametrize(
    ("phases", "state"),
    [
        ("complete complete", "complete"),
        ("complete failed", "failed"),
        ("killed failed", "failed"),
        ("complete killed", "killed"),
        ("blocked blocked", "blocked"),
        ("blocked complete", "blocked"),
        ("blocked failed", "blocked"),
        ("failed running", "failing"),
        ("failed waiting", "failing"),
        ("running waiting", "running"),
        ("complete waiting", "running"),
        ("queued waiting", "queued"),
        ("queued blocked", "queued"),
        ("waiting waiting", "waiting"),
    ],
)
def test_the_first_rule_that_matches_makes_the_jobs_state(phases: str, state: str) -> None:
    assert aggregate(frames(*(State(phase) for phase in phases.split()))) is State(state)


@pytest.mark.parametrize("pair", list(product(PHASES, repeat=2)))
def test_a_job_is_finished_when_and_only_when_all_its_frames_are(pair: tuple[State, State]) -> None:
    assert (aggregate(frames(*pair)) in FINISHED) == all(phase in FINISHED for phase in pair)


def test_an_unfinished_frame_that_was_retried_makes_the_job_retrying_unless_one_has_failed() -> None:
    retried = Frame(number=1, phase=State.QUEUED, retried=1)
    assert retried.state is State.RETRYING
    assert aggregate([retried, Frame(number=2, phase=State.RUNNING)]) is State.RETRYING
    assert aggregate([retried, Frame(number=2, phase=State.FAILED)]) is State.FAILING
    assert aggregate([replace(retried, phase=State.COMPLETE)]) is State.COMPLETE


def test_a_job_of_one_run_has_its_runs_state() -> None:
    for phase in PHASES:
        assert aggregate([Frame(phase=phase)]) is phase


# --- dependencies ---


@pytest.mark.parametrize("when", Condition)
@pytest.mark.parametrize("state", State)
def test_a_condition_is_open_until_the_parent_has_ended(when: Condition, state: State) -> None:
    met = is_met(Dependency(job="p", when=when), Parent(state=state, frames={}), None)
    if state not in FINISHED:
        assert met is None
    else:
        assert met is (when is Condition.FINISHED or when.value == state.value)


def test_each_ties_frame_to_frame() -> None:
    each = Dependency(job="p", each=True)
    parent = Parent(state=State.FAILING, frames={1: State.COMPLETE, 2: State.FAILED})
    assert [is_met(each, parent, n) for n in (1, 2, 3)] == [True, False, None]
    assert is_met(each, Parent(state=State.COMPLETE, frames={}), 2) is True


def test_a_parent_whose_record_expired_counts_as_it_was_seen_last() -> None:
    assert is_met(Dependency(job="p"), None, None) is None
    assert is_met(Dependency(job="p", seen=State.COMPLETE), None, None) is True
    assert is_met(Dependency(job="p", seen=State.FAILED), None, None) is False


def blocked(*holds: Hold, **changes: object) -> Job:
    frame = Frame(phase=State.BLOCKED, holds=frozenset(holds))
    return make_job(frames=(frame,), state=State.BLOCKED, after=(Dependency(job="p"),), **changes)


def after_pass(job: Job, seen: Observation, **options: int) -> Job:
    now = SUBMITTED + timedelta(minutes=1)
    commands = reconcile(job, seen, now, max_recoveries=3, **options).commands
    return next((c.job for c in commands if isinstance(c, Save)), job)


def parent(state: State) -> Observation:
    return Observation(parents={"p": Parent(state=state, frames={})})


def test_a_job_starts_when_its_parent_is_complete_however_long_ago_that_was() -> None:
    started = after_pass(blocked(Hold.DEPENDENCIES), parent(State.COMPLETE))
    assert (started.state, started.frames[0].holds) == (State.WAITING, frozenset())


def test_a_false_condition_keeps_it_blocked_and_remembers_the_parents_end() -> None:
    kept = after_pass(blocked(Hold.DEPENDENCIES), parent(State.FAILED))
    assert kept.state is State.BLOCKED
    assert kept.after[0].seen is State.FAILED
    assert after_pass(kept, parent(State.RUNNING)).state is State.BLOCKED
    assert after_pass(kept, parent(State.COMPLETE)).state is State.WAITING


def test_dependencies_release_only_what_nothing_else_holds() -> None:
    assert after_pass(blocked(Hold.DEPENDENCIES, Hold.USER), parent(State.COMPLETE)).state is State.BLOCKED
    assert after_pass(blocked(Hold.USER), parent(State.COMPLETE)).state is State.BLOCKED


def test_the_time_limit_ends_a_job_that_waits_for_others_with_its_own_reason() -> None:
    job = blocked(Hold.DEPENDENCIES)
    commands = reconcile(job, Observation(), job.deadline, max_recoveries=3).commands
    (save,) = [c for c in commands if isinstance(c, Save)]
    assert save.job.error is not None
    assert save.job.error.reason is Reason.DEPENDENCY
    assert "p to be complete" in save.job.error.message


# --- many runs in one pass ---


def ended(job: Job, **endings: Ending) -> Observation:
    return Observation(
        outcomes={
            f"{job.name}-{number[1:]}": (
                Outcome(ending=ending, mark=RunMark(uid=job.uid, attempt=1), sidecar=make_sidecar()),
            )
            for number, ending in endings.items()
        }
    )


def test_all_frames_that_changed_are_saved_at_once_and_told_in_ranges() -> None:
    job = make_job(frames=frames(*[State.RUNNING] * 5), state=State.RUNNING)
    seen = ended(job, f1=Ending.COMPLETE, f2=Ending.COMPLETE, f4=Ending.COMPLETE, f5=Ending.FAILED)
    done = after_pass(job, seen)
    assert done.state is State.FAILING
    assert [frame.phase.value for frame in done.frames] == (
        ["complete", "complete", "running", "complete", "failed"]
    )
    assert [(event.event, event.note) for event in done.history[-2:]] == [
        ("result", "frames 1-2, 4"),
        ("fail", "frame 5"),
    ]


def test_frames_that_fail_in_a_row_hold_what_has_not_started_with_their_evidence() -> None:
    phases = [State.RUNNING] * 3 + [State.QUEUED, State.WAITING]
    job = make_job(frames=frames(*phases), state=State.RUNNING)
    seen = ended(job, f1=Ending.FAILED, f2=Ending.FAILED, f3=Ending.FAILED)
    assert after_pass(job, seen, wrangle_failures=4).wrangled is None
    assert after_pass(job, seen).wrangled is None
    held = after_pass(job, seen, wrangle_failures=3)
    assert [frame.phase.value for frame in held.frames] == ["failed"] * 3 + ["blocked"] * 2
    assert held.state is State.BLOCKED
    assert held.wrangled is not None
    assert "3 frames in a row" in held.wrangled
    assert held.frames[3].holds == {Hold.WRANGLED}


def test_a_success_between_them_breaks_the_row() -> None:
    job = make_job(frames=frames(*[State.RUNNING] * 4), state=State.RUNNING, failures_in_row=1)
    seen = ended(job, f1=Ending.FAILED, f2=Ending.COMPLETE, f3=Ending.FAILED)
    assert after_pass(job, seen, wrangle_failures=3).failures_in_row == 1


def test_a_state_set_by_hand_that_the_runs_do_not_make_is_moved_on() -> None:
    assert after_pass(make_job(state=State.FAILING), Observation()).state is State.RUNNING
    assert after_pass(make_job(state=State.KILLED), Observation()).state is State.KILLED
