"""The job record: copies, history, names."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aioanalysis.domain.frames import Frame
from aioanalysis.domain.job import HISTORY_LENGTH, Job, Source, Split, is_job_id
from aioanalysis.domain.outcomes import JobError, Reason
from aioanalysis.domain.states import State

THEN = datetime(2026, 1, 1, tzinfo=UTC)
LATER = THEN + timedelta(minutes=5)


@pytest.fixture
def job() -> Job:
    return Job(
        id="0123abcd",
        uid="u",
        title="noop",
        params={},
        source=Source(kind="recordset", value="DS-X"),
        submitter="ana",
        submitted_at=THEN,
        expires_at=THEN + timedelta(days=7),
        deadline=THEN + timedelta(hours=6),
        state_changed_at=THEN,
        last_updated=THEN,
    )


def runs(job: Job, phase: State, **changes: Any) -> list[Frame]:
    return [frame.entered(phase, **changes) for frame in job.frames]


def test_a_change_is_a_copy_with_the_event_in_its_history(job: Job):
    frames = runs(job, State.QUEUED, packaged_count=3)
    moved = job.noted("packaged", by="scheduler", at=LATER, frames=frames)
    assert (moved.state, moved.state_changed_at, moved.packaged_count) == (State.QUEUED, LATER, 3)
    (event,) = moved.history
    assert (event.at, event.event, event.by) == (LATER, "packaged", "scheduler")
    assert (event.from_state, event.to_state) == (State.WAITING, State.QUEUED)
    assert (job.state, job.history) == (State.WAITING, ())


def test_an_event_that_keeps_the_state_does_not_change_when_it_changed(job: Job):
    same = job.noted("postponed", by="scheduler", at=LATER)
    assert same.state_changed_at == THEN
    assert len(same.history) == 1


def test_no_change_of_state_extends_expiry_or_deadline(job: Job):
    for state in State:
        moved = job.noted("x", by="api", at=LATER, state=state)
        assert (moved.expires_at, moved.deadline) == (job.expires_at, job.deadline)


def test_history_keeps_the_last_fifty_events(job: Job):
    for n in range(HISTORY_LENGTH + 10):
        job = job.noted(str(n), by="api", at=LATER)
    assert [event.event for event in job.history] == [str(n) for n in range(10, 60)]


def test_a_job_cannot_be_changed_in_place(job: Job):
    with pytest.raises(FrozenInstanceError):
        job.state = State.FAILED  # type: ignore[misc]


def test_files_are_named_by_title_and_id(job: Job):
    assert job.name == "noop.0123abcd"
    assert job.stems == ("noop.0123abcd",)
    framed = replace(job, frames=(Frame(number=1), Frame(number=2)))
    assert framed.stems == ("noop.0123abcd-1", "noop.0123abcd-2")
    assert framed.frame(2) == Frame(number=2)
    assert framed.frame(3) is None


def test_the_error_of_a_job_with_frames_names_the_frame(job: Job):
    error = JobError(reason=Reason.STAGE, message="container exited with code 3")
    frames = (Frame(number=1, phase=State.COMPLETE), Frame(number=2, phase=State.FAILED, error=error))
    told = replace(job, frames=frames).error
    assert told is not None
    assert told.message == "frame 2: container exited with code 3"


def test_records_of_a_split_are_summed_and_of_frames_over_the_same_records_are_not(job: Job):
    frames = (Frame(number=1, packaged_count=5), Frame(number=2, packaged_count=7), Frame(number=3))
    assert replace(job, frames=frames).packaged_count == 7
    assert replace(job, frames=frames, split=Split(records=7)).packaged_count == 12
    assert replace(job, frames=frames, split=Split(records=7)).is_uncut is False
    assert replace(job, split=Split(records=7)).is_uncut


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("0123abcd", True),
        ("zzzzzzzz", True),
        ("0123ABCD", False),
        ("0123abc", False),
        ("0123abcde", False),
        ("0123abci", False),
        ("0123abcu", False),
        ("0123ab/d", False),
        ("", False),
    ],
)
def test_an_id_is_eight_characters_of_lower_case_crockford_base32(text: str, is_one: bool):
    assert is_job_id(text) is is_one
