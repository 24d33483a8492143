"""How commands print: tables on a terminal, JSON where programs read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.progress import Progress, ProgressColumn
from rich.table import Table

console = Console()


def progress(*columns: ProgressColumn, show: bool = True) -> Progress:
    """A progress bar on standard error, gone when it ends; nothing at all where that is no terminal."""
    errors = Console(stderr=True)
    shown = show and errors.is_terminal
    return Progress(
        *columns, console=errors if shown else Console(quiet=True), disable=not shown, transient=True
    )


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table; values are text, never markup."""
    table = Table(box=None, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(_plain(cell) for cell in row))
    console.print(table)


def _plain(text: str) -> str:
    return text.replace("[", r"\[")
