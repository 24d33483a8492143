"""Which part of a stored file a request gets: Range, If-Range and If-None-Match, decided in one function."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_RANGE: Final = re.compile(r"\s*bytes\s*=\s*(\d{0,40})-(\d{0,40})\s*", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Whole:
    """All of it: 200."""


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes `start` up to, not including, `end`: 206."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The client has it: 304."""


@dataclass(frozen=True, slots=True)
class Unsatisfiable:
    """Nothing of it is in the range: 416."""


Answer = Whole | Part | Unchanged | Unsatisfiable


def decide(method: str, headers: Mapping[str, str], *, size: int, etag: str) -> Answer:
    """The answer for a file of `size` bytes with the strong, quoted `etag` (RFC 9110, 13.2.2 and 14.2).

    A range in another unit, of several parts or that is none at all is passed over, as is one whose If-Range
    names another version, and any but that of a GET.
    """
    if_none_match = headers.get("If-None-Match")
    if if_none_match is not None and _names(if_none_match, etag):
        return Unchanged()
    wanted = headers.get("Range")
    if method != "GET" or wanted is None:
        return Whole()
    if headers.get("If-Range", etag).strip() != etag:
        return Whole()
    match = _RANGE.fullmatch(wanted)
    if match is None or not (match[1] or match[2]):
        return Whole()
    return _part(match[1], match[2], size)


def _part(first: str, last: str, size: int) -> Answer:
    if not first:
        length = min(int(last), size)
        return Part(size - length, size) if length else Unsatisfiable()
    start = int(first)
    if last and int(last) < start:
        return Whole()
    if start >= size:
        return Unsatisfiable()
    return Part(start, min(int(last) + 1, size) if last else size)


def _names(if_none_match: str, etag: str) -> bool:
    """Weak comparison, as RFC 9110 wants it for If-None-Match."""
    tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return "*" in tags or etag in tags
