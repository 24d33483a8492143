"""What a worker tells of a run, a method's own words among it."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioanalysis.domain.progress import TEXT_MAX, Progress, parse_progress
from aioanalysis.errors import Damaged

TOLD = {
    "uid": "u",
    "attempt": 2,
    "stage": 3,
    "stages": 5,
    "script": "3_model.R",
    "message": "tree 4 of 9",
    "records_done": 30,
    "records_total": 120,
    "at": "2026-10-01T12:00:00+02:00",
}


def told(**changes: Any) -> Progress | None:
    return parse_progress(json.dumps({**TOLD, **changes}).encode(), uid="u")


def test_a_stage_is_told_with_what_it_says_of_itself() -> None:
    progress = told()
    assert progress == Progress(
        attempt=2,
        stage=3,
        stages=5,
        name="3_model.R",
        message="tree 4 of 9",
        fraction=0.25,
        at=datetime(2026, 10, 1, 10, tzinfo=UTC),
    )
    assert progress.text == "stage 3 of 5, 25% done: tree 4 of 9"


def test_what_a_stage_does_not_say_is_not_known() -> None:
    progress = told(message=None, records_done=None, script=7)
    assert progress is not None
    assert (progress.name, progress.message, progress.fraction) == (None, None, None)
    assert progress.text == "stage 3 of 5"
    assert told(stage=None) is None


@pytest.mark.parametrize(
    ("done", "total", "fraction"), [(0, 5, 0.0), (10**400, 5, 1.0), (1, 0, None), (-1, 5, None)]
)
def test_a_fraction_is_between_0_and_1_or_not_known(done: int, total: int, fraction: float | None) -> None:
    progress = told(records_done=done, records_total=total)
    assert progress is not None
    assert progress.fraction == fraction


def test_a_message_is_one_line_of_text_that_can_be_written() -> None:
    progress = told(message="a\r\n\ndata: x\ud800" + "y" * 5000)
    assert progress is not None
    assert progress.message is not None
    assert progress.message.startswith("a data: x?yyy")
    assert len(progress.message) == TEXT_MAX


@pytest.mark.parametrize(
    "changes",
    [
        {"uid": "another"},
        {"uid": []},
        {"attempt": None},
        {"stage": 0},
        {"stage": 6},
        {"stage": 4, "stages": 3},
        {"stages": 6},
        {"at": None},
        {"at": "2026-10-01T12:00:00"},
        {"at": "soon"},
    ],
)
def test_what_no_worker_writes_is_damaged(changes: dict[str, Any]) -> None:
    with pytest.raises(Damaged):
        told(**changes)


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@given(
    st.binary(max_size=50)
    | st.dictionaries(st.sampled_from(sorted(TOLD)), json_values).map(lambda body: json.dumps(body).encode())
)
def test_anything_is_either_understood_or_damaged(data: bytes) -> None:
    with suppress(Damaged):
        parse_progress(data, uid="u")
