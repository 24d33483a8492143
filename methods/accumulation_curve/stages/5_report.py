"""Writes analysis_report.html and run.json, and takes away what the stages left for one another."""

from typing import Any

from barcode import sections
from barcode.charts import COLOURS, Line, lines
from barcode.job import Job, run_stage

NAMES = {"species": "species", "genus": "genera", "subfamily": "subfamilies", "bin_uri": "BINs"}
FORMULAS = """N samples, N_i of them of kind i; k samples drawn without return

q_i(k)     C(N - N_i, k) / C(N, k)          the chance that kind i is in none of them
q_ij(k)    C(N - N_i - N_j, k) / C(N, k)    that neither i nor j is
E[S(k)]    sum over i of 1 - q_i
Var[S(k)]  sum over i of q_i (1 - q_i) + sum over i <> j of (q_ij - q_i q_j)
95 %       E[S(k)] -/+ 1.96 sd, within 0 and S

Chao1      S + f1^2 / (2 f2), or S + f1 (f1 - 1) / 2 where f2 = 0; f1, f2: kinds with one, two samples"""
SOURCES = (
    "Hurlbert (1971) Ecology 52:577-586; Heck, van Belle and Simberloff (1975) Ecology 56:1459-1461; Chao "
    "(1984) Scand J Stat 11:265-270. A sample is a specimen (processid). Expected values are exact, the mean "
    "over all orders; random orders only show them by example."
)


def stage(job: Job) -> None:
    results, chosen = job.load("results"), job.parameters
    what = NAMES.get(chosen["count"], chosen["extra_info_field"])
    if chosen["count"] == "all":
        what = "species, genera, subfamilies and BINs"
    by = "" if chosen["group_by"] == "none" else f" by {chosen['group_by']}"
    report = sections.begin(job, f"{what}{by}", {"Curves": len(results), "Seed": chosen["seed"]})
    report.section("Curves")
    report.figure(plot(results, chosen), caption(chosen))
    report.section("At the end of each curve")
    rows = [
        (one["label"], one["samples"], one["kinds"], one["once"], one["twice"], one["chao1"], last_slope(one))
        for one in results
    ]
    report.table(
        ("Curve", "Samples", "Found", "Once", "Twice", "Chao1", "New per sample at the end"),
        rows,
        digits={"Chao1": 1, "New per sample at the end": 4},
        caption="Once, twice: found with one, two samples. Chao1: how many there are at least, by estimate. "
        "New per sample at the end: the chance that one sample more would have brought a new one.",
    )
    report.paragraph("All points of the curves are in accumulation.tsv.", small=True)
    sections.left_out(report, job, job.load("reasons"))
    sections.how(report, job, formulas=FORMULAS, sources=SOURCES)
    keys = ("label", "samples", "kinds", "once", "twice", "chao1", "without")
    curves = [{key: one[key] for key in keys} for one in results]
    sections.finish(report, job, estimate=job.load("estimate"), seed=chosen["seed"], curves=curves)


def plot(results: list[dict[str, Any]], chosen: dict[str, Any]) -> str:
    shown = results[: len(COLOURS)]
    if chosen["order"] == "submission":
        curves = [Line(label=one["label"], x=one["x"], y=one["submission"]) for one in shown]
    else:
        curves = [
            Line(label=one["label"], x=one["x"], y=one["expected"], low=one["low"], high=one["high"])
            for one in shown
        ]
    return lines(curves, x_label="samples", y_label="found")


def caption(chosen: dict[str, Any]) -> str:
    most = f" The first {len(COLOURS)} curves are drawn." if chosen["max_curves"] > len(COLOURS) else ""
    if chosen["order"] == "submission":
        return f"Found by the order of submission (processid_minted_date).{most}"
    return (
        "Expected number found with so many samples drawn at random, and the range in which 95 % of random "
        f"orders are to be expected.{most}"
    )


def last_slope(one: dict[str, Any]) -> float:
    """E[S(N)] - E[S(N-1)] = f1 / N, the share of samples whose kind was found once (Good 1953)."""
    return float(one["once"] / one["samples"])


if __name__ == "__main__":
    run_stage(stage)
