"""Distances within each group and to its nearest neighbour, over all pairs, held as summaries only."""

from typing import Any

import numpy as np
from barcode.estimate import check, pairs_bytes, pairs_seconds
from barcode.gap import error_rates, rows_of
from barcode.groups import FIELDS, Groups
from barcode.job import Job, read_jsonl, run_stage
from barcode.nearest import NearestGroups
from barcode.notes import note_undefined, refuse_no_columns
from barcode.rules import rule_of
from barcode.sequences import encode


def stage(job: Job) -> None:
    chosen = job.parameters
    records = read_jsonl(job.dir / "records_used.jsonl")
    codes = encode(np.load(job.work / "alignment.npy"))
    groups = Groups.by(records, chosen["group_by"])
    rows, columns = codes.shape
    what = f"{rows:,} sequences of {columns:,} columns"
    estimate = check(job, what, pairs_bytes(rows, columns), pairs_seconds(rows, columns))
    found = NearestGroups(codes, groups, rule_of(job))
    refuse_no_columns(found.codes, codes, records, chosen["deletion"], job)
    found.run(lambda done, of: job.progress(done, of, "comparing"))
    job.save("groups", rows_of(found, records, chosen["threshold_percent"] / 100))
    job.save("records", record_rows(found))
    job.save("thresholds", error_rates(found))
    undefined = note_undefined(job, found.undefined, "pairs of named records")
    job.save(
        "results",
        {
            "estimate": estimate,
            "columns_compared": found.columns,
            "distinct": found.distinct,
            "groups": len(groups.names),
            "unnamed": groups.unnamed,
            "undefined": undefined,
        },
    )
    notes(job, groups, found)


def record_rows(found: NearestGroups) -> list[dict[str, Any]]:
    """One for each record, in the order of records_used.jsonl."""
    columns = {
        "min_within": found.record_min_within,
        "max_within": found.record_max_within,
        "nearest": found.record_nearest,
    }
    lists = [values.tolist() for values in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]


def notes(job: Job, groups: Groups, found: NearestGroups) -> None:
    one, many = FIELDS[job.parameters["group_by"]]
    if groups.unnamed:
        job.note(
            "note",
            f"Records without a {one} name, which take no part: {groups.unnamed:,} of {found.member.size:,}.",
        )
    if not groups.names:
        job.note("warning", f"No record has a {one} name, so nothing can be compared; the tables are empty.")
    elif len(groups.names) == 1:
        job.note("note", f"All named records are of one {one}, so it has no nearest neighbour.")
    if groups.names and not (groups.sizes > 1).any():
        job.note(
            "note",
            f"Each of the {many} has one sequence only, so nothing can be said of distances within; a gap "
            f"needs two sequences or more of a {one}.",
        )
    if len(groups.names) > 1 and (alone := int(np.isnan(found.nearest).sum())):
        job.note("warning", f"{many.capitalize()} without a distance to any other: {alone:,}.")


if __name__ == "__main__":
    run_stage(stage)
