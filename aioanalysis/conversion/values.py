"""Single values: from the text of an export to what BCDM holds. Nothing is evaluated."""

from __future__ import annotations

import math
import re
from typing import Any, Final, NamedTuple

Number = int | float
INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")
SAYS_NOTHING: Final = frozenset({"", "None", " "})
DECIMAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
NOT_FINITE: Final = frozenset({"nan", "inf", "infinity"})
COORD_ENDS: Final = {"[": "]", "(": ")"}
ITEM: Final = re.compile(
    r"""\s*
    (?: (?P<quoted> '(?:[^'\\]|\\.)*+' | "(?:[^"\\]|\\.)*+" )
    | (?P<bare> [^\s,'"\[\]()][^,'"\[\]()]*+ ) )
    \s* (?P<comma> ,?)""",
    re.VERBOSE | re.DOTALL,
)
ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "/": "/"}
NUCLEOTIDES: Final = re.compile(r"[ACGTURYSWKMBDHVNacgturyswkmbdhvn?.*~-]*")
LONGEST_DOUBT: Final = 10_000


class Read(NamedTuple):
    """A value, None when there is none, and the kind of what there is to say of it."""

    value: Any
    kind: str | None = None


def is_missing(text: str) -> bool:
    """Empty, blank or `None`, which one and the same export mixes."""
    return text in SAYS_NOTHING or text.isspace()


def integer(text: str) -> Read:
    """`12` is 12, and so is `12.0`; what is no whole number stays text."""
    stripped = text.strip()
    if INTEGER.fullmatch(stripped):
        return Read(int(stripped))
    found = number(text)
    if isinstance(found.value, float) and found.value.is_integer() and abs(found.value) < 2**53:
        return Read(int(found.value), "whole_number")
    return Read(text, "not_a_number") if found.value is not None else found


def number(text: str) -> Read:
    stripped = text.strip()
    if INTEGER.fullmatch(stripped):
        return Read(int(stripped))
    if stripped.lstrip("+-").lower() in NOT_FINITE:
        return Read(None, "not_finite")
    if not DECIMAL.fullmatch(stripped):
        return Read(text, "not_a_number")
    value = float(stripped)
    return Read(value) if math.isfinite(value) else Read(text, "not_a_number")


def coord(text: str) -> Read:
    """Latitude and longitude from `[a, b]`, `(a, b)` or `a,b`."""
    inner = text.strip()
    if inner[:1] in COORD_ENDS:
        if not inner.endswith(COORD_ENDS[inner[0]]):
            return Read(text, "not_coordinates")
        inner = inner[1:-1]
    parts = [part.strip() for part in inner.split(",")]
    if all(is_missing(part) or part == "nan" for part in parts):
        return Read(None, "missing")
    return located(*parts, text=text) if len(parts) == 2 else Read(text, "not_coordinates")


def located(latitude: str, longitude: str, *, text: str) -> Read:
    found = [number(latitude).value, number(longitude).value]
    if not all(isinstance(value, (int, float)) for value in found):
        return Read(text, "not_coordinates")
    inside = abs(found[0]) <= 90 and abs(found[1]) <= 180
    return Read(found, None if inside else "outside_globe")


def strings(text: str) -> Read:
    """A list as Python, numpy or JSON write it, or texts with commas between them."""
    stripped = text.strip()
    if stripped[:1] in COORD_ENDS and stripped.endswith(COORD_ENDS[stripped[0]]):
        items = _items(stripped[1:-1])
    elif stripped[:1] in COORD_ENDS:
        items = None
    else:
        items = [part.strip() for part in stripped.split(",")]
    if items is None:
        return Read(text, "not_a_list")
    kept = [item for item in items if not is_missing(item)]
    return Read(kept) if kept else Read(None, "missing")


def _items(text: str) -> list[str] | None:
    text = text.strip()
    items, position, after_comma = [], 0, True
    while position < len(text):
        found = ITEM.match(text, position)
        if found is None or (found["bare"] and not after_comma):
            return None
        quoted = found["quoted"]
        items.append(_unescaped(quoted[1:-1]) if quoted else found["bare"].strip())
        position, after_comma = found.end(), bool(found["comma"])
    return items


def _unescaped(text: str) -> str:
    return ESCAPE.sub(_character, text) if "\\" in text else text


def _character(escape: re.Match[str]) -> str:
    """What a backslash stands for in Python's and JSON's strings; one that means nothing stays."""
    code = escape[1]
    if len(code) > 1:
        value = int(code[1:], 16)
        return chr(value) if value < 0x110000 and not 0xD800 <= value < 0xE000 else escape[0]
    return ESCAPED.get(code, escape[0])


def barred(text: str) -> Read:
    """Values with `|` between them, empty ones kept: their places tell what belongs together."""
    return Read(text.split("|"))


def text(text: str) -> Read:
    """Text as it is."""
    return Read(text, "double_encoded" if not text.isascii() and is_double_encoded(text) else None)


def nucleotides(text: str) -> Read:
    return Read(text, None if NUCLEOTIDES.fullmatch(text) else "odd_characters")


def base_count(nuc: str) -> int:
    """A, C, G and T: what `nuc_basecount` counts."""
    return sum(map(nuc.upper().count, "ACGT"))


def is_double_encoded(text: str) -> bool:
    """Whether UTF-8 was read as ISO-8859-1 or Windows-1252 once, as in `GuenÃ©e`."""
    if len(text) > LONGEST_DOUBT:
        return False
    for encoding in ("latin-1", "cp1252"):
        try:
            text.encode(encoding).decode("utf-8")
        except UnicodeError:
            continue
        return True
    return False
