"""When waiting runs may start and end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioanalysis.domain.admission import line
from aioanalysis.domain.exchange import PackageMeta
from aioanalysis.domain.frames import Attempt, Frame
from aioanalysis.domain.job import Job
from aioanalysis.domain.observation import ClaimedPackage, Observation, QueuedPackage
from aioanalysis.domain.outlook import (
    RUNS_KEPT,
    Farm,
    Outlook,
    PastRun,
    expected_seconds,
    outlooks,
    past_runs,
    remembered,
)
from aioanalysis.domain.states import State
from aioanalysis.domain.why import why
from tests.support.jobs import make_job

NOW = make_job().submitted_at + timedelta(minutes=1)
IDS = [f"0000000{letter}" for letter in "0123456789"]


def seconds(number: float) -> datetime:
    return NOW + timedelta(seconds=number)


def a_job(number: int, *, state: State = State.WAITING, **changes: Any) -> Job:
    at = NOW - timedelta(seconds=30 - number)
    fixed = {"id": IDS[number], "uid": f"uid-{number}", "submitted_at": at, "state": state}
    return make_job(**{**fixed, **changes})


def stored(*jobs: Job) -> Observation:
    """Storage as it is for these jobs; what is queued or running has been so for a second a place."""
    queue, claims = {}, {}
    for place, job in enumerate(jobs):
        since = seconds(place - len(jobs))
        for frame in job.frames:
            meta = PackageMeta(uid=job.uid, owner=job.submitter)
            if frame.phase is State.QUEUED:
                queue[job.stem(frame)] = QueuedPackage(meta=meta, etag="q", since=since)
            if frame.phase is State.RUNNING:
                claims[job.stem(frame)] = ClaimedPackage(meta=meta, etag="c", held=True, since=since)
    return Observation(queue=queue, claims=claims)


def foreseen(
    jobs: Sequence[Job], *, slots: int = 1, past: Sequence[PastRun] = (PastRun(records=None, seconds=10),)
) -> dict[str, Outlook]:
    seen = stored(*jobs)
    return outlooks(
        jobs,
        seen,
        NOW,
        line=line(jobs, seen, NOW, busy=()),
        past={jobs[0].title: past},
        farm=Farm(workers=min(slots, 1), slots=slots),
    )


def test_places_are_counted_from_one_among_those_that_wait_for_the_same_thing():
    jobs = [a_job(n, state=State.QUEUED) for n in range(2)] + [a_job(n) for n in range(2, 5)]
    found = foreseen(jobs)
    assert [found[job.id].position for job in jobs] == [1, 2, 1, 2, 3]
    assert [found[job.id].phase for job in jobs] == [State.QUEUED] * 2 + [State.WAITING] * 3


def test_the_place_is_the_one_that_taking_turns_gives():
    many = [a_job(n, submitter="ada") for n in range(3)]
    late = a_job(3, submitter="bob")
    found = foreseen([*many, late])
    assert found[late.id].position == 2
    assert [found[job.id].position for job in many] == [1, 3, 4]


def test_slots_are_handed_out_in_order():
    jobs = [a_job(0, state=State.RUNNING), a_job(1, state=State.QUEUED), a_job(2), a_job(3)]
    found = foreseen(jobs, slots=2)  # the first has run for 4 s of 10
    assert found[IDS[0]].starts is None
    assert found[IDS[0]].finishes == seconds(6)
    assert [found[i].starts for i in IDS[1:4]] == [NOW, seconds(6), seconds(10)]
    assert [found[i].finishes for i in IDS[1:4]] == [seconds(10), seconds(16), seconds(20)]


def test_without_an_earlier_run_no_time_is_told_but_the_place_is():
    found = foreseen([a_job(0, state=State.QUEUED), a_job(1)], past=())
    assert found[IDS[0]].starts == NOW  # the worker is free
    assert found[IDS[0]].finishes is None
    assert (found[IDS[1]].position, found[IDS[1]].starts) == (1, None)


def test_without_a_worker_no_time_is_told():
    found = foreseen([a_job(0)], slots=0)
    assert found[IDS[0]] == Outlook(phase=State.WAITING, position=1, workers=0)


def test_behind_a_run_that_takes_longer_than_others_did_nothing_is_known():
    jobs = [a_job(0, state=State.RUNNING), a_job(1)]
    found = foreseen(jobs, past=[PastRun(records=None, seconds=1)])
    assert found[IDS[0]].finishes is None
    assert found[IDS[1]].starts is None


def test_a_job_with_frames_starts_with_its_first_and_ends_with_its_last():
    frames = tuple(Frame(number=n, phase=State.WAITING) for n in range(1, 4))
    [found] = foreseen([a_job(0, frames=frames)]).values()
    assert (found.position, found.starts, found.finishes) == (1, NOW, seconds(30))


def test_the_end_of_a_job_of_which_a_frame_is_blocked_is_not_known():
    frames = (Frame(number=1, phase=State.WAITING), Frame(number=2, phase=State.BLOCKED))
    [found] = foreseen([a_job(0, frames=frames)]).values()
    assert (found.starts, found.finishes) == (NOW, None)


@pytest.mark.parametrize(
    ("records", "expected"), [(None, 15), (10, 1), (900, 20), (1_000_000, 20)]
)  # the median of all; of the five nearest
def test_a_run_is_expected_to_take_as_long_as_those_of_about_as_many_records(
    records: int | None, expected: float
):
    past = [PastRun(records=n, seconds=1) for n in (8, 9, 10, 11, 12)]
    past += [PastRun(records=n, seconds=20) for n in (800, 900, 1000, 1100, 1200)]
    past += [PastRun(records=None, seconds=15)] * 3
    assert expected_seconds(past, records) == expected


def test_nothing_is_expected_where_no_run_had_a_number_of_records():
    assert expected_seconds([PastRun(records=None, seconds=5)], 10) is None


def an_attempt(number: int, ending: str = "complete", **changes: Any) -> Attempt:
    times = {"started_at": NOW.isoformat(), "finished_at": seconds(7).isoformat()}
    return Attempt(number=number, ending=ending, **{**times, **changes})


def test_runs_that_became_complete_are_told_once_with_their_records_and_time():
    before = a_job(0, state=State.RUNNING, attempts=(an_attempt(1, "failed"),), packaged_count=12)
    attempts = (an_attempt(1, "failed"), an_attempt(2), an_attempt(3, finished_at="unreadable"))
    after = replace(before, frames=before.with_frames(lambda frame: replace(frame, attempts=attempts)))
    assert list(past_runs(before, after)) == [PastRun(records=12, seconds=7)]
    assert list(past_runs(after, after)) == []


def test_so_many_runs_are_remembered_the_latest():
    runs = [PastRun(records=n, seconds=1) for n in range(RUNS_KEPT + 5)]
    assert remembered(runs[:-1], runs[-1:]) == tuple(runs[-RUNS_KEPT:])


# --- as it is told ---


def test_why_tells_place_and_times():
    outlook = Outlook(phase=State.WAITING, position=3, starts=seconds(5), finishes=seconds(15), workers=1)
    reason = why(a_job(0), NOW, outlook)
    assert reason is not None
    assert (reason.position, reason.expected_start, reason.expected_finish) == (3, seconds(5), seconds(15))
    assert reason.text == "It waits for room in the queue; 2 ahead of it."


def test_what_was_foreseen_of_a_phase_that_is_over_is_not_told():
    reason = why(a_job(0, state=State.RUNNING), NOW, Outlook(phase=State.QUEUED, position=3, starts=NOW))
    assert reason is not None
    assert (reason.position, reason.expected_start) == (None, None)


def test_a_moment_that_has_gone_by_is_not_expected_any_more():
    reason = why(a_job(0), NOW, Outlook(phase=State.WAITING, position=1, starts=seconds(-1), workers=1))
    assert reason is not None
    assert (reason.position, reason.expected_start) == (1, None)
    assert "it is the next" in reason.text


@pytest.mark.parametrize(
    ("seen_at", "told"), [(None, "No worker has been seen."), (NOW, "No worker has been seen since 20")]
)
@pytest.mark.parametrize("state", [State.WAITING, State.QUEUED])
def test_that_there_is_no_worker_is_said(state: State, seen_at: datetime | None, told: str):
    reason = why(a_job(0, state=state), NOW, Outlook(phase=state, position=1, workers=0, seen_at=seen_at))
    assert reason is not None
    assert told in reason.text


@given(
    states=st.lists(st.sampled_from([State.WAITING, State.QUEUED, State.RUNNING]), min_size=1, max_size=10),
    slots=st.integers(0, 4),
)
def test_whoever_stands_behind_starts_no_sooner_and_nobody_ends_before_the_start(
    states: list[State], slots: int
):
    jobs = [a_job(n, state=state) for n, state in enumerate(states)]
    found = foreseen(jobs, slots=slots)
    assert found.keys() == {job.id for job in jobs}
    for phase in (State.QUEUED, State.WAITING):
        there = sorted((o.position or 0, o.starts or NOW) for o in found.values() if o.phase is phase)
        assert [place for place, _ in there] == list(range(1, len(there) + 1))
        assert [start for _, start in there] == sorted(start for _, start in there)
    for outlook in found.values():
        assert outlook.finishes is None or outlook.finishes >= (outlook.starts or NOW)
