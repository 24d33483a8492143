"""Rows of a table, tab or comma separated: as many values as the header has names, or a finding."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from aioanalysis.conversion.findings import Findings
from aioanalysis.conversion.lines import Line
from aioanalysis.domain.records import MAX_LINE_BYTES

MOST_LINES: Final = 100
"""How many lines one quoted row may have before its quote counts as a stray one."""

Rejoin = Callable[[Sequence[str]], "list[str] | None"]


class Row(NamedTuple):
    line: int
    values: list[str]


def is_quoted(header: str) -> bool:
    """Whether the whole header is in quotes, as R writes a table unless told otherwise."""
    return len(header) > 1 and header.startswith('"') and header.endswith('"')


def fields(text: str, separator: str) -> list[str] | None:
    """The values of one row with quotes; None where they do not fit."""
    csv.field_size_limit(MAX_LINE_BYTES)
    lines = [f"{line}\n" for line in text.split("\n")]
    try:
        rows = list(csv.reader(lines, delimiter=separator, strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None


class Rows:
    """The rows under a header of `names`, in order.

    Tabs separate whatever stands in quotes, unless the header is in quotes itself. Commas may stand in
    values that are in quotes; a row with too many of them and no quotes goes to `rejoin`.
    """

    def __init__(
        self,
        lines: Iterator[Line],
        header: Line,
        names: Sequence[str],
        separator: str,
        findings: Findings,
        rejoin: Rejoin,
    ) -> None:
        self._lines = lines
        self._header = header.text
        self._width = len(names)
        self._separator = separator
        self._quotes = separator == "," or is_quoted(header.text)
        self._findings = findings
        self._rejoin = rejoin
        self._back: list[Line] = []

    def __iter__(self) -> Iterator[Row]:
        while (line := self._next()) is not None:
            if not line.text.strip():
                continue
            if line.text == self._header:
                self._findings.add("repeated_header", line.number)
                continue
            values = self._values(line)
            if values is not None:
                yield Row(line.number, values)

    def _next(self) -> Line | None:
        return self._back.pop() if self._back else next(self._lines, None)

    def _values(self, line: Line) -> list[str] | None:
        plain = line.text.split(self._separator)
        has_quotes = self._quotes and '"' in line.text
        if len(plain) == self._width and not (has_quotes and any(part.startswith('"') for part in plain)):
            return plain
        if has_quotes and (values := self._unquoted(line)) is not None:
            return values
        if len(plain) > self._width:
            if not any(part.strip() for part in plain[self._width :]):
                self._findings.add("blank_columns", line.number)
                return plain[: self._width]
            if self._separator == "," and (joined := self._rejoin(plain)) is not None:
                self._findings.add("rejoined", line.number, detail=f"{len(plain)} parts")
                return joined
        self._findings.add(
            "columns",
            line.number,
            value=line.text,
            detail=f"{len(plain)} columns instead of {self._width}",
        )
        return None

    def _unquoted(self, line: Line) -> list[str] | None:
        """The row that begins in `line` and goes on in the next ones while a quote is open."""
        text = line.text
        taken: list[Line] = []
        while text.count('"') % 2 and len(taken) < MOST_LINES and len(text) < MAX_LINE_BYTES:
            more = self._next()
            if more is None:
                break
            taken.append(more)
            text += f"\n{more.text}"
        values = fields(text, self._separator)
        if values is not None and len(values) == self._width:
            return values
        self._back += reversed(taken)
        return None
