"""Why a job is not finished."""

from __future__ import annotations

from datetime import timedelta

import pytest

from aioanalysis.domain.frames import Packaging, Postponement
from aioanalysis.domain.states import FINISHED, State
from aioanalysis.domain.why import Code, why
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
