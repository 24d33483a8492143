"""Values out of JSON and metadata that others wrote: of the type that is wanted, else None or empty."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

LARGEST: Final = 2**63


def mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number(value: object) -> float | None:
    """A finite number that a float can hold."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return value if abs(value) < LARGEST else None  # which NaN is not either


def text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def moment(value: object) -> datetime | None:
    """A time in RFC 3339 with its zone."""
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return time if time is None or time.tzinfo else None
