"""The state table: as PROTOCOL.md has it, cell by cell, and what CONTRACT.md says of it in words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioanalysis.domain.states import (
    FINISHED,
    TABLE,
    Action,
    Event,
    InvalidTransition,
    State,
    after,
    allowed_actions,
    answer,
    check_action,
)
from aioanalysis.errors import Refused

PROTOCOL = Path(__file__).parents[3] / "../shared/PROTOCOL.md"
ROWS = TABLE.strip().splitlines()


def cell(state: State, name: str) -> str:
    """The cell as it is written, found without the code under test."""
    (row,) = (line for line in ROWS if line.split("|")[0].strip() == state.value)
    (found,) = re.findall(rf"(?<= ){name}=(\S+)", row)
    return found


def test_the_table_is_the_protocols_letter_for_letter():
    if not PROTOCOL.exists():
        pytest.skip("PROTOCOL.md is not beside this checkout")
    block = re.search(r"^```\n(waiting .*?\n)```$", PROTOCOL.read_text(), re.MULTILINE | re.DOTALL)
    assert block is not None
    assert block[1].strip() == TABLE.strip()


def test_every_state_has_a_row_and_every_row_a_cell_for_all_that_can_occur():
    assert [row.split()[0] for row in ROWS] == [state.value for state in State]
    for row in ROWS:
        _, events, actions = row.split("|")
        assert re.findall(r"(\S+)=", events) == [event.value for event in Event]
        assert re.findall(r"(\S+)=", actions) == [action.value for action in Action]


@pytest.mark.parametrize("event", Event)
@pytest.mark.parametrize("state", State)
def test_an_event_leads_where_its_cell_says(state: State, event: Event):
    written = cell(state, event.value)
    assert answer(state, event) == written
    if written in {".", "agg"}:
        assert after(state, event) is state
    else:
        assert after(state, event) is State(written)


@pytest.mark.parametrize("action", Action)
@pytest.mark.parametrize("state", State)
def test_an_action_is_answered_or_refused_as_its_cell_says(state: State, action: Action):
    written = cell(state, action.value)
    assert (action in allowed_actions(state)) == (written != "409")
    if written != "409":
        assert check_action(state, action) == written
        assert written in {".", "new", "agg", "phase", "held", "any", "removed", *State}
        return
    with pytest.raises(InvalidTransition) as refusal:
        check_action(state, action)
    assert isinstance(refusal.value, Refused)
    assert refusal.value.state == state
    assert refusal.value.allowed == tuple(a.value for a in allowed_actions(state))
    assert f"does not fit a job that is {state}" in str(refusal.value)
    own = set(refusal.value.allowed) - {Action.FORCE.value, Action.OVERRIDE.value}
    assert all(name.removesuffix("_now") in str(refusal.value) for name in own)


def states_that(**cells: str) -> set[State]:
    ((name, value),) = cells.items()
    return {state for state in State if cell(state, name) == value}


def test_a_result_completes_every_job_that_is_not_killed():
    assert states_that(result="complete") == set(State) - {State.COMPLETE, State.KILLED, State.FAILING}


def test_the_time_limit_fails_whatever_is_unfinished():
    assert states_that(deadline="failed") == set(State) - FINISHED


def test_nothing_observed_moves_a_complete_or_killed_job():
    for state in (State.COMPLETE, State.KILLED):
        assert {cell(state, event.value) for event in Event} == {"."}


def test_only_a_late_result_moves_a_failed_job():
    assert [event for event in Event if cell(State.FAILED, event.value) != "."] == [Event.RESULT]


def test_an_unreadable_or_foreign_sidecar_moves_nothing():
    assert states_that(unread=".") == states_that(stale=".") == set(State)


def test_met_dependencies_release_blocked_jobs_only():
    assert states_that(dep_t="waiting") == {State.BLOCKED}
    assert states_that(dep_t=".") == set(State) - {State.BLOCKED}


def test_an_owner_removes_what_no_worker_can_be_at_and_an_administrator_anything():
    waiting = {State.WAITING, State.BLOCKED}
    assert states_that(remove="removed") == waiting | FINISHED
    assert states_that(force="removed") == states_that(override="any") == set(State)


def test_whatever_is_unfinished_can_be_killed_and_only_that():
    assert states_that(kill="killed") == set(State) - FINISHED


def test_only_failed_failing_and_killed_jobs_can_be_retried():
    assert states_that(retry="409") == set(State) - {State.FAILED, State.FAILING, State.KILLED}


@given(
    before=st.lists(st.sampled_from(Event)),
    afterwards=st.lists(st.sampled_from(Event)),
)
def test_a_job_with_a_result_ends_complete_in_whatever_order_things_are_seen(
    before: list[Event], afterwards: list[Event]
):
    state = State.WAITING
    for event in (*before, Event.RESULT, *afterwards):
        state = after(state, event)
    assert state is State.COMPLETE


@given(events=st.lists(st.sampled_from(Event)))
def test_no_event_kills_a_job_or_makes_it_failing(events: list[Event]):
    state = State.WAITING
    for event in events:
        state = after(state, event)
        assert state not in {State.KILLED, State.FAILING, State.BLOCKED}
