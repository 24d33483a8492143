"""How runs of a job are asked for on a command line, and how they are printed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from aioanalysis.cli.output import console
from aioanalysis.errors import Invalid


def json_object(text: str, option: str) -> dict[str, Any]:
    """The value of `option`; raises `Invalid`."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise Invalid(f"{option} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Invalid(f"{option} must be a JSON object")
    return value


def dependency(text: str) -> dict[str, Any]:
    """`JOB[:complete|failed|killed|finished][:each]` as the service takes it."""
    job, *more = text.split(":")
    condition = {"job": job, "each": "each" in more}
    ends = [word for word in more if word != "each"]
    return {**condition, "when": ends[0]} if ends else condition


def split(records: int | None, by: str | None) -> dict[str, int | str] | None:
    """Raises `Invalid` for both."""
    if records is not None and by is not None:
        raise Invalid("give --split-records or --split-by, not both")
    if records is not None:
        return {"records": records}
    return None if by is None else {"by": by}


def print_runs(job: Mapping[str, Any]) -> None:
    """One line for the frames, and one for each ended run."""
    frames = job.get("frames")
    if frames:
        counts = ", ".join(f"{count} {state}" for state, count in sorted(frames["by_state"].items()))
        _print("frames", f"{frames['total']}: {counts}")
    for attempt in job.get("attempts") or ():
        _print(f"attempt {attempt['attempt']}", " ".join(_told(attempt)))


def _told(attempt: Mapping[str, Any]) -> Iterable[str]:
    yield attempt["ending"]
    if attempt["started_at"] or attempt["finished_at"]:
        yield f"{attempt['started_at'] or '?'} to {attempt['finished_at'] or '?'}"
    if attempt["host"]:
        yield f"on {attempt['host']}"
    if attempt["exit_code"] is not None:
        yield f"exit {attempt['exit_code']}"
    if attempt["error"]:
        yield f"({attempt['error']['reason']}: {attempt['error']['message']})"


def _print(name: str, text: str) -> None:
    console.print(f"{name:17}", text, markup=False, highlight=False)
