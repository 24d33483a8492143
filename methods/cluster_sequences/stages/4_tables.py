"""Writes clusters.tsv, clusters.jsonl, records.tsv, species.tsv, bins.tsv and thresholds.tsv."""

from typing import Any

from barcode.job import Job, read_jsonl, run_stage, write_jsonl
from barcode.tables import write_tsv

CLUSTER = (
    "cluster",
    "sequences",
    "species",
    "species_names",
    "records_without_species",
    "bins",
    "bin_uris",
    "mean_within_distance_percent",
    "max_within_distance_percent",
    "undefined_within",
    "nearest_clusters",
    "nearest_distance_percent",
)
RECORD = ("record_id", "processid", "sampleid", "cluster", "species", "identification", "bin_uri")
AGREEMENT = ("records", "clusters", "cluster_names", "agreement", "other_names_in_them")


def percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def cluster_row(row: dict[str, Any]) -> list[object]:
    return [
        row["name"],
        row["sequences"],
        row["species"],
        row["species_names"],
        row["without_species"],
        row["bins"],
        row["bin_names"],
        percent(row["mean"]),
        percent(row["max"]),
        row["undefined"],
        "|".join(row["nearest_clusters"]),
        percent(row["nearest"]),
    ]


def stage(job: Job) -> None:
    clusters = job.load("clusters")
    rows = [cluster_row(row) for row in clusters]
    print(f"clusters.tsv: {write_tsv(job.dir / 'clusters.tsv', CLUSTER, rows)} rows")
    write_jsonl(
        job.dir / "clusters.jsonl",
        (
            {**dict(zip(CLUSTER, row, strict=True)), "records": cluster["records"]}
            for row, cluster in zip(rows, clusters, strict=True)
        ),
    )
    records = zip(read_jsonl(job.dir / "records_used.jsonl"), job.load("members"), strict=True)
    write_tsv(
        job.dir / "records.tsv",
        RECORD,
        ([cluster if key == "cluster" else record[key] for key in RECORD] for record, cluster in records),
    )
    for field, file in (("species", "species.tsv"), ("bin_uri", "bins.tsv")):
        write_tsv(
            job.dir / file,
            (field, *AGREEMENT),
            (
                [
                    row["name"],
                    row["records"],
                    len(row["clusters"]),
                    "|".join(row["clusters"]),
                    row["kind"],
                    "|".join(row["others"]),
                ]
                for row in job.load(f"agreement_{field}")
            ),
        )
    write_tsv(job.dir / "thresholds.tsv", ("threshold_percent", "clusters"), job.load("curve"))


if __name__ == "__main__":
    run_stage(stage)
