"""The first stage of methods on sequences: the records used, with their names; what was left out and why."""

from __future__ import annotations

from collections.abc import Sequence

from .job import Job
from .judging import judge_all, refuse_fewer
from .records import Record
from .selection import REASONS, Selector, Used
from .sequences import ambiguous_percent, known_bases
from .taxa import clean_name, names_of

HIGHER_RANKS = ("kingdom", "phylum", "class", "order", "subfamily", "tribe", "subspecies")


def used_row(item: Used, *, exclude_interim: bool, fields: Sequence[str] = ()) -> dict[str, object]:
    """What records_used.jsonl says of a record; `fields` are further fields of it, as text."""
    record, names = item.record, names_of(item.record, exclude_interim=exclude_interim)
    row: dict[str, object] = {
        "record_id": record.record_id,
        "processid": record.processid,
        "sampleid": record.text("sampleid"),
        "line": record.line,
        "marker_code": record.marker,
        "species": names.species,
        "genus": names.genus,
        "family": names.family,
        "identification": record.text("identification"),
        "bin_uri": record.text("bin_uri"),
        "known_bases": known_bases(item.letters),
        "ambiguous_percent": round(ambiguous_percent(item.letters), 4),
    }
    return row | {field: further(record, field) for field in fields if field not in row}


def further(record: Record, field: str) -> str | None:
    """A field of the record; a rank's filler is no name, and BOLD's "Unrecoverable" no place."""
    value = record.text(field)
    if field in HIGHER_RANKS:
        return clean_name(value)
    return None if value == "Unrecoverable" else value


def selector_of(job: Job) -> Selector:
    """As the parameters marker, min_length and max_ambiguous_percent say."""
    chosen = job.parameters
    return Selector(
        marker=chosen["marker"],
        min_length=chosen["min_length"],
        max_ambiguous_percent=chosen["max_ambiguous_percent"],
    )


def read_stage(
    job: Job,
    *,
    needed: int = 2,
    refusal: str = "Nothing can be compared",
    fields: Sequence[str] = (),
) -> None:
    """Writes records_used.jsonl, records_left_out.jsonl, work/sequences.txt; refuses fewer than `needed`."""
    selector = selector_of(job)
    interim = bool(job.parameters.get("exclude_interim_names", False))
    with (job.work / "sequences.txt").open("wb") as sequences:

        def row(item: Used) -> dict[str, object]:
            sequences.write(item.letters.tobytes() + b"\n")
            return used_row(item, exclude_interim=interim, fields=fields)

        told = judge_all(job, selector, row, REASONS)
    refuse_fewer(selector, needed, told, refusal, job.parameters["marker"])
