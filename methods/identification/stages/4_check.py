"""Checks the library against itself: library_check.tsv and thresholds.tsv."""

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from barcode.aligning import must_align
from barcode.alignment import AlignmentError, align
from barcode.distances import Rule
from barcode.estimate import pairs_bytes, pairs_seconds
from barcode.job import Job, RefusalError, read_jsonl, run_stage
from barcode.library import (
    THRESHOLDS,
    Nearest,
    best_close_match,
    errors,
    near_neighbour,
    nearest,
    threshold_match,
)
from barcode.sequences import Bytes, encode
from barcode.size import must_fit
from barcode.tables import write_tsv

COLUMNS = (
    "record_id",
    "species",
    "min_within_species_distance_percent",
    "max_within_species_distance_percent",
    "min_other_species_distance_percent",
    "nearest_neighbour",
    "best_close_match",
    "threshold_match",
)
RULES = ("true_negative", "true_positive", "false_negative", "false_positive", "cumulative_error")
Row = dict[str, Any]


def stage(job: Job) -> None:
    rows, sequences = library_of(job)
    named = [n for n, row in enumerate(rows) if row["species"]]
    job.save("check", None)
    if not job.parameters["library_check"]:
        print("the library is not checked: library_check is false")
        return
    if len(named) < 2 or len({rows[n]["species"] for n in named}) < 2:
        job.note("note", "The library is not checked: it has fewer than two species with a name.")
        return
    try:
        check(job, [rows[n] for n in named], [sequences[n] for n in named], len(rows) - len(named))
    except (RefusalError, AlignmentError) as error:
        job.note("warning", f"The library is not checked: {error}")


def library_of(job: Job) -> tuple[list[Row], list[Bytes]]:
    if (job.dir / "library.jsonl").exists():
        return read_jsonl(job.dir / "library.jsonl"), read_sequences(job.work / "library.txt")
    rows, sequences = read_jsonl(job.dir / "records_used.jsonl"), read_sequences(job.work / "sequences.txt")
    part = [n for n, row in enumerate(rows) if row["role"] != "query"]
    return [rows[n] for n in part], [sequences[n] for n in part]


def read_sequences(path: Path) -> list[Bytes]:
    with path.open("rb") as file:
        return [np.frombuffer(line.rstrip(b"\n"), np.uint8) for line in file]


def check(job: Job, rows: list[Row], sequences: list[Bytes], unnamed: int) -> None:
    chosen = job.parameters
    longest = max(letters.size for letters in sequences)
    must_fit(
        job,
        f"the library check of {len(rows):,} records",
        memory_bytes=(96 << 20) + pairs_bytes(len(rows), longest),
        seconds=2 * pairs_seconds(len(rows), longest) + len(rows) * 0.02,
    )
    alignment = align(
        sequences,
        chosen["alignment"],
        lambda done, of: job.progress(done, of, "aligning the library"),
        start=partial(must_align, job),
    )
    for text in alignment.notes:
        job.note("warning", text)
    numbers: dict[str, int] = {}
    species = np.array([numbers.setdefault(row["species"], len(numbers)) for row in rows])
    rule = Rule(model=chosen["distance_model"], deletion=chosen["deletion"], min_overlap=1)
    found = nearest(
        encode(alignment.letters),
        species,
        rule,
        lambda done: job.progress(done, len(rows), "checking the library"),
    )
    threshold = 1 - chosen["match_identity_percent"] / 100
    write_tables(job, rows, found, threshold)
    counts = {
        "nearest_neighbour": Counter(near_neighbour(found)),
        "best_close_match": Counter(best_close_match(found, threshold)),
        "threshold_match": Counter(threshold_match(found, threshold)),
    }
    table = [{"threshold": t, **errors(found, t)} for t in thresholds(threshold)]
    job.save(
        "check",
        {
            "records": len(rows),
            "species": len(numbers),
            "single": int(found.alone.sum()),
            "unnamed": unnamed,
            "threshold": threshold,
            "alignment": alignment.how,
            "counts": {name: dict(count) for name, count in counts.items()},
            "thresholds": table,
        },
    )
    print(f"library check: best close match {dict(counts['best_close_match'])}")


def thresholds(own: float) -> list[float]:
    return sorted({*THRESHOLDS, round(own, 12)} - {0.0})


def write_tables(job: Job, rows: list[Row], found: Nearest, threshold: float) -> None:
    figures = (100 * found.within_min, 100 * found.within_max, 100 * found.other_min)
    verdicts = (near_neighbour(found), best_close_match(found, threshold), threshold_match(found, threshold))
    table = (
        [row["record_id"], row["species"], *(float(v[n]) for v in figures), *(v[n] for v in verdicts)]
        for n, row in enumerate(rows)
    )
    write_tsv(job.dir / "library_check.tsv", COLUMNS, table)
    write_tsv(
        job.dir / "thresholds.tsv",
        ("threshold_percent", *RULES),
        ([100 * t, *errors(found, t).values()] for t in thresholds(threshold)),
    )


if __name__ == "__main__":
    run_stage(stage)
