"""Writes analysis_report.html and run.json, and takes away what the stages left for one another."""

from collections import Counter
from typing import Any

from barcode.agreement import KINDS
from barcode.charts import Line, bars, lines
from barcode.job import Job, run_stage
from barcode.report import Report
from barcode.rules import FORMULAS, SOURCES, rule_told
from barcode.sections import begin, finish, how, left_out
from barcode.selection import REASONS

NOTES = {
    "single": "Single linkage: two sequences are in one cluster when a chain of sequences connects them in "
    "which each distance is at most (<=) the threshold.",
    "average": "Average linkage (UPGMA): clusters are merged while the mean of all distances between two of "
    "them is at most (<=) the threshold.",
    "complete": "Complete linkage: clusters are merged while every distance between two of them is at most "
    "(<=) the threshold.",
}
NOTE = (
    "A pair without a distance links nothing; with average and complete linkage it keeps two clusters "
    "apart. These are clusters of this set at one threshold, no BINs: BOLD's RESL algorithm (Ratnasingham "
    "and Hebert 2013, PLoS One 8:e66213) starts from single linkage at 2.2 % and then refines."
)


def stage(job: Job) -> None:
    results, alignment, clusters = job.load("results"), job.load("alignment"), job.load("clusters")
    chosen = job.parameters
    report = begin(
        job,
        f"{rule_told(job)} · {chosen['linkage']} linkage at {chosen['threshold_percent']:g} %",
        {
            "Different sequences": results["distinct"],
            "Clusters": results["clusters"],
            "Of one sequence": results["single"],
            "Columns compared": results["columns_compared"],
        },
    )
    agreements(report, job)
    cluster_table(report, clusters)
    curve(report, job)
    left_out(report, job, REASONS)
    told = f"Alignment: {alignment['how']}, {alignment['columns']} columns (alignment.fasta)."
    how(report, job, lines=[told, NOTES[chosen["linkage"]], NOTE], formulas=FORMULAS, sources=SOURCES)
    kinds = {f: Counter(row["kind"] for row in job.load(f"agreement_{f}")) for f in ("species", "bin_uri")}
    facts = {key: value for key, value in results.items() if key != "estimate"}
    finish(report, job, alignment=alignment, clusters=facts, agreement=kinds, estimate=results["estimate"])


def agreements(report: Report, job: Job) -> None:
    for field, file, label in (("species", "species.tsv", "species"), ("bin_uri", "bins.tsv", "BINs")):
        rows = job.load(f"agreement_{field}")
        report.section(f"Agreement with {label}")
        if not rows:
            report.paragraph(f"No record has a name for {label}.")
            continue
        counts = Counter(row["kind"] for row in rows)
        report.figure(
            bars([(kind, counts[kind]) for kind in KINDS], x_label=label),
            "; ".join(f"{kind}: {told}" for kind, told in KINDS.items()) + ".",
        )
        doubtful = [row for row in rows if row["kind"] != "match"]
        if doubtful:
            report.table(
                (
                    "Species" if field == "species" else "BIN",
                    "Records",
                    "Clusters",
                    "Agreement",
                    "Others in them",
                ),
                [
                    (
                        row["name"],
                        row["records"],
                        short(row["clusters"]),
                        row["kind"],
                        short(row["others"]),
                    )
                    for row in doubtful
                ],
                caption=f"Those that are no match, {len(doubtful)} of {len(rows)}.",
                whole=file,
            )


def short(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def cluster_table(report: Report, clusters: list[dict[str, Any]]) -> None:
    report.section("Clusters")
    columns = ("Cluster", "n", "Species", "BINs", "Mean within %", "Max within %", "Nearest", "Distance %")
    report.table(
        columns,
        [
            (
                row["name"],
                row["sequences"],
                row["species_names"] or "no name",
                row["bin_names"],
                None if row["mean"] is None else 100 * row["mean"],
                None if row["max"] is None else 100 * row["max"],
                short(row["nearest_clusters"]),
                None if row["nearest"] is None else 100 * row["nearest"],
            )
            for row in clusters
        ],
        caption="The largest first. Names with the number of records; distances in %; nearest: the cluster "
        "that has the closest sequence.",
        digits=dict.fromkeys((columns[4], columns[5], columns[7]), 3),
        whole="clusters.tsv",
    )


def curve(report: Report, job: Job) -> None:
    report.section("Clusters by threshold")
    steps = job.load("curve")
    line = Line(label="clusters", x=[step[0] for step in steps], y=[step[1] for step in steps])
    report.figure(
        lines([line], x_label="threshold (% distance)", y_label="clusters, single linkage"),
        "How many clusters single linkage makes at other thresholds; a flat stretch means that the threshold "
        "matters little there. The figures are in thresholds.tsv.",
    )


if __name__ == "__main__":
    run_stage(stage)
