"""All distances, refused or mended where one is missing, and the neighbour-joining tree."""

from typing import Any

import numpy as np
from barcode.distances import (
    DEFINED,
    MIN_OVERLAP,
    REASONS,
    Rule,
    all_pairs,
    common_columns,
    group_rows,
)
from barcode.estimate import check, pairs_bytes, pairs_seconds
from barcode.job import Job, RefusalError, read_jsonl, run_stage, write_jsonl
from barcode.nj import neighbour_joining
from barcode.notes import refuse_no_columns
from barcode.rules import rule_of
from barcode.sequences import AMBIGUOUS, Bytes, encode

Records = list[dict[str, Any]]

LEAST = 3
NAMED = 10


def stage(job: Job) -> None:
    records = read_jsonl(job.dir / "records_used.jsonl")
    codes = encode(np.load(job.work / "alignment.npy"))
    rows, columns = codes.shape
    needed = 2.2 * 8 * rows**2 + pairs_bytes(rows, columns)
    seconds = pairs_seconds(rows, columns) + 3e-8 * rows**2.4
    estimate = check(job, f"{rows:,} sequences of {columns:,} columns in one tree", needed, seconds)
    rule = rule_of(job)
    kept = codes[:, common_columns(codes, rule.deletion)]
    refuse_no_columns(kept, codes, records, rule.deletion, job)
    matrix, reasons = distances(job, codes, rule)
    dropped: list[int] = []
    if np.isnan(matrix).any():
        dropped = without_distance(job, matrix, reasons, records, codes)
        kept_rows = np.delete(np.arange(rows), dropped)
        matrix = matrix[np.ix_(kept_rows, kept_rows)]
        leave_out(job, records, dropped)
    alike = not matrix.any()
    tree = neighbour_joining(matrix, lambda done, of: job.progress(done, of, "joining"))
    negative = sorted(length for length in tree.length.values() if length < 0)
    if job.parameters["negative_branches"] == "zero":
        tree.length = {node: max(length, 0.0) for node, length in tree.length.items()}
    job.save("tree", {"children": sorted(tree.children.items()), "length": sorted(tree.length.items())})
    job.save(
        "results",
        {
            "estimate": estimate,
            "tips": tree.tips,
            "columns_compared": kept.shape[1],
            "total_length": sum(tree.length.values()),
            "negative": len(negative),
            "dropped": len(dropped),
        },
    )
    notes(job, negative, alike=alike)


def distances(job: Job, codes: Bytes, rule: Rule) -> tuple[Any, Any]:
    """The matrix, NaN where a distance is missing, and how many are, by reason.

    Rows alike in their known bases are compared once; among themselves they are 0 apart, or too short for it.
    """
    kept = codes[:, common_columns(codes, rule.deletion)]
    first, member = group_rows(kept, [0] * codes.shape[0])
    weight = np.bincount(member)
    small, reasons = np.zeros((first.size, first.size)), np.zeros(len(REASONS), np.int64)
    for pairs in all_pairs(kept[first], rule):
        small[pairs.i, pairs.j] = small[pairs.j, pairs.i] = pairs.distance
        counts = weight[pairs.i] * weight[pairs.j]
        reasons += np.bincount(pairs.reason, counts, len(REASONS)).astype(np.int64)
        job.progress(int(weight[: pairs.i.max(initial=0) + 1].sum()), codes.shape[0], "comparing")
    known = np.count_nonzero(kept[first] < AMBIGUOUS, axis=1)
    short = (known < rule.min_overlap) & (weight > 1)
    small[short, short] = np.nan
    reasons[MIN_OVERLAP] += int((weight * (weight - 1) // 2)[short].sum())
    reasons[DEFINED] = 0
    matrix = small if first.size == codes.shape[0] else small[np.ix_(member, member)]
    np.fill_diagonal(matrix, 0.0)
    return matrix, reasons


def without_distance(job: Job, matrix: Any, reasons: Any, records: Records, codes: Bytes) -> list[int]:
    """The records to leave out, the one with most missing distances first; or a refusal that names them."""
    missing = np.isnan(matrix)
    total = int(missing.sum()) // 2
    known = (codes < AMBIGUOUS).sum(axis=1)
    dropped: list[int] = []
    left = missing.sum(axis=1)
    while left.any():
        # most missing, then fewest known bases, then the later record
        worst = int(np.lexsort((-np.arange(left.size), known, -left))[0])
        dropped.append(worst)
        left = left - missing[worst]
        left[worst] = 0
        missing[worst] = missing[:, worst] = False
    why = ", ".join(f"{REASONS[n]} {count:,}" for n, count in enumerate(reasons) if count)
    worst_told = ", ".join(str(records[n]["record_id"]) for n in dropped[:NAMED])
    more = f" and {len(dropped) - NAMED} more" if len(dropped) > NAMED else ""
    left_over = len(records) - len(dropped)
    if job.parameters["undefined_distances"] == "refuse":
        i, j = (int(ends[0]) for ends in np.nonzero(np.triu(np.isnan(matrix))))
        raise RefusalError(
            f"Pairs without a distance: {total:,} ({why}), such as {records[i]['record_id']} with "
            f"{records[j]['record_id']}. A tree needs every distance, and none is made up. Leaving out "
            f"{len(dropped)} of {len(records)} records would do: {worst_told}{more}. Choose "
            "undefined_distances: drop, or leave them out of the selection."
        )
    if left_over < LEAST:
        raise RefusalError(
            f"No tree can be made: of {len(records)} records {left_over} are left, {LEAST} are needed, when "
            f"those without distances are left out: {worst_told}{more} ({total:,} pairs: {why})."
        )
    job.note(
        "warning",
        f"Left out, because they have no distance to others: {worst_told}{more} ({total:,} pairs: {why}).",
    )
    return dropped


def leave_out(job: Job, records: Records, dropped: list[int]) -> None:
    """Move records from records_used.jsonl to records_left_out.jsonl, in the counts too."""
    gone = set(dropped)
    write_jsonl(job.dir / "records_used.jsonl", (r for n, r in enumerate(records) if n not in gone))
    keys = ("record_id", "processid", "line")
    more: Records = [
        {**{key: records[n][key] for key in keys}, "reason": "undefined_distance", "detail": ""}
        for n in sorted(gone)
    ]
    before: Records = read_jsonl(job.dir / "records_left_out.jsonl")
    left_out = sorted(before + more, key=lambda one: int(one["line"]))
    write_jsonl(job.dir / "records_left_out.jsonl", left_out)
    selection = job.load("selection")
    selection["used"] -= len(gone)
    selection["left_out"]["undefined_distance"] = len(gone)
    job.save("selection", selection)


def notes(job: Job, negative: list[float], *, alike: bool) -> None:
    if alike:
        job.note("note", "All sequences are alike: every distance is 0, and the tree has no shape.")
    if negative:
        what = "kept in the Newick" if job.parameters["negative_branches"] == "keep" else "set to 0"
        job.note(
            "note",
            f"Branches with a negative length, which neighbour joining can give: {len(negative):,}, down to "
            f"{100 * negative[0]:.3g} %; they are {what} and drawn as 0.",
        )


if __name__ == "__main__":
    run_stage(stage)
