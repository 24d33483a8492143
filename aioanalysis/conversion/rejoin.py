"""Rows of BOLDconnectR's CSV, which has commas in its values and no quotes, put together again.

A row is only taken if there is one way to read it: values stand where their column can hold them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from aioanalysis.conversion.fields import COORD, INTEGERS, LISTS, NUC, NUMBERS

NA: Final = "NA"
DATE: Final = re.compile(r"[0-9]{4}(-[0-9]{2}){0,2}")
SHAPES: Final = {
    "processid": re.compile(r"[A-Z0-9]+-[0-9]{2}"),
    "record_id": re.compile(r"[A-Z0-9]+-[0-9]{2}(\.[^.\s]+)?"),
    "bin_uri": re.compile(r"BOLD:[A-Z]{3}[0-9]+"),
    "country_iso": re.compile(r"[A-Z]{2}"),
    "identification_rank": re.compile(r"[a-z]+"),
    "marker_code": re.compile(r"[A-Za-z0-9-]+"),
    NUC: re.compile(r"[A-Za-z?.*~-]+"),
    **dict.fromkeys(("kingdom", "phylum", "class", "order", "family"), re.compile(r"[A-Z][A-Za-z _-]+")),
    **dict.fromkeys(INTEGERS, re.compile(r"[0-9]+")),
    **dict.fromkeys(NUMBERS, re.compile(r"-?[0-9.]+(e[+-]?[0-9]+)?")),
}
LATITUDE: Final = re.compile(r"-?[0-9]{1,2}(\.[0-9]+)?")
LONGITUDE: Final = re.compile(r"-?[0-9]{1,3}(\.[0-9]+)?")
ITEMS: Final = {
    "bold_recordset_code_arr": re.compile(r"[A-Z0-9][A-Z0-9_-]*"),
    **dict.fromkeys(("primers_forward", "primers_reverse"), re.compile(r"[^\s:]+:[A-Za-z]+")),
}
MOST_PARTS: Final = 1_000
MOST_WAYS: Final = 2


def rejoin(names: Sequence[str], parts: Sequence[str]) -> list[str] | None:
    """The values of the columns `names` out of a row split at every comma; None if that is not certain.

    A comma with a blank after it stands within a value: none of these exports pads its values.
    """
    joined: list[str] = []
    for part in parts:
        if joined and part.startswith(" ") and part.strip():
            joined[-1] += f",{part}"
        else:
            joined.append(part)
    if len(joined) > MOST_PARTS:
        return None
    ways = _ways(names, joined)
    return ways[0] if len(ways) == 1 else None


def _ways(names: Sequence[str], parts: Sequence[str]) -> list[list[str]]:
    """At most two ways to give each column its parts."""
    # (how many parts are used, the values so far); columns one by one, so that no recursion is needed.
    ways: list[tuple[int, list[str]]] = [(0, [])]
    for column, name in enumerate(names):
        left = len(names) - column - 1
        ways = [
            (end, [*values, ",".join(parts[start:end])])
            for start, values in ways
            for end in _ends(name, parts, start, len(parts) - left)
        ]
        if len(ways) > MOST_PARTS:
            return []
    return [values for end, values in ways if end == len(parts)][:MOST_WAYS]


def _ends(name: str, parts: Sequence[str], start: int, limit: int) -> list[int]:
    """Where the value of `name` that begins at part `start` may end."""
    if start >= limit:
        return []
    first = parts[start]
    if name == COORD and first not in {"", NA}:
        second = parts[start + 1] if start + 1 < limit else ""
        return [start + 2] if LATITUDE.fullmatch(first) and LONGITUDE.fullmatch(second) else []
    if name in LISTS and first not in {"", NA}:
        ends, end = [], start
        while end < limit and ITEMS[name].fullmatch(parts[end]):
            end += 1
            ends.append(end)
        return ends
    return [start + 1] if _fits(name, first) else []


def _fits(name: str, value: str) -> bool:
    if value.strip() in {"", NA}:
        return True
    shape = DATE if name.endswith(("_date", "_date_start", "_date_end")) else SHAPES.get(name)
    return shape is None or shape.fullmatch(value) is not None
