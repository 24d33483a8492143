"""Decides which files are written; refuses what this image cannot write or Excel cannot hold."""

from importlib.util import find_spec

from barcode.job import Job, RefusalError, run_stage
from barcode.size import must_fit

FORMATS = {
    "fasta": "export.fasta",
    "tsv": "export.tsv",
    "jsonl": "export.jsonl",
    "darwin_core": "darwin_core.zip",
    "xlsx": "export.xlsx",
    "parquet": "export.parquet",
}
LIBRARIES = {"xlsx": "openpyxl", "parquet": "pyarrow"}
EXCEL_ROWS, EXCEL_COLUMNS = 1_048_575, 16_384
BASE_BYTES = 64 << 20
RECORD_BYTES = 500  # of each record in lists
BATCH_RECORDS = 2000
CELL_SECONDS = {"fasta": 0, "tsv": 5e-7, "jsonl": 0, "darwin_core": 1e-6, "xlsx": 2e-5, "parquet": 1e-6}
BYTE_SECONDS = 3e-8  # for one format


def stage(job: Job) -> None:
    wanted = [name for name in FORMATS if job.parameters[name]]
    if not wanted:
        raise RefusalError(f"No format is chosen; there are {', '.join(FORMATS)}.")
    for name in wanted:
        library = LIBRARIES.get(name)
        if library and find_spec(library) is None:
            others = " Choose other formats, or an image that has it."
            raise RefusalError(
                f"{FORMATS[name]} needs the Python library {library}, which is not here.{others}"
            )
    records, columns = job.load("selection")["used"], len(job.load("columns"))
    if "xlsx" in wanted and (records > EXCEL_ROWS or columns > EXCEL_COLUMNS):
        raise RefusalError(
            f"A sheet of Excel holds {EXCEL_ROWS:,} rows and {EXCEL_COLUMNS:,} columns; here are {records:,} "
            f"records of {columns:,} columns. Choose parquet or tsv."
        )
    size = (job.dir / "records.jsonl").stat().st_size
    needs = must_fit(
        job,
        f"{records:,} records of {columns:,} columns, {size / 2**20:,.1f} MiB, in {len(wanted)} formats",
        memory_bytes=BASE_BYTES
        + records * RECORD_BYTES
        + (min(1, BATCH_RECORDS / max(records, 1)) * size * 8 + (256 << 20) if "parquet" in wanted else 0),
        seconds=sum(CELL_SECONDS[name] * records * columns + BYTE_SECONDS * size for name in wanted),
    )
    output = int(size * 2 * len(wanted))
    most = int(job.method["limits"]["output_bytes"])
    if output > most:
        raise RefusalError(
            f"The files would have about {output / 2**30:,.1f} GiB, the method may write "
            f"{most / 2**30:,.1f} GiB. Choose fewer formats or records."
        )
    job.save(
        "plan", {"formats": wanted, "files": {name: FORMATS[name] for name in wanted}, "estimate": needs}
    )


if __name__ == "__main__":
    run_stage(stage)
