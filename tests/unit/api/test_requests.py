"""The models of bodies and queries."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from aioanalysis.api.bodies import parse
from aioanalysis.api.problems import InvalidQuery
from aioanalysis.api.requests import JobRequest, JobsQuery, RemoveQuery, StateRequest, read_query
from aioanalysis.domain.job import Source
from aioanalysis.domain.records import Selection
from aioanalysis.domain.states import State
from aioanalysis.errors import Invalid

GOOD = {"title": "noop", "recordset": "DS-ONE"}


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"title": "a.b"}, "/title"),
        ({"title": "-a"}, "/title"),
        ({"title": "a" * 65}, "/title"),
        ({"title": "noop\n"}, "/title"),
        ({"title": "../etc"}, "/title"),
        ({"title": 5}, "/title"),
        ({"title": None}, "/title"),
        ({"recordset": "../etc"}, "/recordset"),
        ({"recordset": ""}, "/recordset"),
        ({"recordset": None}, ""),
        ({"set_token": "t"}, ""),
        ({"recordset": None, "set_token": "a b"}, "/set_token"),
        ({"recordset": None, "set_token": "ü"}, "/set_token"),
        ({"params": []}, "/params"),
        ({"params": {"a": "x" * 70_000}}, "/params"),
        ({"record_count": -1}, "/record_count"),
        ({"record_count": "3"}, "/record_count"),
        ({"record_count": True}, "/record_count"),
        ({"record_count": 1.5}, "/record_count"),
        ({"record_count": 1e300}, "/record_count"),
        ({"tags": ["a\nb"]}, "/tags/0"),
        ({"tags": ["ok", ""]}, "/tags/1"),
        ({"tags": ["x"] * 33}, "/tags"),
        ({"tags": "x"}, "/tags"),
        ({"selection": {}}, "/selection"),
        ({"selection": {"include": ["a"], "exclude": ["b"]}}, "/selection"),
        ({"selection": {"include": []}}, "/selection/include"),
        ({"selection": {"include": [1]}}, "/selection/include/0"),
        ({"selection": {"only": []}}, "/selection/only"),
        ({"key": "mine"}, "/key"),
        ({"a/b~c": 1}, "/a~1b~0c"),
    ],
)
def test_a_wrong_value_is_pointed_at(change: dict[str, Any], pointer: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse(JobRequest, {**GOOD, **change})
    assert pointer in [place for place, _ in caught.value.errors]


@pytest.mark.parametrize("body", [None, [], "text", 5, True])
def test_a_body_that_is_no_object_is_invalid(body: Any) -> None:
    with pytest.raises(Invalid):
        parse(JobRequest, body)


def test_a_job_request_becomes_a_new_job() -> None:
    wanted = parse(
        JobRequest,
        {
            "title": "noop",
            "set_token": "t0k=",
            "params": {"a": 1},
            "selection": {"exclude": ["A", "B", "A"]},
            "record_count": 0,
            "tags": ["x", "y", "x"],
        },
    ).new_job()
    assert wanted.source == Source(kind="set_token", value="t0k=")
    assert wanted.selection == Selection(mode="exclude", ids=frozenset("AB"))
    assert wanted.tags == ("x", "y")
    assert wanted.record_count == 0
    include = parse(JobRequest, {**GOOD, "selection": {"include": ["A"]}}).new_job().selection
    assert include == Selection(mode="include", ids=frozenset("A"))


def test_wrong_values_are_never_repeated_in_the_answer() -> None:
    with pytest.raises(Invalid) as caught:
        parse(JobRequest, {**GOOD, "title": "sk-live-secret!", "params": "sk-live-secret"})
    assert "sk-live" not in str(caught.value.errors)


def query(text: str) -> JobsQuery:
    return read_query(make_mocked_request("GET", f"/v1/jobs?{text}"), JobsQuery)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=x", "limit"),
        ("limit=1&limit=2", "limit"),
        ("limit=", "limit"),
        ("state=done", "state"),
        ("state=waiting&state=", "state"),
        ("since=yesterday", "since"),
        ("since=1700000000", "since"),
        ("since=2026-01-01T00:00:00", "since"),
        ("since=2026-02-30T00:00:00Z", "since"),
        ("since=0001-01-01T00:00:00%2B14:00", "since"),
        ("title=a.b", "title"),
        ("cursor=", "cursor"),
        ("submitter=", "submitter"),
        ("nothing=1", "nothing"),
    ],
)
def test_a_wrong_parameter_is_named(text: str, name: str) -> None:
    with pytest.raises(InvalidQuery) as caught:
        query(text)
    assert [place for place, _ in caught.value.errors] == [name]


def test_states_may_be_repeated_and_all_is_any() -> None:
    assert query("state=waiting&state=failed").states == {State.WAITING, State.FAILED}
    assert query("state=waiting&state=all").states == frozenset()
    assert query("").states == frozenset()


def test_times_are_taken_with_their_offset() -> None:
    assert query("since=2026-01-31T12:00:00%2B02:00").since == datetime(2026, 1, 31, 10, tzinfo=UTC)
    assert query("since=2026-01-31t12:00:00.5z").since == datetime(2026, 1, 31, 12, 0, 0, 500_000, tzinfo=UTC)


def test_force_is_a_boolean() -> None:
    def force(text: str) -> bool:
        return read_query(make_mocked_request("DELETE", f"/v1/jobs/x?{text}"), RemoveQuery).force

    assert force("force=true")
    assert not force("force=false")
    assert not force("")
    with pytest.raises(InvalidQuery):
        force("force=maybe")


def test_any_state_can_be_set_and_nothing_else() -> None:
    assert parse(StateRequest, {"state": "killed"}).state is State.KILLED
    with pytest.raises(Invalid):
        parse(StateRequest, {"state": "done"})


def test_frames_may_not_be_larger_than_a_job_record_should_be() -> None:
    frames = [{"text": "x" * 2000}] * 600
    with pytest.raises(Invalid) as caught:
        parse(JobRequest, {**GOOD, "frames": frames})
    assert caught.value.errors == (("/frames", "larger than 1048576 bytes"),)


def test_to_json_a_whole_number_may_have_a_point() -> None:
    wanted = parse(JobRequest, {**GOOD, "record_count": 12.0, "retries": 2.0})
    assert (wanted.record_count, wanted.retries) == (12, 2)
