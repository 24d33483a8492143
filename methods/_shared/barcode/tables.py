"""Tab-separated tables: UTF-8, one header line, no quoting; what is not known is an empty cell."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

CONTROL = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]+")


def cell(value: object) -> str:
    """Numbers to 12 significant digits; tabs, line breaks and other control characters become one blank."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.12g}" if math.isfinite(value) else ""
    return CONTROL.sub(" ", str(value))


def write_tsv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> int:
    """How many rows were written. Every row must have a cell for each column."""
    written = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write("\t".join(columns) + "\n")
        for row in rows:
            if len(row) != len(columns):
                raise ValueError(f"{len(row)} cells for {len(columns)} columns in {path.name}")
            file.write("\t".join(map(cell, row)) + "\n")
            written += 1
    return written
