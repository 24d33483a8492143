"""Writes the tables: correlation.tsv and correlation.jsonl, spread.tsv."""

from typing import Any

from barcode.job import Job, run_stage, write_jsonl
from barcode.tables import write_tsv

COLUMNS = (
    "group",
    "records",
    "sites",
    "pairs",
    "undefined_pairs",
    "columns_compared",
    "max_distance_km",
    "mean_distance_km",
    "spanning_tree_km",
    "max_genetic_distance_percent",
    "mean_genetic_distance_percent",
    "mantel_r",
    "p_greater",
    "p_two_sided",
    "no_r_because",
)


def row(one: dict[str, Any]) -> list[object]:
    counts = [one[key] for key in ("group", "records", "sites", "pairs", "undefined", "columns")]
    km = [one[key] for key in ("max_km", "mean_km", "spanning_tree_km")]
    percent = [None if one[key] is None else 100 * one[key] for key in ("max_distance", "mean_distance")]
    return [
        *counts,
        *km,
        *percent,
        *(one[key] for key in ("r", "p_greater", "p_two_sided")),
        one["why"] or None,
    ]


def stage(job: Job) -> None:
    rows, spread = [row(one) for one in job.load("results")], job.load("spread")
    write_tsv(job.dir / "correlation.tsv", COLUMNS, rows)
    write_jsonl(job.dir / "correlation.jsonl", (dict(zip(COLUMNS, one, strict=True)) for one in rows))
    write_tsv(
        job.dir / "spread.tsv",
        ("groups", "pearson_r", "p_two_sided", "no_r_because"),
        [[spread["groups"], spread["r"], spread["p_two_sided"], spread["why"] or None]],
    )
    print(f"correlation.tsv: {len(rows)} rows")


if __name__ == "__main__":
    run_stage(stage)
