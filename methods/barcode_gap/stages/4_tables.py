"""Writes barcode_gap.tsv, barcode_gap.jsonl, records.tsv and thresholds.tsv."""

from typing import Any

from barcode.gap import cumulative_error, percent
from barcode.job import Job, read_jsonl, run_stage, write_jsonl
from barcode.tables import write_tsv

GAP = (
    "phylum",
    "class",
    "order",
    "family",
    "genus",
    "sequences",
    "comparisons",
    "undefined_within",
    "mean_within_distance_percent",
    "max_within_distance_percent",
    "nearest_groups",
    "nearest_records",
    "nearest_distance_percent",
    "undefined_between",
    "gap_percent",
    "has_gap",
    "nearest_below_threshold",
    "max_within_above_threshold",
)
RECORD = (
    "record_id",
    "processid",
    "min_within_distance_percent",
    "max_within_distance_percent",
    "nearest_distance_percent",
    "nearer_to_own",
)
THRESHOLD = (
    "threshold_percent",
    "true_negative_records",
    "true_positive_records",
    "false_negative_records",
    "false_positive_records",
    "cumulative_error_records",
)


def gap_row(row: dict[str, Any]) -> list[object]:
    return [
        row["name"],
        *(row[key] for key in ("phylum", "class", "order", "family", "genus", "sequences", "comparisons")),
        row["undefined_within"],
        percent(row["mean_within"]),
        percent(row["max_within"]),
        "|".join(row["nearest_groups"]),
        "|".join(row["nearest_records"]),
        percent(row["nearest"]),
        row["undefined_between"],
        percent(row["gap"]),
        row["has_gap"],
        row["near"],
        row["wide"],
    ]


def nearer(one: dict[str, Any]) -> bool | None:
    """Whether the nearest record of all is one of its own group's; a tie is none."""
    if one["min_within"] is None:
        return None if one["nearest"] is None else False
    return one["nearest"] is None or one["min_within"] < one["nearest"]


def stage(job: Job) -> None:
    by = job.parameters["group_by"]
    table = [gap_row(row) for row in job.load("groups")]
    keep = [n for n, name in enumerate((by, *GAP)) if n == 0 or name != by]
    columns = [(by, *GAP)[n] for n in keep]
    rows = [[row[n] for n in keep] for row in table]
    write_tsv(job.dir / "barcode_gap.tsv", columns, rows)
    write_jsonl(job.dir / "barcode_gap.jsonl", (dict(zip(columns, row, strict=True)) for row in rows))
    records = zip(read_jsonl(job.dir / "records_used.jsonl"), job.load("records"), strict=True)
    write_tsv(
        job.dir / "records.tsv",
        (*RECORD[:2], by, *RECORD[2:]),
        (
            [
                record["record_id"],
                record["processid"],
                record[by],
                percent(one["min_within"]),
                percent(one["max_within"]),
                percent(one["nearest"]),
                nearer(one),
            ]
            for record, one in records
        ),
    )
    write_tsv(
        job.dir / "thresholds.tsv",
        THRESHOLD,
        ([*one.values(), cumulative_error(one)] for one in job.load("thresholds")),
    )
    print(f"{len(rows)} rows in barcode_gap.tsv")


if __name__ == "__main__":
    run_stage(stage)
