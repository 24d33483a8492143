"""Writes export.fasta, export.tsv and export.jsonl."""

from collections.abc import Iterator

import numpy as np
from barcode.export import Headers, as_cell, chosen_lines, chosen_records, fasta_letters
from barcode.job import Job, run_stage
from barcode.tables import write_tsv


def stage(job: Job) -> None:
    lines, wanted = np.load(job.work / "lines.npy").tolist(), job.load("plan")["formats"]
    written = {}
    if "fasta" in wanted:
        written["fasta"] = fasta(job, lines)
    if "tsv" in wanted:
        written["tsv"] = write_tsv(job.dir / "export.tsv", *tsv(job, lines))
    if "jsonl" in wanted:
        with (job.dir / "export.jsonl").open("wb") as file:
            file.writelines(line + b"\n" for line in chosen_lines(job.dir / "records.jsonl", lines))
        written["jsonl"] = len(lines)
    job.save("written_text", written)
    print(", ".join(f"{name}: {count:,} records" for name, count in written.items()) or "no text format")


def fasta(job: Job, lines: list[int]) -> int:
    fields = [field.strip() for field in job.parameters["fasta_header"].split(",") if field.strip()]
    headers, gaps = Headers(fields), job.parameters["fasta_gaps"] == "keep"
    written = odd_letters = 0
    no_text: list[str] = []
    with (job.dir / "export.fasta").open("w", encoding="utf-8", newline="\n") as file:
        for record in chosen_records(job.dir / "records.jsonl", lines):
            letters, odd = fasta_letters(record, gaps=gaps)
            odd_letters += odd
            if letters:
                file.write(f">{headers.of(record)}\n{letters}\n")
                written += 1
                job.progress(written, len(lines), "writing FASTA")
            elif found := record.not_a_sequence:
                no_text.append(f"{record.record_id} ({found})")
    if without := len(lines) - written:
        job.note(
            "note", f"Records without a sequence, in all files but FASTA: {without:,} of {len(lines):,}."
        )
    if no_text:
        told = ", ".join(no_text[:10]) + (", ..." if len(no_text) > 10 else "")
        job.note("warning", f"Records whose sequence is no text, not in FASTA: {len(no_text):,}: {told}.")
    if odd_letters:
        job.note("warning", f"Letters in sequences that are no nucleotides, N in FASTA: {odd_letters:,}.")
    if headers.changed:
        job.note(
            "warning",
            f"Record ids that are alike without blanks, made different in FASTA: {headers.changed}.",
        )
    return written


def tsv(job: Job, lines: list[int]) -> tuple[list[str], Iterator[list[str | None]]]:
    names = [name for name, _ in job.load("columns")]

    def rows() -> Iterator[list[str | None]]:
        for number, record in enumerate(chosen_records(job.dir / "records.jsonl", lines), 1):
            job.progress(number, len(lines), "writing TSV")
            yield [as_cell(record.values.get(name)) for name in names]

    return [" ".join(name.split()) or "unnamed" for name in names], rows()


if __name__ == "__main__":
    run_stage(stage)
