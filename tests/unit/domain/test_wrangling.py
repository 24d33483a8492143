"""Methods whose packages fail in a row: counted, held, released."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from aioanalysis.domain.frames import Attempt, Frame, Hold
from aioanalysis.domain.job import ended_runs
from aioanalysis.domain.outcomes import JobError, Reason
from aioanalysis.domain.states import State
from aioanalysis.domain.why import Code, why
from aioanalysis.domain.wrangling import (
    MethodHealth,
    WorkerSeen,
    counted,
    has_changed,
    held,
    is_held,
    is_to_be_held,
    released,
)
from tests.support.jobs import make_job

NOW = make_job().submitted_at


def failed(reason: Reason = Reason.IMAGE, *, host: str = "w1", digest: str | None = "d1") -> Attempt:
    error = JobError(reason=reason, message="x")
    return Attempt(number=1, ending="failed", digest=digest, host=host, error=error)


def row(*hosts: str, digest: str = "d1") -> MethodHealth:
    failures = tuple((f"job{n}", host) for n, host in enumerate(hosts))
    return MethodHealth(title="m", digest=digest, failures=failures)


def test_failures_of_the_method_itself_are_counted_with_job_and_worker() -> None:
    first = counted(None, "m", "job0", failed())
    assert first == row("w1")
    second = counted(first, "m", "job1", failed(Reason.METHOD, host="w2"))
    assert second == row("w1", "w2")
    assert second.evidence == "2 packages of m failed in a row (jobs job0, job1; workers w1, w2)"


@pytest.mark.parametrize("reason", [Reason.STAGE, Reason.OUT_OF_MEMORY, Reason.CONTAINER, Reason.DISK])
def test_a_run_that_got_past_the_image_ends_the_row(reason: Reason) -> None:
    assert counted(row("w1", "w1"), "m", "j", failed(reason)) is None
    assert counted(row("w1"), "m", "j", Attempt(number=1, ending="complete", digest="d1")) is None


@pytest.mark.parametrize("ending", ["lost", "interrupted", "killed"])
def test_a_run_that_was_cut_off_says_nothing_of_its_method(ending: str) -> None:
    assert counted(row("w1"), "m", "j", Attempt(number=1, ending=ending)) == row("w1")
    assert counted(row("w1"), "m", "j", failed(Reason.INPUT)) == row("w1")


def test_another_digest_begins_a_row_of_its_own() -> None:
    assert counted(row("w1", "w1"), "m", "job0", failed(digest="d2")) == row("w1", digest="d2")


def seen(*names: str, digest: str = "d1", minutes: int = 1) -> list[WorkerSeen]:
    return [WorkerSeen(name=n, at=NOW + timedelta(minutes=minutes), methods={"m": digest}) for n in names]


def test_it_takes_two_workers_where_two_are_seen() -> None:
    assert not is_to_be_held(row("w1", "w1"), 3, seen("w1"))
    assert is_to_be_held(row("w1", "w1", "w1"), 3, seen("w1"))
    assert not is_to_be_held(row("w1", "w1", "w1"), 3, seen("w1", "w2"))
    assert is_to_be_held(row("w1", "w2", "w1"), 3, seen("w1", "w2"))
    assert not is_to_be_held(row("w1", "w2", "w1"), 0, seen("w1", "w2"))


def test_a_new_digest_on_any_worker_releases_it_and_an_old_sign_of_life_does_not() -> None:
    health = replace(row("w1"), held_since=NOW)
    assert not has_changed(health, seen("w1"))
    assert has_changed(health, seen("w1", digest="d2"))
    assert not has_changed(health, seen("w1", digest="d2", minutes=-1))
    assert not has_changed(row("w1"), seen("w1", digest="d2"))


def test_what_has_not_started_is_held_with_the_evidence_and_put_back_on_release() -> None:
    runs = (Frame(number=1, phase=State.RUNNING), Frame(number=2), Frame(number=3, phase=State.QUEUED))
    job = held(make_job(frames=runs, state=State.RUNNING), row("w1"), by="scheduler", now=NOW)
    assert [frame.phase.value for frame in job.frames] == ["running", "blocked", "blocked"]
    assert is_held(job)
    assert job.wrangled == row("w1").evidence
    assert held(job, row("w1"), by="scheduler", now=NOW) is job
    back = released(job, by="scheduler", now=NOW, note="new")
    assert [frame.phase.value for frame in back.frames] == ["running", "waiting", "waiting"]
    assert not is_held(back)


def test_a_release_leaves_what_something_else_holds() -> None:
    both = Frame(phase=State.BLOCKED, holds=frozenset({Hold.METHOD, Hold.USER}))
    back = released(make_job(frames=(both,), state=State.BLOCKED), by="scheduler", now=NOW, note="new")
    assert back.frames[0].holds == {Hold.USER}


def test_a_job_held_for_its_method_says_so() -> None:
    job = held(make_job(), row("w1"), by="scheduler", now=NOW)
    reason = why(job, NOW)
    assert reason is not None
    assert reason.code is Code.WRANGLED
    assert "1 packages of m failed" in reason.text


def test_the_runs_that_ended_between_two_versions_are_found() -> None:
    before = make_job(attempts=(failed(),))
    again = replace(failed(), number=2)
    after = replace(before, frames=(replace(before.frames[0], attempts=(failed(), again)),))
    assert list(ended_runs(before, after)) == [(after.frames[0], again)]
