"""Tables that fit the terminal: columns are left out, the least important first, and one is cut to a line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from rich.text import Text

from aioanalysis.cli.output import console

GAP: Final = 2
FLEXIBLE_WIDTH: Final = 16
STYLES: Final = {
    "waiting": "dim",
    "queued": "dim",
    "running": "cyan",
    "complete": "green",
    "failed": "red",
    "blocked": "yellow",
    "failing": "red",
    "retrying": "yellow",
    "killed": "magenta",
}
Cell = str | Text


@dataclass(frozen=True, slots=True)
class Column:
    """`keep`: the smaller, the sooner it is left out. A flexible one takes what is left, 16 cells or more."""

    name: str
    keep: int = 5
    flexible: bool = False
    right: bool = False


def state_cell(state: str) -> Text:
    """A state in its colour."""
    return Text(state, style=STYLES.get(state, ""))


def print_columns(columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> None:
    """A table on standard output; values are text, never markup. Where that is no terminal nothing is cut."""
    width = console.width if console.is_terminal or "COLUMNS" in os.environ else None
    for line in table_lines(columns, list(rows), width):
        if console.is_terminal:
            console.print(line, no_wrap=True, crop=True)
        else:
            print(line.plain)


def table_lines(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], width: int | None) -> list[Text]:
    """The head and a line a row, none wider than `width` cells."""
    texts = [[_text(cell) for cell in row] for row in rows]
    natural = [
        max([cell_len(column.name), *(row[index].cell_len for row in texts)])
        for index, column in enumerate(columns)
    ]
    shown = fit(columns, natural, width)
    head = [Text(column.name, style="bold") for column in columns]
    return [_line(columns, row, shown) for row in (head, *texts)]


def fit(columns: Sequence[Column], natural: Sequence[int], width: int | None) -> dict[int, int]:
    """Which columns are shown, by their place, and how wide; `natural` is how wide each would like to be."""
    shown = list(range(len(columns)))
    least = [
        min(wide, FLEXIBLE_WIDTH) if column.flexible else wide
        for column, wide in zip(columns, natural, strict=True)
    ]
    if width is None:
        return {index: natural[index] for index in shown}
    while len(shown) > 1 and sum(least[index] + GAP for index in shown) - GAP > width:
        shown.remove(min(shown, key=lambda index: (columns[index].keep, -index)))
    widths = {index: least[index] for index in shown}
    left = width - sum(widths.values()) - GAP * (len(shown) - 1)
    for index in shown:
        if columns[index].flexible and left > 0:
            more = min(left, natural[index] - widths[index])
            widths[index] += more
            left -= more
    if len(shown) == 1:
        widths[shown[0]] = min(widths[shown[0]], width)
    return widths


def _line(columns: Sequence[Column], row: Sequence[Text], shown: dict[int, int]) -> Text:
    return Text(" " * GAP).join(_cells(columns, row, shown))


def _cells(columns: Sequence[Column], row: Sequence[Text], shown: dict[int, int]) -> Iterator[Text]:
    last = max(shown)
    for index, width in shown.items():
        cell = row[index].copy()
        cell.truncate(width, overflow="ellipsis")
        if columns[index].right:
            cell.pad_left(width - cell.cell_len)
        elif index != last:
            cell.pad_right(width - cell.cell_len)
        yield cell


def _text(cell: Cell) -> Text:
    """One line, without what would move the cursor or colour the rest."""
    text = cell.copy() if isinstance(cell, Text) else Text(cell)
    plain = "".join(character if character.isprintable() else " " for character in text.plain)
    return Text(plain, style=text.style)
