"""Writes the tables: summary.tsv, species.tsv, genera.tsv, families.tsv, histogram.tsv."""

from typing import Any

from barcode.job import Job, run_stage
from barcode.levels import LABELS, RANKS
from barcode.tables import write_tsv

SUMMARY = (
    "label",
    "sequences",
    "taxa",
    "comparisons",
    "undefined",
    "min_distance_percent",
    "mean_distance_percent",
    "max_distance_percent",
    "se_distance_percent",
    "sd_distance_percent",
    "q1_distance_percent",
    "median_distance_percent",
    "q3_distance_percent",
    "quantiles",
)
TAXON = (
    "sequences",
    "comparisons",
    "undefined",
    "min_distance_percent",
    "mean_distance_percent",
    "max_distance_percent",
    "sd_distance_percent",
    "se_distance_percent",
)
FILES = {"species": "species.tsv", "genus": "genera.tsv", "family": "families.tsv"}


def percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def summary_row(label: str, row: dict[str, Any]) -> list[object]:
    counts = [row["sequences"], row["taxa"], row["comparisons"], sum(row["undefined"].values())]
    figures = [percent(row[key]) for key in ("min", "mean", "max", "se", "sd", "q1", "median", "q3")]
    exact = row["exact_quantiles"]
    return [label, *counts, *figures, None if exact is None else "exact" if exact else "to 0.001 %"]


def normalised_row(row: dict[str, Any]) -> list[object]:
    """One figure for each species with two sequences or more: its mean; then mean and deviation of those."""
    label = "Within Species, normalised by species"
    taxa, sd = row["taxa"], row["sd_of_taxon_means"]
    se = None if sd is None else sd / taxa**0.5
    figures = [None, percent(row["mean_of_taxon_means"]), None, percent(se), percent(sd)]
    return [label, row["sequences"], taxa, row["comparisons"], None, *figures, None, None, None, None]


def stage(job: Job) -> None:
    results = job.load("results")
    levels = results["levels"]
    rows = [summary_row(LABELS[rank], levels[rank]) for rank in RANKS]
    rows += [normalised_row(levels["species"]), summary_row("All pairs", levels["all"])]
    write_tsv(job.dir / "summary.tsv", SUMMARY, rows)
    for rank, file in FILES.items():
        taxa = sorted(results["taxa"][rank], key=lambda taxon: taxon["name"])
        figures = ("min", "mean", "max", "sd", "se")
        table = (
            [
                t["name"],
                t["sequences"],
                t["comparisons"],
                t["undefined"],
                *(percent(t[key]) for key in figures),
            ]
            for t in taxa
        )
        print(f"{file}: {write_tsv(job.dir / file, (rank, *TAXON), table)} rows")
    write_histogram(job, results)


def write_histogram(job: Job, results: dict[str, Any]) -> None:
    """Up to the last bin that holds anything; the very last one is open upwards."""
    counts, shares, width = results["histogram"], results["normalised"], results["bin_percent"]
    used = max((n + 1 for n in range(len(counts[0])) if any(row[n] for row in counts)), default=0)
    columns = (
        "from_distance_percent",
        "below_distance_percent",
        *(f"within_{rank}_comparisons" for rank in RANKS),
        "all_comparisons",
        "within_species_share_normalised_by_species",
    )
    table = (
        [
            round(n * width, 6),
            None if n == len(counts[0]) - 1 else round((n + 1) * width, 6),
            *(row[n] for row in counts),
            shares[n],
        ]
        for n in range(used)
    )
    write_tsv(job.dir / "histogram.tsv", columns, table)


if __name__ == "__main__":
    run_stage(stage)
