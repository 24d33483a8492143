"""Writes analysis_report.html and run.json, and takes away what the stages left for one another."""

from typing import Any

from barcode.charts import Line, Points, lines, scatter
from barcode.gap import cumulative_error, percent
from barcode.groups import FIELDS
from barcode.job import Job, run_stage
from barcode.report import Report
from barcode.rules import FORMULAS, SOURCES, rule_told
from barcode.sections import begin, finish, how, left_out
from barcode.selection import REASONS

Rows = list[dict[str, Any]]

NOTE = (
    "Nearest neighbour: the smallest distance to a record of another group (Meier, Zhang and Ali 2008, Syst "
    "Biol 57:809-813), not the mean. There is a gap where it is larger than the largest distance within. A "
    "group with one sequence has no distance within, so no gap can be told; its nearest neighbour is told. "
    "Thresholds: as threshOpt of the R package spider (Brown et al. 2012, Mol Ecol Resour 12:562-565)."
)
MARKS = {
    "no gap": "Nearest neighbour not farther than the largest distance within",
    "near": "Nearest neighbour closer than the threshold",
    "wide": "Largest distance within beyond the threshold: hidden species, or misidentified records?",
}


def stage(job: Job) -> None:
    groups, results, alignment = job.load("groups"), job.load("results"), job.load("alignment")
    one, many = FIELDS[job.parameters["group_by"]]
    report = begin(
        job,
        f"{rule_told(job)} · by {one}",
        {
            many[0].upper() + many[1:]: results["groups"],
            "With two sequences or more": sum(row["sequences"] > 1 for row in groups),
            "With a gap": sum(row["has_gap"] is True for row in groups),
            "Without a gap": sum(row["has_gap"] is False for row in groups),
            "Columns compared": results["columns_compared"],
        },
    )
    figures(report, groups, one, many)
    thresholds(report, job.load("thresholds"))
    marked(report, job, groups, one)
    gap_table(report, groups, one)
    left_out(report, job, REASONS)
    told = f"Alignment: {alignment['how']}, {alignment['columns']} columns (alignment.fasta)."
    how(report, job, lines=[told, NOTE], formulas=FORMULAS, sources=SOURCES)
    facts = {key: results[key] for key in ("columns_compared", "distinct", "groups", "unnamed", "undefined")}
    facts["best_threshold"] = best_threshold(job.load("thresholds"))
    finish(report, job, alignment=alignment, distances=facts, estimate=results["estimate"])


def marks(row: dict[str, Any]) -> list[str]:
    found = [("no gap", row["has_gap"] is False), ("near", row["near"]), ("wide", row["wide"])]
    return [name for name, yes in found if yes]


def named(row: dict[str, Any], key: str) -> str:
    """The first, and how many more there are."""
    names = row[key]
    return ", ".join(names[:1]) + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def table_rows(groups: Rows) -> list[tuple[object, ...]]:
    return [
        (
            row["name"],
            ", ".join(filter(None, (row["order"], row["family"]))),
            row["sequences"],
            percent(row["mean_within"]),
            percent(row["max_within"]),
            named(row, "nearest_groups"),
            named(row, "nearest_records"),
            percent(row["nearest"]),
            ", ".join(marks(row)),
        )
        for row in groups
    ]


def columns(one: str) -> tuple[str, ...]:
    name = one[0].upper() + one[1:]
    within = ("Mean within %", "Max within %")
    return (name, "Order, family", "n", *within, f"Nearest {one}", "Nearest neighbour", "NN %", "Marked")


def gap_table(report: Report, groups: Rows, one: str) -> None:
    report.section("Nearest neighbours")
    if not groups:
        report.paragraph(f"No record has a {one} name.")
        return
    heads = columns(one)
    report.table(
        heads,
        table_rows(groups),
        caption="Distances in %. Empty within: one sequence only. NN: nearest neighbour; of equally near "
        "ones the first are named here, up to 50 in barcode_gap.tsv.",
        digits=dict.fromkeys((heads[3], heads[4], heads[7]), 3),
        whole="barcode_gap.tsv",
    )


def marked(report: Report, job: Job, groups: Rows, one: str) -> None:
    report.section("To look at")
    threshold = job.parameters["threshold_percent"]
    heads = columns(one)
    for mark, caption in MARKS.items():
        rows = [row for row in groups if mark in marks(row)]
        if rows:
            key = "max_within" if mark == "wide" else "nearest"
            rows.sort(key=lambda row: (-row[key] if key == "max_within" else row[key], row["name"]))
            report.table(
                heads,
                table_rows(rows),
                caption=f"{caption} ({len(rows)}; threshold {threshold:g} %).",
                digits=dict.fromkeys((heads[3], heads[4], heads[7]), 3),
                whole="barcode_gap.tsv",
            )
    if not any(marks(row) for row in groups):
        report.paragraph("Nothing is marked.")


def figures(report: Report, groups: Rows, one: str, many: str) -> None:
    report.section("Plots")
    both = [row for row in groups if row["has_gap"] is not None]
    if not both:
        report.paragraph(f"No {one} has both a distance within and a nearest neighbour, so nothing is drawn.")
    for key, label in (("max_within", "largest"), ("mean_within", "mean")):
        parts = [
            Points(
                label=name,
                x=[percent(row[key]) or 0.0 for row in both if row["has_gap"] is gap],
                y=[percent(row["nearest"]) or 0.0 for row in both if row["has_gap"] is gap],
                told=[told(row, key) for row in both if row["has_gap"] is gap],
            )
            for name, gap in (("gap", True), ("no gap", False))
        ]
        if both:
            report.figure(
                scatter(
                    parts,
                    x_label=f"{label} distance within (%)",
                    y_label="nearest neighbour (%)",
                    diagonal=True,
                ),
                f"Each point is one of the {many} with two sequences or more. On or below the line y = x the "
                f"nearest neighbour is no farther than the {label} distance within.",
            )
    several = [row for row in groups if row["max_within"] is not None]
    if several:
        points = Points(
            label=many,
            x=[row["sequences"] for row in several],
            y=[percent(row["max_within"]) or 0.0 for row in several],
            told=[told(row, "max_within") for row in several],
        )
        report.figure(
            scatter([points], x_label="sequences", y_label="largest distance within (%)"),
            "Whether distances within only grow with the number of sequences.",
        )


def told(row: dict[str, Any], key: str) -> str:
    name = "".join(c if c.isprintable() else " " for c in row["name"])
    nearest = "none" if row["nearest"] is None else f"{100 * row['nearest']:.3f} %"
    return f"{name}: within {100 * row[key]:.3f} %, nearest {nearest}, n {row['sequences']}"


def best_threshold(rows: Rows) -> dict[str, Any]:
    """The smallest threshold with the fewest errors, of those tried."""
    best = min(rows, key=lambda row: (cumulative_error(row), row["threshold_percent"]))
    return {
        "threshold_percent": best["threshold_percent"],
        "cumulative_error_records": cumulative_error(best),
    }


def thresholds(report: Report, rows: Rows) -> None:
    if not any(sum(v for k, v in row.items() if k != "threshold_percent") for row in rows):
        return
    report.section("Errors by threshold")
    x = [row["threshold_percent"] for row in rows]
    best = best_threshold(rows)
    curves = [
        Line(label="both errors", x=x, y=[cumulative_error(row) for row in rows]),
        Line(label="false positive: none of its own within", x=x, y=[row["false_positive"] for row in rows]),
        Line(label="false negative: others within", x=x, y=[row["false_negative"] for row in rows]),
    ]
    report.figure(
        lines(curves, x_label="threshold (% distance)", y_label="records"),
        f"How many records a fixed threshold would judge wrongly. Fewest at {best['threshold_percent']:g} %: "
        f"{best['cumulative_error_records']:,}. The figures are in thresholds.tsv.",
    )


if __name__ == "__main__":
    run_stage(stage)
