"""Writes analysis_report.html and run.json, and takes away what the stages left for one another."""

from collections import Counter
from typing import Any

from barcode import sections
from barcode.charts import bars
from barcode.discordance import counted
from barcode.job import Job, run_stage
from barcode.report import Report
from barcode.specimens import REASONS

NO_BIN = {"no_bin": "no BIN"}
RULES = """discordant  at some rank, from kingdom down to species, the members with a name there do not agree:
            the most frequent name has a smaller share of them than the threshold (1: two names suffice)
concordant  two or more members, and no rank at which they disagree
singleton   one member

rank of conflict  the highest rank that disagrees; missing names never conflict

match    all records of the species in one BIN that holds no other species
split    in several BINs, none of which holds another species
merge    in one BIN, together with other species
mixture  in several BINs, at least one of them shared"""
SOURCES = (
    "BOLD handbook, BIN Discordance; match, split, merge and mixture as in Ratnasingham and Hebert (2013) "
    "PLoS ONE 8:e66213; threshold and named members after BOLD.NODE's BIN consensus. Only the records of "
    "this job are compared: other members of their BINs, which BOLD itself would look at, are not known "
    "here. A specimen (processid) votes once."
)


def stage(job: Job) -> None:
    results, judged, species = job.load("results"), job.load("judged"), job.load("species_bins")
    report = sections.begin(
        job,
        f"{results['bins']:,} BINs, {len(species):,} species",
        {name.capitalize(): results[name] for name in ("discordant", "concordant", "singleton")},
    )
    report.section("BINs by agreement")
    counts = [(name.capitalize(), results[name]) for name in ("discordant", "concordant", "singleton")]
    report.figure(bars(counts, x_label="BINs"), "BINs whose records disagree, agree, or are alone.")
    if results["conflicts_by_rank"]:
        report.figure(
            bars([(f"at {rank}", n) for rank, n in results["conflicts_by_rank"].items()], x_label="BINs"),
            "Discordant BINs by the highest rank in conflict. High ranks point to contamination or exchanged "
            "samples, low ones to misidentification, synonyms or young species.",
        )
    discordant(report, judged)
    species_in_bins(report, results, species)
    others(report, judged, "concordant", "Concordant BINs")
    others(report, judged, "singleton", "Singletons")
    sections.left_out(report, job, {**REASONS, **NO_BIN})
    sections.how(report, job, formulas=RULES, sources=SOURCES)
    sections.finish(report, job, estimate=job.load("estimate"), bins=results)


def discordant(report: Report, judged: list[dict[str, Any]]) -> None:
    report.section("Discordant BINs")
    rows = [
        (row["bin_uri"], row["rank_of_conflict"], row["members"], counted(Counter(names), ", "), agreed(row))
        for row in judged
        if row["status"] == "discordant" and (names := row["names"][row["rank_of_conflict"]])
    ]
    if not rows:
        report.paragraph("None.")
        return
    report.table(
        ("BIN", "Conflict at", "Members", "Names there (members)", "Agree on"),
        rows,
        caption="Gravest conflict first; the records are in discordant_records.tsv.",
        whole="bins.tsv",
    )


def agreed(row: dict[str, Any]) -> str | None:
    rank = row["concordant_rank"]
    return f"{row['concordant_name']} ({rank})" if rank else None


def species_in_bins(report: Report, results: dict[str, Any], species: list[dict[str, Any]]) -> None:
    report.section("Species and their BINs")
    if not species:
        report.paragraph("No record with a BIN has a species name.")
        return
    related = results["species_by_relation"]
    report.figure(bars(list(related.items()), x_label="species"), "Species by how they stand to their BINs.")
    rows = [
        (
            row["species"],
            row["records"],
            len(row["bins"]),
            row["relation"],
            counted(Counter(row["bins"]), ", "),
        )
        for row in species
        if row["relation"] != "match"
    ]
    if rows:
        columns = ("Species", "Records", "BINs", "Relation", "BINs (records)")
        report.table(columns, rows, caption="Species that do not match one BIN.", whole="species_bins.tsv")


def others(report: Report, judged: list[dict[str, Any]], status: str, heading: str) -> None:
    report.section(heading)
    rows = [(row["bin_uri"], row["members"], agreed(row)) for row in judged if row["status"] == status]
    if rows:
        report.table(("BIN", "Members", "Lowest name"), rows, whole="bins.tsv")
    else:
        report.paragraph("None.")


if __name__ == "__main__":
    run_stage(stage)
