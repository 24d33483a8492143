"""Writes darwin_core.zip, export.xlsx and export.parquet."""

import io
import re
import zipfile
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
from barcode.darwin_core import TERMS, meta_xml, occurrence
from barcode.export import as_cell, chosen_records
from barcode.job import Job, run_stage
from barcode.records import Record, is_missing
from barcode.tables import cell

EXCEL_LETTERS = 32_767
EXCEL_EXACT = 1 << 53
ILLEGAL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
BATCH = 2000


def stage(job: Job) -> None:
    lines, wanted = np.load(job.work / "lines.npy").tolist(), job.load("plan")["formats"]
    writers = {"darwin_core": darwin_core, "xlsx": xlsx, "parquet": parquet}
    written = {}
    for name, write in writers.items():
        if name in wanted:
            write(job, lines)
            written[name] = len(lines)
    job.save("written_archives", written)
    print(", ".join(f"{name}: {count:,} records" for name, count in written.items()) or "no archive format")


def records_of(job: Job, lines: list[int], message: str) -> Iterator[Record]:
    for number, record in enumerate(chosen_records(job.dir / "records.jsonl", lines), 1):
        job.progress(number, len(lines), message)
        yield record


def darwin_core(job: Job, lines: list[int]) -> None:
    """The same records give the same bytes: members carry the zip format's first day."""
    with zipfile.ZipFile(job.dir / "darwin_core.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member("meta.xml"), meta_xml())
        with archive.open(member("occurrence.txt"), "w", force_zip64=True) as raw:
            file = io.TextIOWrapper(raw, encoding="utf-8", newline="\n")
            file.write("\t".join(TERMS) + "\n")
            for record in records_of(job, lines, "writing Darwin Core"):
                file.write("\t".join(map(cell, occurrence(record))) + "\n")
            file.flush()
            file.detach()


def member(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    return info


def xlsx(job: Job, lines: list[int]) -> None:
    """One sheet; text stays text, whatever it begins with."""
    from openpyxl import Workbook
    from openpyxl.cell import WriteOnlyCell

    columns = job.load("columns")
    book = Workbook(write_only=True)
    sheet = book.create_sheet("records")
    sheet.freeze_panes = "B2"
    too_long = 0

    def text_cell(text: str) -> Any:
        made = WriteOnlyCell(sheet, ILLEGAL.sub("\ufffd", text))
        made.data_type = "s"
        return made

    def excel_cell(value: object) -> Any:
        nonlocal too_long
        if isinstance(value, float) or (isinstance(value, int) and abs(value) <= EXCEL_EXACT):
            return value
        text = as_cell(value)
        if text is not None and len(text) > EXCEL_LETTERS:
            too_long += 1
            text = f"[{len(text)} characters, more than a cell of Excel holds: see the other formats]"
        return None if text is None else text_cell(text)

    sheet.append([text_cell(name) for name, _ in columns])
    for record in records_of(job, lines, "writing Excel"):
        sheet.append([excel_cell(record.values.get(name)) for name, _ in columns])
    book.save(job.dir / "export.xlsx")
    if too_long:
        job.note(
            "warning",
            f"Values of more than {EXCEL_LETTERS:,} characters, which Excel cannot hold: {too_long}; "
            "export.xlsx says how long they are instead.",
        )


def parquet(job: Job, lines: list[int]) -> None:
    """Numbers where all values of a column are numbers, else text; lists and objects as JSON."""
    import pyarrow
    from pyarrow import parquet as files

    columns = job.load("columns")
    types = {
        "int": pyarrow.int64(), "float": pyarrow.float64(), "bool": pyarrow.bool_(), "text": pyarrow.string()
    }  # fmt: skip
    schema = pyarrow.schema([(name, types[kind]) for name, kind in columns])
    records = records_of(job, lines, "writing Parquet")
    with files.ParquetWriter(job.dir / "export.parquet", schema) as writer:
        while batch := list(islice(records, BATCH)):
            arrays = [
                pyarrow.array([typed(one.values.get(name), kind) for one in batch], types[kind])
                for name, kind in columns
            ]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))


def typed(value: Any, kind: str) -> Any:
    if is_missing(value):
        return None
    if kind == "text":
        return as_cell(value)
    return float(value) if kind == "float" else value


if __name__ == "__main__":
    run_stage(stage)
