"""Tables fit the terminal, whatever its width."""

from __future__ import annotations

import pytest
from rich.text import Text

from aioanalysis.cli.columns import FLEXIBLE_WIDTH, Column, table_lines
from aioanalysis.cli.jobs import COLUMNS

LONG = "records: the record store refuses them, for a reason that takes many words to tell"
ROW = ("abcdefgh", "distance_summary", Text("running", style="cyan"), "12345", "5m", "ada", LONG)


def lines(width: int | None) -> list[str]:
    return [line.plain for line in table_lines(COLUMNS, [ROW, ROW], width)]


def test_no_line_is_wider_than_the_terminal_and_none_is_broken() -> None:
    for width in range(4, 160):
        found = lines(width)
        assert len(found) == 3
        assert max(len(line) for line in found) <= width, width


@pytest.mark.parametrize(
    ("width", "names"),
    [
        (8, ["id"]),
        (20, ["id", "state"]),
        (40, ["id", "method", "state"]),
        (60, ["id", "method", "state", "age", "why"]),
        (80, ["id", "method", "state", "records", "age", "by", "why"]),
    ],
)
def test_what_matters_least_is_left_out_first(width: int, names: list[str]) -> None:
    assert lines(width)[0].split() == names


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_reason_is_cut_to_one_readable_line(width: int) -> None:
    head, row, _ = lines(width)
    shown = row[head.index("why") :]
    assert len(shown) >= FLEXIBLE_WIDTH - 1
    assert shown.endswith("…")
    assert LONG.startswith(shown[:-1].rstrip())


def test_without_a_terminal_nothing_is_cut() -> None:
    assert lines(None)[1].endswith(LONG)


def test_a_value_cannot_steer_the_terminal_or_break_the_line() -> None:
    [_, line] = table_lines([Column("a")], [["x\x1b[31m\ny[bold]"]], 80)
    assert line.plain == "x [31m y[bold]"
