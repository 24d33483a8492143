"""Commands on files of records."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, Final

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from aioanalysis import conversion
from aioanalysis.cli import files
from aioanalysis.cli.output import print_json, print_table, progress
from aioanalysis.conversion.detection import HEAD_BYTES, Format, detect, require_text
from aioanalysis.conversion.findings import KINDS, Finding, Findings
from aioanalysis.conversion.rows import Record
from aioanalysis.errors import Invalid

RECORDSETS: Final = "bold_recordset_code_arr"
FIELDS_SHOWN: Final = 4
RECORDS_A_STEP: Final = 200

records = typer.Typer(help="Records on files.", no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class Converted:
    """What became of one file."""

    path: Path
    form: Format
    records: int
    findings: Findings

    def to_json(self) -> dict[str, Any]:
        return {
            "file": str(self.path),
            "format": str(self.form),
            "records": self.records,
            "unread": self.findings.unread,
            "counts": [
                {"kind": kind, "weight": str(KINDS[kind].weight), "field": field or None, "count": count}
                for (kind, field), count in sorted(self.findings.counts.items())
            ],
        }


@records.command()
def convert(
    inputs: Annotated[list[Path], typer.Argument(metavar="IN", help="Files to read, plain or gzip.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="OUT.jsonl, or OUT.jsonl.gz for gzip.")],
    form: Annotated[
        Format | None, typer.Option("--format", help="What the files are, if their beginning does not tell.")
    ] = None,
    marker: Annotated[
        str | None, typer.Option(help="Marker of FASTA sequences whose headers name none, e.g. COI-5P.")
    ] = None,
    recordset: Annotated[
        str | None, typer.Option(help="Code that every record gets, to tell files of one job apart.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="File for what was changed or not read, JSON Lines, a finding a line.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Convert exports of BOLD (data package, v4, BOLDconnectR, FASTA) to BCDM JSON Lines.

    Exits 1 when lines could not be read; what could be read is in the output all the same.
    """
    _require_apart(inputs, output, report)
    with ExitStack() as stack:
        sink = stack.enter_context(files.written(output))
        told = stack.enter_context(files.written(report)) if report else None
        bar = stack.enter_context(
            progress(
                TextColumn("{task.description}"),
                BarColumn(),
                DownloadColumn(),
                TimeRemainingColumn(),
                show=not as_json,
            )
        )
        done = [_convert(path, form, marker, recordset, sink, told, bar) for path in inputs]
    unread = sum(one.findings.unread for one in done)
    if as_json:
        total = sum(one.records for one in done)
        each = [one.to_json() for one in done]
        print_json({"output": str(output), "records": total, "unread": unread, "files": each})
    else:
        _print(done, output)
    if unread:
        if not as_json:
            where = f"; {report} names them" if report else "; --report FILE names them"
            print(f"aioanalysis: {unread} lines could not be read{where}", file=sys.stderr)
        raise typer.Exit(1)


def _convert(
    path: Path,
    form: Format | None,
    marker: str | None,
    recordset: str | None,
    sink: IO[bytes],
    told: IO[bytes] | None,
    bar: Progress,
) -> Converted:
    def tell(finding: Finding) -> None:
        if told is not None:
            line = json.dumps({"file": str(path), **finding.to_json()}, ensure_ascii=False)
            told.write(line.encode("utf-8", "replace") + b"\n")

    findings = Findings(tell)
    number = 0
    with _named(path):
        file = path.open("rb")
    with file:
        with _named(path):
            head, stream = files.opened(file, HEAD_BYTES)
            form = form or detect(head)
            require_text(head)
        task = bar.add_task(path.name, total=path.stat().st_size or None)
        for record in _guarded(path, conversion.records(stream, form, findings, marker=marker)):
            if recordset:
                codes = record.get(RECORDSETS) or []
                record[RECORDSETS] = [*codes, *({recordset} - set(codes))]
            sink.write(conversion.to_line(record))
            number += 1
            if number % RECORDS_A_STEP == 0:
                bar.update(task, completed=files.position(file))
        bar.update(task, completed=files.position(file))
    return Converted(path, form, number, findings)


def _guarded(path: Path, found: Iterator[Record]) -> Iterator[Record]:
    with _named(path):
        yield from found


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors of reading `path` as ours, with its name."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise Invalid(
            f"{path}: its gzip data is damaged or ends early ({error}); nothing was written"
        ) from None
    except OSError as error:
        raise Invalid(f"{path}: {error.strerror or error}") from None
    except Invalid as error:
        raise Invalid(f"{path} cannot be converted: {error}") from None


def _require_apart(inputs: list[Path], *outputs: Path | None) -> None:
    """Raises `Invalid` when a file would be written over another of the same command."""
    seen = {path.resolve() for path in inputs}
    for path in outputs:
        if path is None:
            continue
        if path.resolve() in seen:
            raise Invalid(f"{path} is named twice: it would be written over")
        seen.add(path.resolve())


def _print(done: list[Converted], output: Path) -> None:
    for one in done:
        print(f"{one.path}: {one.form}, {one.records} records, {one.findings.unread} lines not read")
    print(f"{sum(one.records for one in done)} records in {output}")
    counts: Counter[tuple[str, str]] = Counter()
    for one in done:
        counts.update(one.findings.counts)
    rows = [
        (str(KINDS[kind].weight), kind, str(_total(counts, kind)), KINDS[kind].meaning, _fields(counts, kind))
        for kind in KINDS
        if _total(counts, kind)
    ]
    if rows:
        print_table(("", "kind", "count", "meaning", "fields"), rows)


def _total(counts: Counter[tuple[str, str]], kind: str) -> int:
    return sum(count for (name, _), count in counts.items() if name == kind)


def _fields(counts: Counter[tuple[str, str]], kind: str) -> str:
    """The fields of a kind, the most frequent first."""
    found = [field for (name, field), _ in counts.most_common() if name == kind and field]
    return ", ".join(found[:FIELDS_SHOWN]) + (", ..." if len(found) > FIELDS_SHOWN else "")
