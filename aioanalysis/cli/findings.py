"""What a check of `aioanalysis doctor` says of a part."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

SKEW_SECONDS: Final = 5.0


class Status(StrEnum):
    OK = "ok"
    ABSENT = "absent"  # not set, and not needed by every process
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one part; `mend` says what to do about it."""

    part: str
    status: Status
    text: str
    mend: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def skew(whose: str, ahead: timedelta) -> Iterable[Finding]:
    """A clock that is off: time limits and expiries are then counted wrongly."""
    seconds = ahead.total_seconds()
    if abs(seconds) > SKEW_SECONDS:
        text = f"{whose} clock is {abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} ours"
        mend = "run a time service (chrony, systemd-timesyncd) on both hosts"
        yield Finding("clock", Status.WARNING, text, mend)
