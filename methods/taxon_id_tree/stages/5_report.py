"""Writes analysis_report.html and run.json, and takes away what the stages left for one another."""

from barcode.job import Job, read_jsonl, run_stage
from barcode.report import Report
from barcode.rules import FORMULAS, SOURCES, rule_told
from barcode.sections import begin, finish, how, left_out
from barcode.selection import REASONS

NOTES = (
    "Neighbour joining: Saitou and Nei (1987) Mol Biol Evol 4:406-425, in the form of Studier and Keppler "
    "(1988) Mol Biol Evol 5:729-731. Of pairs that tie the first in input order is joined; equal sequences "
    "make many ties, so that the branching among them, of length 0, means nothing.",
    "The tree has no root. It is drawn with one in the middle of its longest path, smaller branches first; "
    "tree.nwk and tree.nex have it without.",
)
REPORT_REASONS = {**REASONS, "undefined_distance": "no distance to some other record"}
TAXONOMY = (
    ("#", "order_in_tree"),
    ("Process id", "processid"),
    ("BIN", "bin_uri"),
    ("Family", "family"),
    ("Identification", "identification"),
    ("Country", "country/ocean"),
    ("bp", "known_bases"),
)


def stage(job: Job) -> None:
    results, alignment = job.load("results"), job.load("alignment")
    apart, several = job.load("apart"), job.load("several")
    report = begin(
        job,
        f"{rule_told(job)} · neighbour joining",
        {
            "Tips": results["tips"],
            "Columns compared": results["columns_compared"],
            "Species of two or more": several,
            "… not one branch": len(apart),
        },
    )
    draw(report, job)
    if apart:
        report.section("Species that are not one branch")
        report.paragraph(
            "In the tree as drawn they have other records among theirs, or theirs apart: the same sequences "
            "as another species, misidentified records, or hidden species?"
        )
        report.table(("Species",), [(name,) for name in apart], whole="taxonomy.tsv")
    report.section("Records in the order of the tree")
    rows = [tuple(row[key] for _, key in TAXONOMY) for row in read_jsonl(job.dir / "taxonomy.jsonl")]
    report.table(tuple(name for name, _ in TAXONOMY), rows, whole="taxonomy.tsv")
    left_out(report, job, REPORT_REASONS)
    told = f"Alignment: {alignment['how']}, {alignment['columns']} columns (alignment.fasta)."
    length = f"Total length of the tree: {100 * results['total_length']:.6g} %."
    how(report, job, lines=[told, length, *NOTES], formulas=FORMULAS, sources=SOURCES)
    facts = {
        "tips": results["tips"],
        "columns_compared": results["columns_compared"],
        "total_length_percent": 100 * results["total_length"],
        "negative_branches": results["negative"],
        "species_not_one_branch": len(apart),
    }
    finish(report, job, alignment=alignment, tree=facts, estimate=results["estimate"])


def draw(report: Report, job: Job) -> None:
    report.section("Tree")
    picture = job.work / "tree.svg"
    if not picture.exists():
        report.paragraph("The tree is too large for this page; tree.svg has it.")
        return
    report.figure(
        picture.read_text(encoding="utf-8"),
        "Rooted in the middle of the longest path, for the drawing only. Coloured: species that are not one "
        "branch. The same as a file: tree.svg; for programs: tree.nwk, tree.nex.",
    )


if __name__ == "__main__":
    run_stage(stage)
