"""The nine states of a job and every transition between them, as one table.

PROTOCOL.md section 5 is the source: the rows below stand there letter for letter and a test reads both.
`.` keeps the state, `409` refuses, `new` makes another job and leaves this one, `agg` asks the aggregate of
the frames, `phase` the row of the job's phase, `held` unblocks if a frame is blocked, `any` is the override.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NoReturn

from aioanalysis.errors import Refused


class State(StrEnum):
    WAITING = "waiting"
    QUEUED = "queued"
    RUNNING = "running"
    COMPLETE = "complete"
    FAILED = "failed"
    BLOCKED = "blocked"
    FAILING = "failing"
    RETRYING = "retrying"
    KILLED = "killed"


class Event(StrEnum):
    """What a pass can observe of the current attempt of a package."""

    QUEUE = "queue"  # its package is in the queue
    CLAIM = "claim"  # a worker holds it
    GONE = "gone"  # it has left the queue and nothing is known of it
    RESULT = "result"  # result package and readable sidecar
    FAIL = "fail"  # failed package and sidecar, for good
    FAIL_RETRYABLE = "fail_r"  # failed, retryable and retries left
    UNREADABLE = "unread"  # a sidecar that cannot be read
    STALE = "stale"  # of another attempt or another job's uid
    DEADLINE = "deadline"  # the time limit has passed
    LEASE = "lease"  # the claim's lease has run out, recoveries left
    LEASE_EXHAUSTED = "lease_x"  # the same, none left
    DEPENDENCIES_MET = "dep_t"
    DEPENDENCIES_FALSE = "dep_f"


class Action(StrEnum):
    BLOCK = "block"
    BLOCK_NOW = "block_now"
    UNBLOCK = "unblock"
    INTERRUPT = "interrupt"
    SUSPEND = "suspend"
    KILL = "kill"
    RETRY = "retry"
    RESUBMIT = "resubmit"
    REMOVE = "remove"  # by the owner
    FORCE = "force"  # by an administrator
    OVERRIDE = "override"  # by the system token


TABLE: Final = """
waiting  | queue=queued claim=running gone=. result=complete fail=failed fail_r=retrying unread=. stale=. deadline=failed lease=queued lease_x=failed dep_t=. dep_f=. | block=blocked block_now=blocked unblock=409 interrupt=409 suspend=409 kill=killed retry=409 resubmit=new remove=removed force=removed override=any
queued   | queue=. claim=running gone=running result=complete fail=failed fail_r=retrying unread=. stale=. deadline=failed lease=. lease_x=failed dep_t=. dep_f=. | block=blocked block_now=blocked unblock=409 interrupt=409 suspend=waiting kill=killed retry=409 resubmit=new remove=409 force=removed override=any
running  | queue=queued claim=. gone=. result=complete fail=failed fail_r=retrying unread=. stale=. deadline=failed lease=queued lease_x=failed dep_t=. dep_f=. | block=409 block_now=blocked unblock=409 interrupt=waiting suspend=. kill=killed retry=409 resubmit=new remove=409 force=removed override=any
complete | queue=. claim=. gone=. result=. fail=. fail_r=. unread=. stale=. deadline=. lease=. lease_x=. dep_t=. dep_f=. | block=409 block_now=409 unblock=409 interrupt=409 suspend=409 kill=409 retry=409 resubmit=new remove=removed force=removed override=any
failed   | queue=. claim=. gone=. result=complete fail=. fail_r=. unread=. stale=. deadline=. lease=. lease_x=. dep_t=. dep_f=. | block=409 block_now=409 unblock=409 interrupt=409 suspend=409 kill=409 retry=waiting resubmit=new remove=removed force=removed override=any
blocked  | queue=. claim=running gone=. result=complete fail=failed fail_r=. unread=. stale=. deadline=failed lease=. lease_x=. dep_t=waiting dep_f=. | block=. block_now=. unblock=waiting interrupt=409 suspend=409 kill=killed retry=409 resubmit=new remove=removed force=removed override=any
failing  | queue=. claim=. gone=. result=agg fail=agg fail_r=. unread=. stale=. deadline=failed lease=. lease_x=agg dep_t=. dep_f=. | block=agg block_now=blocked unblock=held interrupt=. suspend=. kill=killed retry=agg resubmit=new remove=409 force=removed override=any
retrying | queue=. claim=. gone=. result=complete fail=failed fail_r=. unread=. stale=. deadline=failed lease=. lease_x=failed dep_t=. dep_f=. | block=phase block_now=blocked unblock=409 interrupt=phase suspend=phase kill=killed retry=409 resubmit=new remove=409 force=removed override=any
killed   | queue=. claim=. gone=. result=. fail=. fail_r=. unread=. stale=. deadline=. lease=. lease_x=. dep_t=. dep_f=. | block=409 block_now=409 unblock=409 interrupt=409 suspend=409 kill=409 retry=waiting resubmit=new remove=removed force=removed override=any
"""  # noqa: E501 - one row a state, as in PROTOCOL.md


def _parse(table: str) -> Mapping[State, Mapping[str, str]]:
    rows: dict[State, Mapping[str, str]] = {}
    for line in table.strip().splitlines():
        name, events, actions = (part.strip() for part in line.split("|"))
        cells = dict(cell.split("=") for cell in f"{events} {actions}".split())
        rows[State(name)] = MappingProxyType(cells)
    return MappingProxyType(rows)


TRANSITIONS: Final = _parse(TABLE)


class InvalidTransition(Refused):
    """The action does not fit the state; `allowed` lists those that do."""


def answer(state: State, occurrence: Event | Action) -> str:
    """The table's cell for `occurrence` in `state`, as written."""
    return TRANSITIONS[state][occurrence.value]


def after(state: State, event: Event) -> State:
    """The state of a job of one package after `event` was observed in `state`."""
    cell = answer(state, event)
    return state if cell in {".", "agg"} else State(cell)


def allowed_actions(state: State) -> tuple[Action, ...]:
    """The actions that `state` does not refuse, in the table's order."""
    return tuple(action for action in Action if answer(state, action) != "409")


def check_action(state: State, action: Action) -> str:
    """The cell for `action`; raises `InvalidTransition` where the table says 409."""
    cell = answer(state, action)
    if cell == "409":
        refuse(state, action, allowed_actions(state))
    return cell


def refuse(state: State, action: Action, fitting: Sequence[Action]) -> NoReturn:
    """Raise `InvalidTransition` for `action` in `state`, saying which would fit."""
    told = [_SPOKEN.get(a, a.value) for a in fitting if a not in {Action.FORCE, Action.OVERRIDE}]
    raise InvalidTransition(
        f"{_SPOKEN.get(action, action.value)} does not fit a job that is {state};"
        f" what does: {', '.join(told) or 'nothing'}",
        state=state,
        allowed=[a.value for a in fitting],
    )


_SPOKEN: Final = {
    Action.BLOCK_NOW: "block (when=now)",
    Action.FORCE: "removal by force",
    Action.OVERRIDE: "the manual override",
}


FINISHED: Final = frozenset({State.COMPLETE, State.FAILED, State.KILLED})
