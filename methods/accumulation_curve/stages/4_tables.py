"""Writes the tables: accumulation.tsv and .jsonl, summary.tsv, kinds.tsv."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from barcode.job import Job, run_stage, write_jsonl
from barcode.tables import write_tsv

COLUMNS = (
    "curve",
    "counted",
    "group",
    "samples",
    "expected_kinds",
    "sd_kinds",
    "low_95_kinds",
    "high_95_kinds",
    "simulated_mean_kinds",
    "simulated_sd_kinds",
    "simulated_low_95_kinds",
    "simulated_high_95_kinds",
    "submission_order_kinds",
)
FIGURES = (
    "expected", "sd", "low", "high",
    "simulated_mean", "simulated_sd", "simulated_low", "simulated_high", "submission",
)  # fmt: skip
SUMMARY = (
    "curve", "counted", "group", "samples",
    "kinds", "kinds_once", "kinds_twice", "chao1_kinds", "samples_without_value",
)  # fmt: skip
SUMMARY_KEYS = ("label", "unit", "group", "samples", "kinds", "once", "twice", "chao1", "without")


def points(results: list[dict[str, Any]]) -> Iterator[list[object]]:
    for one in results:
        for n, samples in enumerate(one["x"]):
            yield [one["label"], one["unit"], one["group"], samples, *(one[key][n] for key in FIGURES)]


def kinds(curves: list[dict[str, Any]]) -> Iterator[list[object]]:
    for one in curves:
        for kind, count in Counter(one["samples"]).most_common():
            yield [one["unit"], one["group"], one["kinds"][kind], count]


def stage(job: Job) -> None:
    results = job.load("results")
    rows = write_tsv(job.dir / "accumulation.tsv", COLUMNS, points(results))
    write_jsonl(
        job.dir / "accumulation.jsonl",
        (dict(zip(COLUMNS, row, strict=True)) for row in points(results)),
    )
    summary = ([one[key] for key in SUMMARY_KEYS] for one in results)
    write_tsv(job.dir / "summary.tsv", SUMMARY, summary)
    write_tsv(job.dir / "kinds.tsv", ("counted", "group", "kind", "samples"), kinds(job.load("curves")))
    print(f"accumulation.tsv: {rows} rows")


if __name__ == "__main__":
    run_stage(stage)
