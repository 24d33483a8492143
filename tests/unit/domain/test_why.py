"""Why a job is not finished."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioanalysis.domain.frames import Packaging, Postponement
from aioanalysis.domain.outlook import Outlook
from aioanalysis.domain.states import FINISHED, State
from aioanalysis.domain.why import Code, why, why_holds_until
from tests.support.jobs import make_job

JOB = make_job()
NOW = JOB.submitted_at
LATER = NOW + timedelta(minutes=5)


@pytest.mark.parametrize("state", State)
def test_every_job_that_is_not_finished_says_why(state: State) -> None:
    reason = why(make_job(state=state), NOW)
    assert (reason is None) == (state in FINISHED)


@pytest.mark.parametrize(
    ("changes", "code", "word"),
    [
        ({}, Code.ROOM, "room"),
        ({"packaging": Packaging(fence=1, since=NOW)}, Code.PACKAGING, "fetched"),
        ({"postponed": Postponement(until=LATER, tries=3, text="HTTP 503")}, Code.RECORDS, "3 times"),
        ({"postponed": Postponement(until=LATER, tries=1, text="HTTP 503")}, Code.RECORDS, "once"),
        ({"postponed": Postponement(until=NOW, tries=1, text="HTTP 503")}, Code.RECORDS, "room"),
        ({"state": State.QUEUED}, Code.WORKER, "worker"),
        ({"state": State.RUNNING}, Code.RUNNING, "worker"),
    ],
)
def test_the_reason_fits_what_stands_in_the_way(changes: dict[str, object], code: Code, word: str) -> None:
    reason = why(make_job(**changes), NOW)
    assert reason is not None
    assert reason.code is code
    assert word in reason.text


def test_records_that_are_not_to_be_had_say_why_and_until_when() -> None:
    postponed = Postponement(until=LATER, tries=2, text="the store answers 503")
    reason = why(make_job(postponed=postponed), NOW)
    assert reason is not None
    assert reason.until == LATER
    assert "the store answers 503" in reason.text


seconds = st.one_of(st.none(), st.integers(-3, 3))


@given(seconds, seconds, seconds, st.integers(0, 5))
def test_the_reason_is_the_same_until_the_moment_that_is_told(
    starts: int | None, finishes: int | None, until: int | None, later: int
) -> None:
    def moment(offset: int | None) -> datetime | None:
        return None if offset is None else NOW + timedelta(seconds=offset)

    postponed = None if until is None else Postponement(until=moment(until) or NOW, tries=1, text="HTTP 503")
    job = make_job(postponed=postponed)
    outlook = Outlook(phase=State.WAITING, starts=moment(starts), finishes=moment(finishes))
    end, then = why_holds_until(job, NOW, outlook), NOW + timedelta(seconds=later)
    assert end is None or end >= NOW
    if end is None or then < end:
        assert why(job, then, outlook) == why(job, NOW, outlook)
