"""The parts that every report has, and run.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .job import Job, read_jsonl, to_json, versions
from .report import Report


def begin(job: Job, subtitle: str, facts: Mapping[str, object]) -> Report:
    """Title, counts of records and `facts`, and what the stages noted."""
    selection = job.load("selection")
    report = Report(job.method["label"], subtitle)
    report.facts(
        {
            "Records read": selection["read"],
            "Used": selection["used"],
            "Left out": selection["read"] - selection["used"],
            **facts,
        }
    )
    report.notes(job.notes())
    return report


def left_out(report: Report, job: Job, reasons: Mapping[str, str]) -> None:
    """How many were left out for each reason, and which."""
    counts = job.load("selection")["left_out"]
    report.section("Records left out")
    if not counts:
        report.paragraph("None: every record read was used.")
        return
    report.table(("Reason", "Records"), [(reasons[reason], count) for reason, count in counts.items()])
    rows = [
        (one["record_id"], one["line"], reasons[one["reason"]], one["detail"])
        for one in read_jsonl(job.dir / "records_left_out.jsonl")
    ]
    report.table(("Record", "Line", "Reason", "Detail"), rows, whole="records_left_out.jsonl")


def how(
    report: Report, job: Job, *, lines: Sequence[str] = (), formulas: str = "", sources: str = ""
) -> None:
    """Parameters in force, `lines` on what was done, formulas, where they come from, versions."""
    report.section("How it was done")
    rows = [(name, shortened(to_json(value).strip('"'))) for name, value in job.parameters.items()]
    report.table(("Parameter", "Value"), rows)
    for line in lines:
        report.paragraph(line)
    if formulas:
        report.preformatted(formulas)
    if sources:
        report.paragraph(sources, small=True)
    told = ", ".join(f"{name} {version}" for name, version in versions().items())
    report.paragraph(f"{job.method['label']} {job.method['version']}; {told}.", small=True)


def shortened(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:160]} ... ({len(text):,} characters)"


def finish(report: Report, job: Job, **facts: object) -> None:
    """The report, run.json with `facts` beside what every run has, and the work folder gone."""
    report.write(job.dir / "analysis_report.html")
    run = {
        "method": {"label": job.method["label"], "version": job.method["version"]},
        "parameters": job.parameters,
        "records": job.load("selection"),
        **facts,
        "notes": job.notes(),
        "versions": versions(),
    }
    (job.dir / "run.json").write_text(to_json(run) + "\n", encoding="utf-8")
    job.clear()
    print("analysis_report.html written")
