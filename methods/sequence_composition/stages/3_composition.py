"""Counts letters, finds the codon positions, and works out G, C, A, T and GC of each sequence and of all."""

from typing import Any

import numpy as np
from barcode.codons import Frame, backbone, best, frames, positions
from barcode.composition import COUNTS, FIGURES, counts, figures, gc, of_positions, summary
from barcode.estimate import check
from barcode.groups import Groups
from barcode.job import Job, read_jsonl, run_stage
from barcode.sequences import Bytes, encode

FEW_STOPS = 0.5  # share of sequences with stop codons from which on no frame is believed


def stage(job: Job) -> None:
    records = read_jsonl(job.dir / "records_used.jsonl")
    letters = np.load(job.work / "alignment.npy")
    rows, columns = letters.shape
    what = f"{rows:,} sequences of {columns:,} columns"
    estimate = check(job, what, 24.0 * letters.size, 4e-7 * letters.size)
    codes = encode(letters)
    kept, first, found = codon_frame(job, codes)
    whole = counts(letters, codes)
    by_position = None if first is None else of_positions(codes, positions(kept, first))
    values = figures(whole, by_position)
    job.progress(rows, rows, "counting")
    groups = Groups.by(records, job.parameters["group_by"])
    job.save("records", {"counts": whole, "figures": values})
    job.save(
        "groups",
        [
            {
                "name": name,
                "sequences": int(members.size),
                **{figure: summary(values[members, n]) for n, figure in enumerate(FIGURES)},
            }
            for name, members in zip(groups.names, groups.members(), strict=True)
        ],
    )
    pooled = whole.sum(axis=0)
    thirds = None if by_position is None else by_position.sum(axis=0)
    job.save(
        "results",
        {
            "estimate": estimate,
            "columns": columns,
            "columns_in_codons": int(kept.sum()) if first else None,
            "first_codon_position": first,
            "frames": [[one.first, one.stops, one.sequences_with_stops] for one in found],
            "summary": {figure: summary(values[:, n]) for n, figure in enumerate(FIGURES)},
            "pooled_counts": dict(zip(COUNTS, pooled.tolist(), strict=True)),
            "pooled": pooled_figures(pooled, thirds),
            "unnamed": groups.unnamed,
        },
    )
    notes(job, whole, values, groups)


def codon_frame(job: Job, codes: Bytes) -> tuple[Any, int | None, list[Frame]]:
    """The columns that count for it, the codon position of the first of them, and what each frame means."""
    wanted = job.parameters["codon_position"]
    uploaded = job.parameters["alignment"] == "as_uploaded"
    kept = np.ones(codes.shape[1], np.bool_) if uploaded else backbone(codes)
    if wanted == "none":
        return kept, None, []
    found = frames(codes, kept, job.parameters["genetic_code"])
    if wanted != "auto":
        frame = found[int(wanted) - 1]
        if frame.sequences_with_stops > FEW_STOPS * codes.shape[0]:
            job.note(
                "warning",
                f"With codon position {wanted} in the first column {frame.sequences_with_stops:,} of "
                f"{codes.shape[0]:,} sequences have stop codons: the wrong frame, or no coding sequences?",
            )
        return kept, frame.first, found
    frame = best(found)
    if frame.sequences_with_stops > FEW_STOPS * codes.shape[0]:
        job.note(
            "warning",
            "In every reading frame more than half of the sequences have stop codons "
            f"({frame.sequences_with_stops:,} of {codes.shape[0]:,} at best), so no codon positions are "
            f"told. Is genetic code {job.parameters['genetic_code']} right, and the marker a coding one?",
        )
        return kept, None, found
    equal = [one for one in found if one.sequences_with_stops == frame.sequences_with_stops]
    if len(equal) > 1:
        rivals = ", ".join(str(one.first) for one in equal if one is not frame)
        job.note(
            "warning",
            "The reading frame is not sure: as few sequences have stop codons with codon position "
            f"{rivals} in the first column as with {frame.first}. Choose codon_position yourself.",
        )
    return kept, frame.first, found


def pooled_figures(whole: Any, thirds: Any) -> dict[str, float | None]:
    known = int(whole[:4].sum())
    single = {base: 100 * whole[n] / known if known else None for n, base in enumerate("ACGT")}
    values: dict[str, float | None] = {base: single[base] for base in "GCAT"}
    values["GC"] = float(gc(whole))
    for n in range(3):
        values[f"GC{n + 1}"] = None if thirds is None else float(gc(thirds[n]))
    return values


def notes(job: Job, whole: Any, values: Any, groups: Groups) -> None:
    if groups.unnamed:
        field = job.parameters["group_by"]
        told = f"Records without a value of {field}, which are in no row by group: {groups.unnamed:,}."
        job.note("note", told)
    n, other = int(whole[:, 4].sum()), int(whole[:, 6].sum())
    if n or other:
        job.note("note", f"Letters that are in no percentage: N {n:,}, other ambiguous letters {other:,}.")
    if whole.shape[0] > 1 and np.nanmax(values[:, 4]) == np.nanmin(values[:, 4]):
        job.note("note", "All sequences have the same GC content, so every spread of it is 0.")


if __name__ == "__main__":
    run_stage(stage)
