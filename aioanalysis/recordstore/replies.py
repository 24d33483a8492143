"""What replies of an HTTP record store mean: counts, pauses, its own words, pages that are no records."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from html import unescape
from typing import Any, Final
from urllib.parse import quote

from aioanalysis.domain.records import BOM
from aioanalysis.recordstore.pieces import Pieces

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
HEAD_BYTES: Final = 64 * 1024
WORDS: Final = 500
MAX_PAUSE: Final = 24 * 3600.0
COUNT_HEADERS: Final = ("X-Total-Count", "X-Record-Count")
WORD_KEYS: Final = ("detail", "message", "error", "msg", "title")
ERROR_KEYS: Final = frozenset({*WORD_KEYS, "status", "code", "type", "instance"})
"""An object with no other keys than these is an error, not a record."""


def announced(headers: Mapping[str, str]) -> int | None:
    """The number of records that the headers promise."""
    for name in COUNT_HEADERS:
        value = headers.get(name, "").strip()
        if value.isascii() and value.isdigit() and len(value) < 19:
            return int(value)
    return None


def retry_after(value: str | None, now: datetime | None = None) -> float | None:
    """Seconds that a `Retry-After` asks for, given as seconds or as a date; at most a day."""
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return min(float(text), MAX_PAUSE)
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    seconds = (until - (now or datetime.now(UTC))).total_seconds()
    return min(max(seconds, 0.0), MAX_PAUSE)


def is_html(content_type: str) -> bool:
    return content_type in {"text/html", "application/xhtml+xml"}


async def head(body: Pieces) -> tuple[bytes, bool]:
    """Enough of `body` to tell what it is: its first line, if that is short; and whether that is all."""
    start = b""
    while piece := await body.read():
        start += piece
        line, newline, _ = start.removeprefix(BOM).lstrip().partition(b"\n")
        # A brace alone begins an object over several lines, which no record is.
        if len(start) >= HEAD_BYTES or (newline and line.strip() != b"{"):
            return start, False
    return start, True


def complaint(start: bytes, *, whole: bool, key: str) -> str | None:
    """Why a reply with status 200 that begins like this is none of records; None when it may be."""
    text = start.removeprefix(BOM).lstrip()
    if text.startswith(b"<"):
        return "the record store answered with a page instead of records"
    line = text if whole else text.partition(b"\n")[0]
    value = _json(line) if len(line) <= HEAD_BYTES else None
    if isinstance(value, dict) and value and value.keys() <= ERROR_KEYS:
        return f"the record store answered with an error instead of records: {words(line, key)}"
    return None


def words(body: bytes, key: str) -> str:
    """What an error's body says, for people: a JSON error's text, or a page without its markup.

    The submitter's key (empty: none was sent) is taken out, should the store repeat it.
    """
    value = _json(body)
    return _plain(body.decode("utf-8", "replace") if value is None else _spoken(value), key)


def spoken(value: Any, key: str) -> str:
    """What an error's JSON value says, as `words` has it."""
    return _plain(_spoken(value), key)


def _plain(text: str, key: str) -> str:
    if "<" in text:
        text = re.sub(r"(?is)<(script|style|head)\b.*?(</\1\s*>|\Z)", " ", text)
        text = unescape(re.sub(r"(?s)<[^>]*(>|\Z)", " ", text))
    text = "".join(c if c.isprintable() else " " for c in text)
    for form in (key, quote(key), quote(key, safe="")) if key else ():
        text = text.replace(form, "***")
    return " ".join(text.split())[:WORDS]


def _spoken(value: Any) -> str:
    if isinstance(value, dict):
        said = next((value[key] for key in WORD_KEYS if value.get(key)), None)
        return _spoken(said) if said is not None else json.dumps(value)
    if isinstance(value, list):
        return "; ".join(_spoken(item) for item in value)
    return str(value)


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
