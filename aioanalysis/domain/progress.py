"""How far a run is, as its worker last told it in `progress/<stem>.json`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from aioanalysis.domain import foreign
from aioanalysis.errors import Damaged

STAGES_MAX: Final = 5
TEXT_MAX: Final = 1000

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """Of one run of one attempt. `stage` counts from 1 to `stages`, `name` is its script.

    `message` and `fraction` (0 to 1, of the stage) are what the stage says of itself, None if it does not.
    """

    attempt: int
    stage: int
    stages: int
    name: str | None
    message: str | None
    fraction: float | None
    at: datetime

    @property
    def text(self) -> str:
        """As in `stage 3 of 5, 40% done: what it says`."""
        done = "" if self.fraction is None else f", {self.fraction:.0%} done"
        return f"stage {self.stage} of {self.stages}{done}" + (f": {self.message}" if self.message else "")


def parse_progress(data: bytes, *, uid: str) -> Progress | None:
    """What a worker wrote, part of it a method's own words; None before the first stage.

    Raises `Damaged` when it is not of the job `uid`, or nothing that a worker writes.
    """
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        raise Damaged("progress: not JSON") from None
    if not isinstance(body, dict) or body.get("uid") not in (None, uid):
        raise Damaged("progress: not of this job")
    attempt, stage = _whole(body, "attempt"), _whole(body, "stage")
    if stage is None:
        return None
    stages = _whole(body, "stages") or STAGES_MAX
    if attempt is None or not 1 <= stage <= stages <= STAGES_MAX:
        raise Damaged("progress: no such stage")
    done, total = _whole(body, "records_done"), _whole(body, "records_total")
    return Progress(
        attempt=attempt,
        stage=stage,
        stages=stages,
        name=_text(body.get("script")),
        message=_text(body.get("message")),
        fraction=None if done is None or not total else min(done, total) / total,
        at=_moment(body.get("at")),
    )


def _whole(body: Mapping[str, Any], name: str) -> int | None:
    value = body.get(name)
    return value if type(value) is int and value >= 0 else None


def _text(value: object) -> str | None:
    """On one line, and such that it can be written as UTF-8."""
    if not isinstance(value, str):
        return None
    line = _CONTROLS.sub(" ", value.encode("utf-8", "replace").decode()).strip()
    return line[:TEXT_MAX] or None


def _moment(value: object) -> datetime:
    moment = foreign.moment(value)
    if moment is None:
        raise Damaged("progress: no time")
    return moment
