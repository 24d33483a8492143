"""Writes analysis_report.html and run.json, and takes away what the stages left for one another."""

from typing import Any

from barcode import sections
from barcode.charts import COLOURS, Points, scatter
from barcode.job import Job, run_stage
from barcode.report import Report
from barcode.rules import FORMULAS, SOURCES, rule_told

OURS = """

km        great-circle distance (haversine) on a sphere of 6371.0088 km radius
Mantel r  Pearson's correlation of km and genetic distance over all pairs of a group that have a distance
p         share of random permutations of the records' places with r (or |r|) at least as large, the
          observed order counted in: (extreme + 1) / (permutations + 1)
spread    length of the minimum spanning tree of a group's sites, against its largest genetic distance"""
THEIRS = (
    " Mantel (1967) Cancer Research 27:209-220; Prim (1957) Bell Syst Tech J 36:1389-1401. Where all records "
    "of a group are from one site, or all are alike, there is no correlation: r is empty, not 0."
)


def percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def stage(job: Job) -> None:
    results, spread, pairs, chosen = (
        job.load("results"), job.load("spread"), job.load("pairs"), job.parameters
    )  # fmt: skip
    with_r = [one for one in results if one["r"] is not None]
    report = sections.begin(
        job,
        f"{rule_told(job)} · within {chosen['group_by']}",
        {"Groups": len(results), "With a correlation": len(with_r), "Pairs": pairs["total"]},
    )
    table(report, results)
    figures(report, results)
    second_test(report, results, spread)
    sections.left_out(report, job, job.load("reasons"))
    alignment = job.load("alignment")
    sections.how(
        report,
        job,
        lines=[f"Alignment: {alignment['how']}, {alignment['columns']} columns (alignment.fasta)."],
        formulas=FORMULAS + OURS,
        sources=SOURCES + THEIRS,
    )
    facts = {"groups": len(results), "groups_with_r": len(with_r), "pairs": pairs["total"]}
    sections.finish(
        report,
        job,
        estimate=pairs["estimate"],
        seed=chosen["seed"],
        alignment=alignment,
        correlation={**facts, "pairs_listed": pairs["listed"]},
        spread=spread,
    )


def table(report: Report, results: list[dict[str, Any]]) -> None:
    report.section("Within each group")
    p_values = ("p (r > 0)", "p (two-sided)")
    columns = ("Group", "n", "Sites", "Pairs", "Max km", "Max Dist %", "Mantel r", *p_values, "No r")
    ordered = sorted(results, key=lambda one: (one["r"] is None, -(one["r"] or 0), one["group"]))
    rows = [
        (
            *(one[key] for key in ("group", "records", "sites", "pairs", "max_km")),
            percent(one["max_distance"]),
            *(one[key] for key in ("r", "p_greater", "p_two_sided")),
            one["why"],
        )
        for one in ordered
    ]
    digits = {"Max km": 1, "Max Dist %": 3, "Mantel r": 3, "p (r > 0)": 3, "p (two-sided)": 3}
    report.table(
        columns,
        rows,
        digits=digits,
        caption="r close to 1: the farther apart, the more different. p-values are of single tests: with "
        "many groups some are small by chance.",
        whole="correlation.tsv",
    )


def figures(report: Report, results: list[dict[str, Any]]) -> None:
    largest = sorted(results, key=lambda one: (-one["pairs"], one["group"]))
    alone = [one for one in largest if one["points"][0]][: len(COLOURS) - 1]
    rest = [one for one in largest if one not in alone]
    shown = [Points(label=one["group"], x=one["points"][0], y=one["points"][1]) for one in alone]
    if any(one["points"][0] for one in rest):
        x, y = ([value for one in rest for value in one["points"][axis]] for axis in (0, 1))
        shown.append(Points(label="other groups", x=x, y=y))
    if shown:
        report.section("Pairs")
        report.figure(
            scatter(shown, x_label="distance between sites (km)", y_label="genetic distance (%)"),
            "A point for each pair of records of a group (of large groups evenly chosen ones).",
        )


def second_test(report: Report, results: list[dict[str, Any]], spread: dict[str, Any]) -> None:
    report.section("Spread of sites and largest distance, over the groups")
    if spread["r"] is None:
        report.paragraph(f"No correlation over the groups: {spread['why']}.")
    else:
        report.paragraph(
            f"Pearson's r over {spread['groups']} groups: {spread['r']:.3f}, p (two-sided, by permutation) "
            f"{spread['p_two_sided']:.3f}."
        )
    some = [one for one in results if one["max_distance"] is not None]
    if some:
        points = Points(
            label="groups",
            x=[one["spanning_tree_km"] for one in some],
            y=[100 * one["max_distance"] for one in some],
            told=["".join(c if c.isprintable() else " " for c in one["group"]) for one in some],
        )
        report.figure(
            scatter([points], x_label="spanning tree of sites (km)", y_label="largest genetic distance (%)"),
            "A point for each group.",
        )


if __name__ == "__main__":
    run_stage(stage)
