"""Writes analysis_report.html and run.json, and takes away what the stages left for one another."""

from typing import Any

import numpy as np
from barcode.composition import FIGURES
from barcode.groups import FIELDS
from barcode.job import Job, run_stage
from barcode.plots import Series, histograms
from barcode.report import Report
from barcode.sections import begin, finish, how, left_out
from barcode.selection import REASONS

FORMULAS = """known   A + C + G + T (U is T); N, other ambiguous letters and gaps are in no percentage
G %     100 G / known, and so C %, A %, T %
GC %    100 (G + C) / known; GC1, GC2, GC3 %: of the columns at codon position 1, 2, 3
mean    of the sequences' percentages; pooled: of all bases together, as base.freq and GC.content of ape
SE      standard deviation (n - 1) / square root of the number of sequences"""
NOTE = (
    "Codon positions follow the columns of alignment.fasta. In an alignment made here columns that fewer "
    "than half of the sequences have, of those that reach over them, are insertions and in no codon; of "
    "sequences as uploaded every column counts. Stop codons are looked for in codons of three known bases, "
    "by NCBI's genetic code."
)


def stage(job: Job) -> None:
    results, alignment = job.load("results"), job.load("alignment")
    first = results["first_codon_position"]
    told = f"first column: codon position {first}" if first else "no codon positions"
    pooled = results["pooled_counts"]
    bases = sum(pooled[base] for base in "ACGT")
    report = begin(
        job,
        f"{job.parameters['marker']} · {told}",
        {
            "Columns": results["columns"],
            "Known bases": bases,
            "N": pooled["N"],
            "Other ambiguous": pooled["other"],
            "Gaps": pooled["gap"],
        },
    )
    summary_table(report, results)
    pictures(report, job.load("records"), with_codons=bool(first))
    frame_table(report, job, results)
    group_table(report, job, with_codons=bool(first))
    left_out(report, job, REASONS)
    line = f"Alignment: {alignment['how']}, {alignment['columns']} columns (alignment.fasta)."
    how(report, job, lines=[line, NOTE], formulas=FORMULAS)
    facts = {key: value for key, value in results.items() if key not in {"estimate", "summary"}}
    facts["frames"] = [
        dict(zip(("first_codon_position", "stop_codons", "sequences_with_stop_codons"), one, strict=True))
        for one in results["frames"]
    ]
    finish(report, job, alignment=alignment, composition=facts, estimate=results["estimate"])


def summary_table(report: Report, results: dict[str, Any]) -> None:
    report.section("Composition")
    columns = ("", "Sequences", "Min %", "Mean %", "Max %", "SE %", "Pooled %")
    rows = [
        (figure, one["n"], *(one[key] for key in ("min", "mean", "max", "se")), results["pooled"][figure])
        for figure, one in results["summary"].items()
        if one["n"]
    ]
    report.table(
        columns,
        rows,
        digits=dict.fromkeys(columns[2:], 2),
        caption="Per cent of A, C, G and T. Mean: of the sequences; pooled: of all their bases together.",
    )


def pictures(report: Report, records: dict[str, Any], *, with_codons: bool) -> None:
    report.section("GC content")
    values = np.array(records["figures"], np.float64)
    names = ("GC", "GC1", "GC2", "GC3") if with_codons else ("GC",)
    labels = {"GC": "All positions", **{f"GC{n}": f"Codon position {n}" for n in (1, 2, 3)}}
    series = []
    for name, colour in zip(names, ("c1", "c2", "c3", "c4"), strict=False):
        column = values[:, FIGURES.index(name)]
        heights = np.bincount(column[~np.isnan(column)].astype(np.int64), minlength=101)
        series.append(Series(label=labels[name], heights=heights.tolist(), colour=colour))
    report.figure(
        histograms(series, bin_width=1, x_label="GC (%)", y_label="sequences"),
        "Sequences by their GC content, in bins of 1 %. The figures are in composition.tsv.",
    )


def frame_table(report: Report, job: Job, results: dict[str, Any]) -> None:
    if not results["frames"]:
        return
    report.section("Reading frame")
    report.table(
        ("Codon position of the first column", "Stop codons", "Sequences with stop codons", "Used"),
        [(*one, one[0] == results["first_codon_position"]) for one in results["frames"]],
        caption=f"By genetic code {job.parameters['genetic_code']}.",
    )


def group_table(report: Report, job: Job, *, with_codons: bool) -> None:
    by = job.parameters["group_by"]
    one, many = FIELDS[by]
    report.section(f"By {one}")
    groups = job.load("groups")
    if not groups:
        report.paragraph(f"No record has a {one}.")
        return
    names = FIGURES if with_codons else FIGURES[:5]
    columns = (one[0].upper() + one[1:], "n", *(f"{name} %" for name in names))
    rows = [(g["name"], g["sequences"], *(g[name]["mean"] for name in names)) for g in groups]
    report.table(
        columns,
        rows,
        digits=dict.fromkeys(columns[2:], 2),
        caption=f"Means of the sequences of each of the {many}; spreads are in groups.tsv.",
        whole="groups.tsv",
    )


if __name__ == "__main__":
    run_stage(stage)
