"""Writes summary.tsv, composition.tsv, composition.jsonl and groups.tsv."""

from barcode.composition import COUNTS, FIGURES
from barcode.job import Job, read_jsonl, run_stage, write_jsonl
from barcode.tables import write_tsv

SUMMARY = (
    "figure",
    "sequences",
    "min_percent",
    "mean_percent",
    "max_percent",
    "se_percent",
    "sd_percent",
    "pooled_percent",
)
IDS = ("record_id", "processid", "species", "bin_uri")


def stage(job: Job) -> None:
    results, stored = job.load("results"), job.load("records")
    rows = [
        [
            f"{figure}%",
            *(one[key] for key in ("n", "min", "mean", "max", "se", "sd")),
            results["pooled"][figure],
        ]
        for figure, one in results["summary"].items()
    ]
    write_tsv(job.dir / "summary.tsv", SUMMARY, rows)
    columns = (
        *IDS,
        *(f"{name}_count" for name in COUNTS),
        "columns",
        *(f"{figure}_percent" for figure in FIGURES),
    )
    table = [
        [*(record[key] for key in IDS), *counts, sum(counts), *figures]
        for record, counts, figures in zip(
            read_jsonl(job.dir / "records_used.jsonl"), stored["counts"], stored["figures"], strict=True
        )
    ]
    print(f"composition.tsv: {write_tsv(job.dir / 'composition.tsv', columns, table)} rows")
    write_jsonl(job.dir / "composition.jsonl", (dict(zip(columns, row, strict=True)) for row in table))
    keys = ("min", "mean", "max", "se")
    heads = [f"{key}_{figure}_percent" for figure in FIGURES for key in keys]
    write_tsv(
        job.dir / "groups.tsv",
        (job.parameters["group_by"], "sequences", *heads),
        (
            [row["name"], row["sequences"], *(row[figure][key] for figure in FIGURES for key in keys)]
            for row in job.load("groups")
        ),
    )


if __name__ == "__main__":
    run_stage(stage)
