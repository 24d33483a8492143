"""Writes analysis_report.html and run.json, and takes away what the stages left for one another."""

from typing import Any

from barcode.diagnostic import MEANING
from barcode.groups import FIELDS
from barcode.job import Job, run_stage
from barcode.report import Report
from barcode.sections import begin, finish, how, left_out
from barcode.selection import REASONS
from barcode.tracks import Track, tracks

Groups = list[dict[str, Any]]

DRAWN = 60
FORMULAS = "\n".join(f"{code:<4}{told}" for code, told in MEANING.items())
NOTE = (
    "The consensus of a group at a column is the one known base (A, C, G, T; U is T) of its records; where "
    "they have two or none known, it has no code. Gaps and ambiguous letters are unknown. The codes are "
    "those of BOLD's Diagnostic Characters; of two that fit, the one that claims less counts. Where another "
    "group has no known base at all the code is DP, not D. Pure: columns where the group and the others have "
    "no base in common (Sarkar et al. 2002, Mol Phylogenet Evol 24:388-399), known bases only. All depends "
    "on the records given: a character is diagnostic for these groups only."
)


def stage(job: Job) -> None:
    groups, results, alignment = job.load("groups"), job.load("results"), job.load("alignment")
    one, many = FIELDS[job.parameters["group_by"]]
    report = begin(
        job,
        f"{job.parameters['marker']} · by {one}",
        {
            many[0].upper() + many[1:]: results["groups"],
            "… with characters of their own": results["groups_with_characters"],
            "With a D": sum(bool(group["D"]) for group in groups),
            "Columns": results["columns"],
        },
    )
    picture(report, groups, results, one)
    counts_table(report, groups, one)
    positions_table(report, groups, one)
    left_out(report, job, REASONS)
    told = f"Alignment: {alignment['how']}, {alignment['columns']} columns (alignment.fasta)."
    how(report, job, lines=[told, "Positions count from 1, along the alignment.", NOTE], formulas=FORMULAS)
    facts = {key: value for key, value in results.items() if key != "estimate"}
    finish(report, job, alignment=alignment, characters=facts, estimate=results["estimate"])


def picture(report: Report, groups: Groups, results: dict[str, Any], one: str) -> None:
    report.section("Where they are")
    having = [group for group in groups if group["D"] or group["DP"]]
    if not having:
        report.paragraph(f"No {one} has a diagnostic character.")
        return
    having.sort(key=lambda group: (-len(group["D"]), -len(group["DP"]), group["name"]))
    rows = [Track(label=g["name"], first=g["D"], second=g["DP"]) for g in having[:DRAWN]]
    cut = f" The {DRAWN} with most of {len(having)}." if len(having) > DRAWN else ""
    report.figure(
        tracks(rows, columns=results["columns"], x_label="position in the alignment"),
        f"First colour: D; second: DP.{cut} Positions are in groups.tsv, bases in characters.tsv.",
    )


def counts_table(report: Report, groups: Groups, one: str) -> None:
    report.section("Characters by group")
    report.table(
        (one[0].upper() + one[1:], "n", *MEANING, "No consensus", "Pure"),
        [(g["name"], g["sequences"], *g["codes"].values(), g["no_consensus"], g["pure"]) for g in groups],
        caption="Columns of the alignment with each code; what they mean is told below.",
        whole="groups.tsv",
    )


def positions_table(report: Report, groups: Groups, one: str) -> None:
    having = [group for group in groups if group["D"] or group["DP"]]
    if having:
        report.section("Positions")
        report.table(
            (one[0].upper() + one[1:], "D", "DP"),
            [(g["name"], short(g["D"]), short(g["DP"])) for g in having],
            whole="groups.tsv",
        )


def short(positions: list[int]) -> str:
    return ", ".join(map(str, positions[:30])) + (" ..." if len(positions) > 30 else "")


if __name__ == "__main__":
    run_stage(stage)
