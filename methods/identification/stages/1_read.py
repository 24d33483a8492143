"""Reads queries and library: the records of the job, or a part of them, or a reference beside them."""

import hashlib
from pathlib import Path
from typing import Any

from barcode.identify import RANKS
from barcode.job import Job, RefusalError, run_stage, write_jsonl
from barcode.judging import judge_all, markers_told
from barcode.reading import used_row
from barcode.records import Record, read_records
from barcode.reference import UnreadableError, as_json_lines
from barcode.selection import REASONS, LeftOut, Selector, Used
from barcode.sequences import strip
from barcode.taxa import clean_name

HIGHER = ("phylum", "class", "order", "subfamily")


def selector_of(job: Job) -> Selector:
    chosen = job.parameters
    return Selector(marker=chosen["marker"], min_length=chosen["min_length"], max_ambiguous_percent=None)


def row_of(job: Job, item: Used) -> dict[str, object]:
    row = used_row(item, exclude_interim=job.parameters["exclude_interim_names"])
    return {**row, **{rank: clean_name(item.record.text(rank)) for rank in HIGHER}}


def stage(job: Job) -> None:
    content, told = reference_of(job)
    code = job.parameters["reference_recordset"].strip()
    selector = selector_of(job)

    def role(record: Record) -> str:
        if content is not None:
            return "query"
        if not code:
            return "both"
        return "library" if code in record.array("bold_recordset_code_arr") else "query"

    roles = {"query": 0, "library": 0, "both": 0}
    named = dict.fromkeys(roles, 0)
    with (job.work / "sequences.txt").open("wb") as sequences:

        def row(item: Used) -> dict[str, object]:
            sequences.write(strip(item.letters).tobytes() + b"\n")
            part = role(item.record)
            made = {**row_of(job, item), "role": part}
            roles[part] += 1
            named[part] += has_name(made)
            return made

        left_out = judge_all(job, selector, row, REASONS)
    library = roles["library"] + roles["both"]
    source: dict[str, Any] = {"kind": told, "read": library, "left_out": {}}
    if content is not None:
        source |= read_reference(job, content)
        library = source["used"]
    job.save("source", source | {"used": library})
    refuse(job, selector, roles, library, f" Left out: {left_out}." if left_out else "")
    require_names(
        job, library, source["named"] if content is not None else named["library"] + named["both"], roles
    )


def has_name(row: dict[str, object]) -> bool:
    return any(row[rank] for rank in RANKS)


def require_names(job: Job, library: int, named: int, roles: dict[str, int]) -> None:
    """A library without a single name is a wrong file; the records of a job may have none."""
    if named:
        return
    told = f"Not one of the {library:,} library records has a name at any rank from species to phylum"
    if not roles["both"]:
        raise RefusalError(f"{told}, so nothing can be named. Is it the right file, with names in it?")
    job.note("warning", f"{told}: every query is without a match, however near its hits are.")


def reference_of(job: Job) -> tuple[bytes | None, str]:
    """The reference's content, or None where the records themselves are it; and what it is, in words."""
    chosen = job.parameters
    given = [name for name in ("reference", "reference_file", "reference_recordset") if chosen[name].strip()]
    if len(given) > 1:
        raise RefusalError(f"One reference is wanted, not {len(given)}: {', '.join(given)}.")
    if chosen["reference"].strip():
        content = chosen["reference"].encode("utf-8", "replace")
        return content, f"text of {len(content):,} bytes, SHA-256 {hashlib.sha256(content).hexdigest()[:16]}"
    if name := chosen["reference_file"].strip():
        content = file_of(job, name).read_bytes()
        return content, f"file {name}, SHA-256 {hashlib.sha256(content).hexdigest()[:16]}"
    if code := chosen["reference_recordset"].strip():
        return None, f"records of the job with the recordset code {code}"
    return None, "all records of the job, each identified by the others"


def file_of(job: Job, name: str) -> Path:
    if Path(name).name != name or name in {"records.jsonl", "params.json", ".", ".."}:
        raise RefusalError(f"reference_file is the name of one file, without a folder, not {name}.")
    folders = (job.dir, job.method_dir / "reference")
    for folder in folders:
        if (folder / name).is_file() and not (folder / name).is_symlink():
            return folder / name
    raise RefusalError(f"There is no reference file {name}, neither in the package nor with the method.")


def read_reference(job: Job, content: bytes) -> dict[str, Any]:
    """Writes library.jsonl, library_left_out.jsonl and work/library.txt."""
    beside, selector = job.work / "reference.jsonl", selector_of(job)
    try:
        with beside.open("wb") as file:
            file.writelines(as_json_lines(content, job.parameters["marker"]))
    except UnreadableError as error:
        raise RefusalError(f"The reference cannot be read: {error}.") from error
    rows, left_out = [], []
    with (job.work / "library.txt").open("wb") as sequences:
        for item in read_records(beside):
            found = selector.judge(item)
            if isinstance(found, LeftOut):
                left_out.append(found.as_json())
                continue
            sequences.write(strip(found.letters).tobytes() + b"\n")
            rows.append(row_of(job, found))
            job.progress(selector.used, selector.read, "reading the reference")
    write_jsonl(job.dir / "library.jsonl", rows)
    write_jsonl(job.dir / "library_left_out.jsonl", left_out)
    if left_out:
        told = "; ".join(f"{REASONS[reason]}: {count}" for reason, count in selector.counts.items())
        job.note(
            "note", f"Of the reference {len(left_out):,} of {selector.read:,} records are left out: {told}."
        )
    named = sum(map(has_name, rows))
    return {"read": selector.read, "used": len(rows), "named": named, "left_out": dict(selector.counts)}


def refuse(job: Job, selector: Selector, roles: dict[str, int], library: int, left_out: str) -> None:
    marker = job.parameters["marker"]
    if not roles["query"] + roles["both"]:
        raise RefusalError(
            f"Nothing can be identified: 0 of {selector.read} records can be used as queries."
            + left_out
            + markers_told(selector, marker)
        )
    code = job.parameters["reference_recordset"].strip()
    if not library and code:
        raise RefusalError(
            f"The library is empty: none of the {selector.used} records that can be used carries the "
            f"recordset code {code}." + left_out
        )
    if not library:
        raise RefusalError(
            f"The library is empty: no record of the reference can be used for {marker}."
            + (left_out if not job.parameters["reference"] else "")
        )
    if roles["both"] and library < 2:
        raise RefusalError(
            "Nothing can be identified: the one record that can be used would be its own library. Give a "
            "reference, or more records." + left_out
        )


if __name__ == "__main__":
    run_stage(stage)
