"""Writes analysis_report.html and run.json, and takes away what the stages left for one another."""

from collections import Counter

from barcode import sections
from barcode.charts import bars
from barcode.job import Job, read_jsonl, run_stage

CONTENTS = {
    "fasta": "sequences, headers of record id and chosen fields",
    "tsv": "a column for each field, missing values empty, lists as JSON, no quoting",
    "jsonl": "the records byte for byte",
    "darwin_core": "Darwin Core archive: occurrence.txt and meta.xml",
    "xlsx": "one sheet, text as text",
    "parquet": "typed columns",
}
SOURCES = (
    "In tables a value is missing where it is null, empty, blank or None; tabs and line breaks within values "
    "are blanks in TSV and Darwin Core. Darwin Core terms follow BCDM's mapping; the README names where they "
    "differ."
)


def stage(job: Job) -> None:
    plan, columns, chosen = job.load("plan"), job.load("columns"), job.parameters
    written = job.load("written_text") | job.load("written_archives")
    report = sections.begin(
        job,
        f"{chosen['marker'] or 'all markers'} · {', '.join(plan['formats'])}",
        {"Fields": len(columns), "Files": len(plan["files"])},
    )
    report.section("Files")
    rows = [
        (plan["files"][name], written[name], (job.dir / plan["files"][name]).stat().st_size, CONTENTS[name])
        for name in plan["formats"]
    ]
    report.table(("File", "Records", "Bytes", "Contents"), rows)
    records = read_jsonl(job.dir / "records_used.jsonl")
    markers = Counter(record["marker_code"] or "no marker" for record in records).most_common(20)
    report.section("Markers")
    report.figure(bars(markers, x_label="records"), "Exported records by marker.")
    report.section("Fields")
    report.table(
        ("Field", "Kind"), columns, caption="As found; text where a field has values of several kinds."
    )
    sections.left_out(report, job, job.load("reasons"))
    sections.how(report, job, sources=SOURCES)
    files = {plan["files"][name]: {"records": count} for name, count in written.items()}
    sections.finish(report, job, estimate=plan["estimate"], files=files, fields=len(columns))


if __name__ == "__main__":
    run_stage(stage)
