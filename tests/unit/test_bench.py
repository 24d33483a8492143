"""What a benchmark's finding says, and that every goal is there."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest
from rich.console import Console

from tests.bench.__main__ import table_of
from tests.bench.goals import GOALS
from tests.bench.measuring import Finding


def finding(**changes: Any) -> Finding:
    return Finding(**{"goal": "P0", "what": "something", "unit": "s", "ours": [1.0], **changes})


def test_there_is_a_benchmark_for_every_goal() -> None:
    assert {f"P{number}" for number in range(1, 14)} <= GOALS.keys()


@pytest.mark.parametrize(
    ("changes", "result", "spread", "reached"),
    [
        ({"limit": [1, 2, 4], "most": 1.5}, 1.5, (1.25, 2.0), True),
        ({"limit": [1, 2, 4], "most": 1.4}, 1.5, (1.25, 2.0), False),
        ({"limit": [6.0], "least": 0.5}, 0.5, (2 / 6, 5 / 6), True),
        ({"limit": [1, 2, 4], "by": "difference", "most": 0.5}, 1.0, (1.0, 1.0), False),
        ({"by": "value", "most": 3}, 3, (2, 5), True),
        ({"by": "value"}, 3, (2, 5), None),
        ({"limit": [0.0]}, math.inf, (math.inf, math.inf), None),
    ],
)
def test_medians_are_compared_and_the_spread_is_that_of_rounds(
    changes: dict[str, Any], result: float, spread: tuple[float, float], reached: bool | None
) -> None:
    found = finding(ours=[2, 3, 5], **changes)
    assert found.result == pytest.approx(result)
    assert found.spread == pytest.approx(spread)
    assert found.reached is reached
    assert found.to_json()["result"] == found.result


def test_the_table_tells_figures_goal_and_whether_it_is_reached() -> None:
    console = Console(width=150, file=io.StringIO(), record=True)
    console.print(table_of([finding(ours=[3.0], limit=[2.0], most=1.2), finding(by="value")]))
    first, second = console.export_text().splitlines()[-2:]
    assert first.split() == ["P0", "something", "3", "s", "2", "s", "1.5x", "1.5-1.5", "<=", "1.2x", "NO"]
    assert second.split() == ["P0", "something", "1", "s", "1", "s", "1-1"]
