"""Which unfinished jobs a watch pass looks at: those that something may become of, and no others."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aioanalysis.domain.frames import Frame, Hold
from aioanalysis.domain.job import Job
from aioanalysis.domain.roster import Roster
from aioanalysis.domain.states import State
from tests.support.jobs import make_job

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def job(**changes: Any) -> Job:
    return make_job(**{"submitted_at": NOW, **changes})


def roster(*jobs: Job) -> Roster:
    made = Roster()
    made.update(jobs)
    return made


def concerned(roster: Roster, *stems: str, now: datetime = NOW) -> set[str]:
    return {job.id for job in roster.concerned(stems, now)}


def blocked(*holds: Hold) -> Job:
    return job(state=State.BLOCKED, holds=frozenset(holds))


@pytest.mark.parametrize(
    "restless",
    [
        job(state=State.QUEUED),
        job(state=State.RUNNING),
        job(state=State.RETRYING, retried=1),
        job(state=State.FAILING, frames=(Frame(number=1, phase=State.FAILED), Frame(number=2))),
        blocked(Hold.DEPENDENCIES),
        blocked(Hold.DEPENDENCIES, Hold.USER),
        job(state=State.FAILED, frames=(Frame(),)),  # set by hand
    ],
    ids=lambda job: job.state.value,
)
def test_what_is_under_way_or_waits_for_others_or_was_set_by_hand_is_looked_at(restless: Job) -> None:
    assert concerned(roster(restless, job())) == {restless.id}


@pytest.mark.parametrize(
    "resting",
    [
        job(),
        job(state=State.FAILED),
        job(state=State.KILLED),
        job(
            state=State.KILLED,
            frames=(Frame(number=1, phase=State.KILLED), Frame(number=2, phase=State.FAILED)),
        ),
        blocked(Hold.USER),
        blocked(Hold.METHOD),
    ],
    ids=lambda job: job.state.value,
)
def test_what_rests_is_looked_at_only_for_a_package_of_its_own(resting: Job) -> None:
    made = roster(resting)
    other = f"other.{resting.id}"

    assert concerned(made, other, "no stem") == set()
    assert concerned(made, other, resting.stems[0]) == {resting.id}


@pytest.mark.parametrize("state", [State.WAITING, State.BLOCKED])
def test_what_rests_unfinished_is_looked_at_from_its_deadline_on_until_it_has_changed(state: State) -> None:
    late = job(state=state, deadline=NOW + timedelta(hours=1))
    later = job(state=state, deadline=NOW + timedelta(hours=2))
    made = roster(later, late, job(state=State.FAILED, deadline=NOW))

    assert concerned(made, now=late.deadline - timedelta(seconds=1)) == set()
    assert concerned(made, now=late.deadline) == {late.id}
    assert concerned(made, now=late.deadline) == {late.id}  # what became of it may have come to nothing
    assert concerned(made, now=later.deadline) == {late.id, later.id}
    made.update([replace(late, state=State.FAILED, frames=(Frame(phase=State.FAILED),)), later])
    assert concerned(made, now=later.deadline) == {later.id}


def test_a_record_that_changes_is_known_as_it_is_now() -> None:
    first, gone = job(state=State.QUEUED), job(state=State.QUEUED)
    made = roster(first, gone)
    waiting = replace(first, state=State.WAITING, frames=(Frame(),))

    made.update([waiting])

    assert concerned(made) == set()
    assert made.waiting() == [waiting]
    assert made.find(waiting.name) is waiting
    assert made.find(gone.name) is None


def test_those_that_wait_for_room_have_a_run_that_does() -> None:
    frames = (Frame(number=1, phase=State.RUNNING), Frame(number=2))
    partly, plain = job(state=State.RUNNING, frames=frames), job()
    made = roster(partly, plain, job(state=State.QUEUED), blocked(Hold.USER), job(state=State.FAILED))

    assert {job.id for job in made.waiting()} == {partly.id, plain.id}
