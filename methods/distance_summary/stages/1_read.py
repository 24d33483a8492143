"""Reads the records and decides which are used; records_used.jsonl and records_left_out.jsonl say so."""

from collections.abc import Iterator

from barcode.job import Job, RefusalError, run_stage, write_jsonl
from barcode.records import read_records
from barcode.selection import REASONS, LeftOut, Selector, Used
from barcode.sequences import ambiguous_percent, known_bases
from barcode.taxa import names_of


def used_row(item: Used, *, exclude_interim: bool) -> dict[str, object]:
    record, names = item.record, names_of(item.record, exclude_interim=exclude_interim)
    return {
        "record_id": record.record_id,
        "processid": record.processid,
        "sampleid": record.text("sampleid"),
        "line": record.line,
        "marker_code": record.marker,
        "species": names.species,
        "genus": names.genus,
        "family": names.family,
        "identification": record.text("identification"),
        "bin_uri": record.text("bin_uri"),
        "known_bases": known_bases(item.letters),
        "ambiguous_percent": round(ambiguous_percent(item.letters), 4),
    }


def stage(job: Job) -> None:
    chosen = job.parameters
    selector = Selector(
        marker=chosen["marker"],
        min_length=chosen["min_length"],
        max_ambiguous_percent=chosen["max_ambiguous_percent"],
    )
    left_out: list[LeftOut] = []

    def used() -> Iterator[dict[str, object]]:
        with (job.work / "sequences.txt").open("wb") as sequences:
            for item in map(selector.judge, read_records(job.dir / "records.jsonl")):
                if isinstance(item, LeftOut):
                    left_out.append(item)
                    continue
                sequences.write(item.letters.tobytes() + b"\n")
                job.progress(selector.used, selector.read, "reading records")
                yield used_row(item, exclude_interim=chosen["exclude_interim_names"])

    write_jsonl(job.dir / "records_used.jsonl", used())
    write_jsonl(job.dir / "records_left_out.jsonl", (item.as_json() for item in left_out))
    counts = {reason: selector.counts[reason] for reason in REASONS if selector.counts[reason]}
    job.save(
        "selection",
        {
            "read": selector.read,
            "used": selector.used,
            "left_out": counts,
            "other_markers": dict(selector.other_markers.most_common()),
        },
    )
    told = "; ".join(f"{REASONS[reason]}: {count}" for reason, count in counts.items())
    print(f"{selector.read} records read, {selector.used} used" + (f"; left out: {told}" if told else ""))
    if selector.used < 2:
        raise RefusalError(
            f"Nothing can be compared: {selector.used} of {selector.read} records can be used, 2 are needed."
            + (f" Left out: {told}." if told else "")
            + markers_told(selector)
        )
    notes(job, selector)


def markers_told(selector: Selector) -> str:
    if not selector.other_markers:
        return ""
    found = ", ".join(f"{marker} ({count})" for marker, count in selector.other_markers.most_common(10))
    return f" The marker asked for is {selector.marker}; other markers found: {found}."


def notes(job: Job, selector: Selector) -> None:
    if selector.other_markers:
        job.note("note", "A run compares one marker." + markers_told(selector))
    if bad := selector.counts["bad_line"]:
        job.note("warning", f"Lines that are no records: {bad}; records_left_out.jsonl names them.")
    if twice := selector.counts["duplicate"]:
        job.note("warning", f"Records that repeat a record_id: {twice}; the first of each was kept.")
    if selector.unexpected_letters:
        job.note(
            "warning",
            f"Letters in sequences that are no nucleotides, read as N: {selector.unexpected_letters}.",
        )


if __name__ == "__main__":
    run_stage(stage)
