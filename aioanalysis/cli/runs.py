"""How runs of a job are asked for on a command line, and how they are printed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from typer import BadParameter

from aioanalysis.cli.output import console


def json_object(text: str, option: str) -> dict[str, Any]:
    """The value of `option`; raises `BadParameter`."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise BadParameter(f"{option} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadParameter(f"{option} must be a JSON object")
    return value


def dependency(text: str) -> dict[str, Any]:
    """`JOB[:complete|failed|killed|finished][:each]` as the service takes it."""
    job, *more = text.split(":")
    condition = {"job": job, "each": "each" in more}
    ends = [word for word in more if word != "each"]
    return {**condition, "when": ends[0]} if ends else condition


def split(records: int | None, by: str | None) -> dict[str, int | str] | None:
    """Raises `BadParameter` for both."""
    if records is not None and by is not None:
        raise BadParameter("give --split-records or --split-by, not both")
    if records is not None:
        return {"records": records}
    return None if by is None else {"by": by}


def print_runs(job: Mapping[str, Any]) -> None:
    """One line for the frames, and one for each ended run."""
    frames = job.get("frames")
    if frames:
        counts = ", ".join(f"{count} {state}" for state, count in sorted(frames["by_state"].items()))
        print_field("frames", f"{frames['total']}: {counts}")
    for attempt in job.get("attempts") or ():
        print_field(f"attempt {attempt['attempt']}", " ".join(_told(attempt)))


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


def print_field(name: str, text: str) -> None:
    """A name and its value."""
    console.print(f"{name:17}", text, markup=False, highlight=False, soft_wrap=True)
