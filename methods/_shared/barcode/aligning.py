"""The second stage of methods on alignments: alignment.fasta, and sequences that do not fit the others."""

from __future__ import annotations

from typing import Any

import numpy as np

from .alignment import Estimate, align
from .distances import median_p
from .job import Job, read_jsonl
from .sequences import AMBIGUOUS, Bytes, encode, strip
from .size import must_fit
from .star import looks_reversed
from .tables import cell

FAR = 0.35  # median p-distance to the others beyond which a sequence is doubtful
BESIDE = 0.5  # share of its bases, below which it lies beside the others rather than with them
ENOUGH = 4  # sequences, so that a median means something


def align_stage(job: Job, *, keep_empty_columns: bool = False) -> None:
    """Writes alignment.fasta and work/alignment.npy; saves "alignment" (how, columns, doubtful).

    `keep_empty_columns`: sequences as uploaded keep the columns in which all have a gap.
    """
    with (job.work / "sequences.txt").open("rb") as file:
        sequences = [np.frombuffer(line.rstrip(b"\n"), np.uint8) for line in file]
    records = read_jsonl(job.dir / "records_used.jsonl")

    def progress(done: int, total: int) -> None:
        job.progress(done * len(records) // max(total, 1), len(records), "aligning")

    estimates: list[dict[str, int]] = []
    alignment = align(
        sequences,
        job.parameters["alignment"],
        progress,
        start=lambda estimate: estimates.append(must_align(job, estimate)),
        keep_empty_columns=keep_empty_columns,
    )
    np.save(job.work / "alignment.npy", alignment.letters)
    rows, columns = alignment.letters.shape
    print(f"{rows} sequences, {columns} columns; alignment: {alignment.how}")
    with (job.dir / "alignment.fasta").open("wb") as fasta:
        for record, letters in zip(records, alignment.letters, strict=True):
            name = "_".join(cell(record["record_id"]).split()) or "unnamed"
            fasta.write(f">{name}\n".encode() + letters.tobytes() + b"\n")
    for text in alignment.notes:
        job.note("warning", text)
    doubtful = find_doubtful(alignment.letters, records)
    told_as = {"how": alignment.how, "columns": columns, "doubtful": doubtful}
    job.save("alignment", told_as | {"estimate": estimates[0] if estimates else None})
    if doubtful:
        job.note("warning", told(doubtful))


def must_align(job: Job, estimate: Estimate) -> dict[str, int]:
    return must_fit(job, estimate.what, memory_bytes=estimate.memory_bytes, seconds=estimate.seconds)


def find_doubtful(letters: Bytes, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records far from most others, or beside them: few of their bases face the most complete sequence."""
    codes = encode(letters)
    if codes.shape[0] < ENOUGH:
        return []
    known = codes < AMBIGUOUS
    complete = int((known @ known.sum(axis=0)).argmax())
    facing = (known & known[complete]).sum(axis=1) / known.sum(axis=1)
    medians = median_p(codes)
    return [
        {
            "record_id": records[n]["record_id"],
            "median_p_percent": 100 * medians[n],
            "facing_percent": 100 * facing[n],
            "looks_reversed": looks_reversed(strip(letters[n]), strip(letters[complete])),
        }
        for n in np.flatnonzero((medians > FAR) | (facing < BESIDE)).tolist()
    ]


def told(doubtful: list[dict[str, Any]]) -> str:
    names = ", ".join(str(one["record_id"]) for one in doubtful[:10])
    text = (
        f"Sequences that do not fit the others: {len(doubtful)} (half of the others differ at more than "
        f"{FAR:.0%} of sites, or less than {BESIDE:.0%} of the bases face the most complete sequence): a "
        "wrong alignment, a reversed sequence or a contaminant? They were used: "
        f"{names}{' and more' if len(doubtful) > 10 else ''}."
    )
    reversed_ones = [str(one["record_id"]) for one in doubtful if one["looks_reversed"]]
    if reversed_ones:
        text += f" The reverse complement fits far better for {', '.join(reversed_ones[:10])}."
    return text
