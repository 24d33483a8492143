"""Figures over jobs: what is counted, when, and for whom."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioanalysis.domain import tally
from aioanalysis.domain.frames import Attempt, Frame
from aioanalysis.domain.job import HistoryEvent, Job
from aioanalysis.domain.outcomes import JobError, Reason
from aioanalysis.domain.states import State
from aioanalysis.domain.tally import Bucket, Tally, Waiting, first_start
from aioanalysis.domain.usage import Usage
from tests.support.jobs import make_job

NOW = datetime(2026, 3, 8, 12, 30, tzinfo=UTC)
SECOND, HOUR = timedelta(seconds=1), timedelta(hours=1)


def tallied(*jobs: Job) -> Tally:
    found = Tally(NOW)
    for job in jobs:
        found.add(job)
    return found


def started(at: datetime, **more: Any) -> Attempt:
    return Attempt(number=1, ending="complete", started_at=at.isoformat(), **more)


def failed(reason: Reason, at: datetime = NOW, **more: Any) -> Job:
    error = JobError(reason=reason, message="m")
    return make_job(submitted_at=at, state=State.FAILED, error=error, **more)


def non_empty(found: Tally, hours: int = 1) -> list[Bucket]:
    return [one for one in found.buckets(hours) if one.submitted or one.ended or one.waiting]


def test_no_jobs_give_whole_but_empty_figures() -> None:
    found = tallied()
    assert (found.jobs, found.waiting(), found.failures(), found.loads()) == (0, None, [], [])
    assert non_empty(found) == []


@pytest.mark.parametrize("hours", [1, 3, 6, 12, 24])
def test_buckets_cover_the_seven_days_without_gap(hours: int) -> None:
    buckets = tallied().buckets(hours)
    assert buckets[0].start <= NOW - tally.WINDOW < buckets[0].start + hours * HOUR
    assert buckets[-1].start <= NOW < buckets[-1].start + hours * HOUR
    assert {b.start - a.start for a, b in pairwise(buckets)} == {hours * HOUR}


def test_jobs_are_counted_in_the_hour_in_which_it_happened() -> None:
    at = datetime(2026, 3, 8, 9, 59, 30, tzinfo=UTC)
    done = make_job(
        submitted_at=at,
        state=State.COMPLETE,
        state_changed_at=at + HOUR,
        attempts=(started(at + 40 * SECOND),),
    )
    first, second = non_empty(tallied(done))
    assert (first.start.hour, first.submitted, first.ended, first.waiting) == (9, 1, {}, None)
    assert (second.start.hour, second.submitted, second.ended) == (10, 0, {State.COMPLETE: 1})
    assert second.waiting == Waiting(jobs=1, median=40, p95=40)
    [day] = non_empty(tallied(done), 24)
    assert (day.submitted, day.ended, day.waiting) == (1, {State.COMPLETE: 1}, second.waiting)


def test_what_lies_outside_of_the_window_counts_as_a_job_only() -> None:
    old = make_job(submitted_at=NOW - tally.WINDOW, state=State.KILLED)
    ahead = make_job(submitted_at=NOW + SECOND)
    found = tallied(old, ahead)
    assert (found.jobs, found.states) == (2, {State.KILLED: 1, State.WAITING: 1})
    assert non_empty(found) == []


def test_a_worker_whose_clock_is_behind_makes_no_negative_wait() -> None:
    job = make_job(submitted_at=NOW, attempts=(started(NOW - 5 * SECOND),))
    assert tallied(job).waiting() == Waiting(jobs=1, median=0, p95=0)


def test_the_start_is_the_first_runs_or_when_a_pass_first_saw_it() -> None:
    frames = (
        Frame(number=1, attempts=(started(NOW + 2 * SECOND), started(NOW + 9 * SECOND))),
        Frame(number=2, attempts=(started(NOW + SECOND), Attempt(number=2, ending="lost"))),
        Frame(number=3, attempts=(Attempt(number=1, ending="failed", started_at="yesterday"),)),
        Frame(number=4, attempts=(Attempt(number=1, ending="failed", started_at="2020-01-01T00:00:00"),)),
    )
    assert first_start(make_job(frames=frames)) == NOW + SECOND
    event = HistoryEvent(
        at=NOW, event="claim", from_state=State.QUEUED, to_state=State.RUNNING, by="scheduler"
    )
    assert first_start(make_job(history=(event,))) == NOW
    assert first_start(make_job()) is None


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60))
def test_median_and_percentile_are_waits_with_so_many_below_them(waits: list[float]) -> None:
    jobs = [make_job(submitted_at=NOW, attempts=(started(NOW + timedelta(seconds=wait)),)) for wait in waits]
    found = Tally(NOW + timedelta(days=30))  # far enough for every start; the window is not the point here
    found._since = NOW - SECOND
    for job in jobs:
        found.add(job)
    seen = found.waiting()
    assert seen is not None
    exact = sorted(round(wait, 6) for wait in waits)
    for value, share in ((seen.median, 0.5), (seen.p95, 0.95)):
        assert min(abs(value - wait) for wait in exact) < 1e-5
        assert sum(wait <= value + 1e-5 for wait in exact) >= share * len(exact)
    assert seen.median <= seen.p95


def test_failures_count_runs_and_jobs_by_method_and_reason() -> None:
    late = failed(Reason.STAGE, NOW - SECOND, title="gap")
    error = JobError(reason=Reason.STAGE, message="m")
    framed = make_job(
        title="gap",
        state=State.FAILING,
        submitted_at=NOW - HOUR,
        frames=(
            *(Frame(number=n, phase=State.FAILED, error=error) for n in (1, 2)),
            Frame(number=3, phase=State.FAILED, error=JobError(reason=Reason.DISK, message="m")),
            Frame(number=4, phase=State.RUNNING),
        ),
    )
    found = tallied(late, framed, failed(Reason.STAGE, title="tree")).failures()
    assert [(one.title, one.reason, one.runs, one.jobs) for one in found] == [
        ("gap", Reason.STAGE, 3, 2),
        ("gap", Reason.DISK, 1, 1),
        ("tree", Reason.STAGE, 1, 1),
    ]
    assert (found[0].last_at, found[0].last_job) == (late.state_changed_at, late.id)


def test_a_load_sums_every_run_of_a_submitter_failed_ones_too() -> None:
    usage = Usage.from_json({"cpu_seconds": 1.5, "wall_seconds": 3})
    runs = (
        started(NOW, usage=usage, result_bytes=100),
        Attempt(number=2, ending="failed", usage=usage),
        Attempt(number=3, ending="failed", usage=Usage.from_json({})),
        Attempt(number=4, ending="lost"),
    )
    found = tallied(
        make_job(state=State.COMPLETE, attempts=runs),
        make_job(state=State.FAILED),
        make_job(submitter="ben"),
        make_job(submitter="ben", state=State.BLOCKED),
    ).loads()
    assert [(one.submitter, one.unfinished, one.ended, one.failed) for one in found] == [
        ("ben", 2, 0, 0),
        ("ann", 0, 2, 1),
    ]
    assert (found[1].cpu_seconds, found[1].run_seconds, found[1].result_bytes) == (3.0, 6.0, 100)


def test_long_lists_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "SUBMITTERS_MAX", 2)
    monkeypatch.setattr(tally, "FAILURES_MAX", 2)
    found = tallied(*(failed(reason, submitter=reason.value) for reason in Reason))
    assert (len(found.loads()), len(found.failures())) == (2, 2)
