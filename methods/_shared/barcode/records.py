"""Reading BCDM records from JSON Lines, one at a time (fields as in BCDM's field_definitions.tsv)."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_LINE_BYTES = 64 << 20
BOM = b"\xef\xbb\xbf"
# Older exports name some fields otherwise; the first name found counts.
ALIASES = {
    "marker_code": ("marker_code", "markercode"),
    "nuc": ("nuc", "nucleotides"),
    "identification": ("identification", "taxon_name"),
    "identification_rank": ("identification_rank", "taxon_rank"),
    "province/state": ("province/state", "province"),
    "country/ocean": ("country/ocean", "country_ocean", "country.ocean"),
}
NA_IS_MISSING = frozenset({"markercode", "nucleotides"})
NO_TEXT = {bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no record, and why."""

    line: int
    why: str


@dataclass(frozen=True, slots=True)
class Record:
    """One record as it was read, unknown keys included; `line` counts from 1."""

    line: int
    values: dict[str, Any]

    def text(self, field: str) -> str | None:
        """The field as stripped text, or None where it is absent, null, "None", empty or blank."""
        for key in ALIASES.get(field, (field,)):
            value = as_text(self.values.get(key))
            if value is not None and not (key in NA_IS_MISSING and value == "NA"):
                return value
        return None

    @property
    def processid(self) -> str | None:
        return self.text("processid")

    @property
    def marker(self) -> str | None:
        return self.text("marker_code")

    @property
    def sequence(self) -> str | None:
        """The sequence's text, blanks around it removed; None where there is none, or no text."""
        return self.text("nuc") if self.not_a_sequence is None else None

    @property
    def not_a_sequence(self) -> str | None:
        """Of a sequence that is there and no text: what it is, as in "nuc is a number, no text"."""
        for key in ALIASES["nuc"]:
            value = self.values.get(key)
            if not is_missing(value):
                return None if isinstance(value, str) else f"{key} is {NO_TEXT[type(value)]}, no text"
        return None

    @property
    def record_id(self) -> str:
        """The record's own id, else processid.marker_code, else processid, else its line."""
        own, process, marker = self.text("record_id"), self.processid, self.marker
        if own:
            return own
        if process:
            return f"{process}.{marker}" if marker else process
        return f"line {self.line}"

    @property
    def coord(self) -> tuple[float, float] | None:
        return parse_coord(self.values.get("coord"))

    def array(self, field: str) -> list[str]:
        return parse_array(self.values.get(field))


def read_records(path: Path) -> Iterator[Record | BadLine]:
    """Every line that is not blank, in order: a record, or what is wrong with the line."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                while line and not line.endswith(b"\n"):
                    line = file.readline(MAX_LINE_BYTES)
                yield BadLine(number, f"longer than {MAX_LINE_BYTES >> 20} MiB")
                continue
            if number == 1:
                line = line.removeprefix(BOM)
            if line.strip():
                yield parse_line(number, line)


def parse_line(number: int, line: bytes) -> Record | BadLine:
    try:
        value = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        return BadLine(number, f"not UTF-8 at byte {error.start + 1}")
    except json.JSONDecodeError as error:
        return BadLine(number, f"not JSON: {error.msg} at column {error.colno}")
    except (RecursionError, ValueError) as error:
        return BadLine(number, f"not JSON: {type(error).__name__}")
    if not isinstance(value, dict):
        return BadLine(number, "not a JSON object")
    return Record(number, value)


def as_text(value: object) -> str | None:
    if isinstance(value, str):
        text = value.strip()
        if not text.isascii():  # lone surrogates, which JSON can write and UTF-8 cannot
            text = text.encode("utf-8", "replace").decode("utf-8")
    elif isinstance(value, bool) or value is None:
        return None if value is None else str(value)
    elif isinstance(value, (int, float)):
        text = str(value)
    elif isinstance(value, list):
        text = ", ".join(part for part in map(as_text, value) if part)
    else:
        return None
    return text if text and text != "None" else None


def is_missing(value: object) -> bool:
    """None, "None", empty or blank; an empty list too."""
    return value is None or (isinstance(value, (str, list)) and as_text(value) is None)


def parse_coord(value: object) -> tuple[float, float] | None:
    """Latitude and longitude in degrees, from a list of two or from "[a, b]", "(a, b)" or "a,b"."""
    parts = re.split(r"[,;\s]+", value.strip(" \t[]()")) if isinstance(value, str) else value
    if not isinstance(parts, (list, tuple)) or len(parts) != 2:
        return None
    try:
        latitude, longitude = (float(part) for part in parts)
    except (TypeError, ValueError):
        return None
    inside = (
        math.isfinite(latitude) and abs(latitude) <= 90 and math.isfinite(longitude) and abs(longitude) <= 180
    )
    return (latitude, longitude) if inside else None


def parse_array(value: object) -> list[str]:
    """A list of texts, from a list, a list written as Python writes it, or text with commas."""
    if isinstance(value, str):
        text = value.strip()
        if text.startswith("[") and text.endswith("]"):
            try:
                value = ast.literal_eval(text)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                value = text[1:-1].split(",")
        else:
            value = text.split(",")
    if not isinstance(value, (list, tuple)):
        return []
    return [text for text in map(as_text, value) if text]
