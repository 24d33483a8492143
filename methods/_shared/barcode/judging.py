"""Judging records one by one: each record judged, records_used.jsonl and records_left_out.jsonl written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from .job import Job, RefusalError, write_jsonl
from .records import BadLine, Record, read_records
from .selection import LeftOut

Chosen = TypeVar("Chosen", covariant=True)


class Judge(Protocol[Chosen]):
    """What decides on each record, one after the other, and counts."""

    read: int
    used: int
    counts: Counter[str]
    other_markers: Counter[str]

    def judge(self, item: Record | BadLine) -> Chosen | LeftOut: ...


def judge_all(
    job: Job,
    judge: Judge[Any],
    row: Callable[[Any], dict[str, object]],
    reasons: Mapping[str, str],
    *,
    source: Path | None = None,
) -> str:
    """Write both lists and the counts (work/selection.json); what was left out, in words, is returned.

    `row` makes a used record's line of records_used.jsonl; it is called once for each, in input order.
    """
    left_out: list[LeftOut] = []

    def used() -> Iterator[dict[str, object]]:
        for item in map(judge.judge, read_records(source or job.dir / "records.jsonl")):
            if isinstance(item, LeftOut):
                left_out.append(item)
                continue
            job.progress(judge.used, judge.read, "reading records")
            yield row(item)

    write_jsonl(job.dir / "records_used.jsonl", used())
    write_jsonl(job.dir / "records_left_out.jsonl", (item.as_json() for item in left_out))
    counts = {reason: judge.counts[reason] for reason in reasons if judge.counts[reason]}
    job.save(
        "selection",
        {
            "read": judge.read,
            "used": judge.used,
            "left_out": counts,
            "other_markers": dict(judge.other_markers.most_common()),
        },
    )
    told = "; ".join(f"{reasons[reason]}: {count}" for reason, count in counts.items())
    print(f"{judge.read} records read, {judge.used} used" + (f"; left out: {told}" if told else ""))
    note_flaws(job, judge)
    return told


def refuse_fewer(judge: Judge[Any], wanted: int, told: str, what: str, marker: str | None = None) -> None:
    """End with a plain sentence where fewer than `wanted` records can be used; `what` cannot be done then."""
    if judge.used < wanted:
        raise RefusalError(
            f"{what}: {judge.used} of {judge.read} records can be used, {wanted} "
            f"{'is' if wanted == 1 else 'are'} needed."
            + (f" Left out: {told}." if told else "")
            + (markers_told(judge, marker) if marker else "")
        )


def markers_told(judge: Judge[Any], marker: str) -> str:
    if not judge.other_markers:
        return ""
    found = ", ".join(f"{name} ({count})" for name, count in judge.other_markers.most_common(10))
    return f" The marker asked for is {marker}; other markers found: {found}."


def note_flaws(job: Job, judge: Judge[Any]) -> None:
    if bad := judge.counts["bad_line"]:
        job.note("warning", f"Lines that are no records: {bad}; records_left_out.jsonl names them.")
    if twice := judge.counts["duplicate"]:
        job.note("warning", f"Records that repeat a record_id: {twice}; the first of each was kept.")
    if letters := getattr(judge, "unexpected_letters", 0):
        job.note("warning", f"Letters in sequences that are no nucleotides, read as N: {letters}.")
    if judge.other_markers and "marker" in job.parameters:
        job.note("note", "A run compares one marker." + markers_told(judge, job.parameters["marker"]))
