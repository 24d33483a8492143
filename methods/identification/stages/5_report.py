"""Writes analysis_report.html and run.json, and takes away what the stages left for one another."""

from typing import Any

from barcode import sections
from barcode.charts import Line, bars, lines
from barcode.identify import STATUSES, SUGGESTED
from barcode.job import Job, read_jsonl, run_stage
from barcode.plots import Series, histograms
from barcode.report import Report
from barcode.selection import REASONS

VERDICTS = ("correct", "ambiguous", "incorrect", "no id")
RULES = """identity  100 (1 - p), p being the share of differing sites among those where query and hit both
          have A, C, G or T (U is T); overlap is the number of these sites

match        the hits within the threshold (identity >= match_identity_percent) bear one name at the lowest
             rank at which any of them has one; hits without a name there neither agree nor disagree
ambiguous    they bear several names: all are given
no match     no named hit within the threshold; suggested: the lowest rank that hits are near enough for
             (%s), and what most of these are there
no sequence, too short   not searched for

order of hits   identity, overlap, record id"""
SOURCES = (
    "A query is never its own hit: records with its record id or process id are passed over. Leave-one-out: "
    "best close match after Meier et al. (2006) Syst Biol 55:715-728; rules as in spider (Brown et al. 2012, "
    "Mol Ecol Resour 12:562-565), where nearer means distance < threshold."
)
FACTS = ("engine", "different_queries", "different_library_sequences", "second_pass")
ERRORS = ("cumulative_error", "false_negative", "false_positive")


def stage(job: Job) -> None:
    results, search, source = job.load("results"), job.load("search"), job.load("source")
    chosen, check = job.parameters, job.load("check")
    report = sections.begin(
        job,
        f"{chosen['marker']} · match at {chosen['match_identity_percent']:g} % identity or more",
        {
            "Library records": source["used"],
            **{status.capitalize(): results["statuses"][status] for status in STATUSES[:3]},
        },
    )
    rows = read_jsonl(job.dir / "identification.jsonl")
    figures(report, results, rows)
    table(report, rows)
    if check:
        library(report, check)
    sections.left_out(report, job, REASONS)
    chosen["reference"] = source["kind"] if chosen["reference"] else ""
    sections.how(
        report,
        job,
        lines=[
            f"Library: {source['kind']}; {source['used']:,} records, "
            f"{search['different_library_sequences']:,} different sequences.",
            f"Search: {search['engine']}; {search['second_pass']:,} of {search['different_queries']:,} "
            "different queries needed the second pass. Hits below "
            f"{chosen['second_identity_percent']:g} % identity or {chosen['min_overlap']:,} bp overlap are "
            "not listed.",
        ],
        formulas=RULES % ", ".join(f"{rank} {least:g} %" for rank, least in SUGGESTED.items()),
        sources=SOURCES,
    )
    facts = {key: search[key] for key in FACTS}
    sections.finish(
        report,
        job,
        estimate=search["estimate"],
        library=source,
        search=facts,
        identification=results,
        library_check=check,
    )


def figures(report: Report, results: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    report.section("Queries by status")
    counts = [(status, results["statuses"][status]) for status in STATUSES]
    report.figure(bars(counts, x_label="queries"), "How many queries have each status.")
    if results["own_species_agrees"] or results["own_species_disagrees"]:
        report.paragraph(
            "Of the matches on a species whose query bears a species name, "
            f"{results['own_species_agrees']:,} agree with it, "
            f"{results['own_species_disagrees']:,} do not."
        )
    divergences = [
        100 - row["best_identity_percent"] for row in rows if row["best_identity_percent"] is not None
    ]
    if divergences:
        width = 0.5
        heights = [0] * (int(max(divergences) / width + 1e-9) + 1)
        for value in divergences:
            heights[int(value / width + 1e-9)] += 1
        one = Series(label="Best hit", heights=heights, colour="c1")
        report.figure(
            histograms([one], bin_width=width, x_label="divergence of the best hit (%)", y_label="queries"),
            "100 less the identity of each query's best hit.",
        )


def table(report: Report, rows: list[dict[str, Any]]) -> None:
    report.section("Queries")
    columns = ("Query", "Given as", "Status", "Name", "Best %", "Overlap", "Within", "Flags")
    shown = [
        (
            row["query_record_id"],
            row["query_identification"],
            row["status"],
            name_of(row),
            row["best_identity_percent"],
            row["best_overlap_bp"],
            row["hits_within_threshold"],
            row["flags"],
        )
        for row in rows
    ]
    report.table(
        columns,
        shown,
        digits={"Best %": 2},
        caption="Names with how many hits within the threshold bear them; Best %, Overlap (bp): of the best "
        "hit; Within: hits within the threshold. All hits are in hits.tsv.",
        whole="identification.tsv",
    )


def name_of(row: dict[str, Any]) -> str | None:
    if row["names_within_threshold"]:
        names = str(row["names_within_threshold"]).replace("|", ", ")
        return names if row["name_rank"] == "species" else f"{names}, {row['name_rank']}"
    if row["suggested_name"]:
        return f"suggested {row['suggested_rank']}: {row['suggested_name']}"
    return None


def library(report: Report, check: dict[str, Any]) -> None:
    report.section("The library against itself")
    report.paragraph(
        f"{check['records']:,} records of {check['species']:,} species, {check['single']:,} of them the only "
        "one of their species: nothing can identify these. Records without a species name, left out here: "
        f"{check['unnamed']:,}. Alignment: {check['alignment']}."
    )
    names = {
        "nearest_neighbour": "Nearest neighbour",
        "best_close_match": f"Best close match, < {100 * check['threshold']:g} %",
        "threshold_match": f"All within < {100 * check['threshold']:g} %",
    }
    rows = [
        (label, *(check["counts"][key].get(verdict, 0) for verdict in VERDICTS))
        for key, label in names.items()
    ]
    report.table(
        ("Rule", *(verdict.capitalize() for verdict in VERDICTS)),
        rows,
        caption="Each record identified by the others; each record's own verdict is in library_check.tsv.",
    )
    points = check["thresholds"]
    x = [100 * point["threshold"] for point in points]
    curves = [Line(label=key.replace("_", " "), x=x, y=[point[key] for point in points]) for key in ERRORS]
    report.figure(
        lines(curves, x_label="threshold (% distance)", y_label="records"),
        "Errors at each threshold: false negative, another species is nearer than the threshold; false "
        "positive, nobody is although the species has other records. The best threshold is where their sum "
        "is lowest.",
    )
    columns = ("Threshold %", "True neg", "True pos", "False neg", "False pos", "Cumulative error")
    report.table(columns, [(100 * p["threshold"], *list(p.values())[1:]) for p in points])


if __name__ == "__main__":
    run_stage(stage)
