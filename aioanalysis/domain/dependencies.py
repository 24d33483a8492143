"""What a job waits for: conditions on the states of other jobs, worked out anew in every pass.

A job can only name jobs that exist, and never names others later: there are no cycles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from aioanalysis.domain.states import FINISHED, State


class Condition(StrEnum):
    """Which end of the parent is waited for; `finished` is any."""

    COMPLETE = "complete"
    FAILED = "failed"
    KILLED = "killed"
    FINISHED = "finished"


@dataclass(frozen=True, kw_only=True, slots=True)
class Dependency:
    """A condition on job `job`; with `each`, frame n waits for the parent's frame n.

    `seen` is the parent's state when a pass saw it last: what counts once its record has expired.
    """

    job: str
    when: Condition = Condition.COMPLETE
    each: bool = False
    seen: State | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Parent:
    """What a pass knows of a parent: its state, and those of its frames by number."""

    state: State
    frames: Mapping[int, State]


def is_met(dependency: Dependency, parent: Parent | None, frame: int | None) -> bool | None:
    """Whether the condition is met: True, False (its end makes it false, for now), None (not ended yet)."""
    state = dependency.seen if parent is None else parent.state
    if dependency.each and frame is not None and parent is not None and parent.frames:
        state = parent.frames.get(frame, state)
    if state is None or state not in FINISHED:
        return None
    return dependency.when is Condition.FINISHED or dependency.when.value == state.value
