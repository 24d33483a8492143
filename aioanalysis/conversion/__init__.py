"""Records out of the exports that BOLD and its tools make: BCDM objects, and what there is to say of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO

from aioanalysis.conversion import fasta, jsonlines
from aioanalysis.conversion.detection import Format, names_of, separator_of
from aioanalysis.conversion.fields import LISTS_V4, NA_IS_MISSING_V4, RENAMED, RENAMED_V4
from aioanalysis.conversion.findings import Findings
from aioanalysis.conversion.lines import Line, read_lines
from aioanalysis.conversion.rejoin import rejoin
from aioanalysis.conversion.rows import Dialect, Record, RecordMaker
from aioanalysis.conversion.tables import Rows
from aioanalysis.errors import Invalid

DIALECTS = {
    Format.DATA_PACKAGE: Dialect(renamed=RENAMED),
    Format.V4: Dialect(renamed=RENAMED_V4, lists=LISTS_V4, na_in=NA_IS_MISSING_V4),
    Format.BOLDCONNECTR: Dialect(renamed=RENAMED, na=True),
}
LATIN1 = frozenset({Format.V4, Format.FASTA})
UNICODE = json.JSONEncoder(sort_keys=True, allow_nan=False, ensure_ascii=False)
ASCII = json.JSONEncoder(sort_keys=True, allow_nan=False)
PORTAL_NAMES = frozenset({"pre_md5hash", "marker_count"})


def records(
    stream: BinaryIO, form: Format, findings: Findings, *, marker: str | None = None
) -> Iterator[Record]:
    """The records in `stream`, one at a time; `marker` is that of FASTA headers without one.

    Lines that cannot be read are in `findings` and nowhere else. Raises `Invalid` for a table without the
    columns that records need.
    """
    lines = read_lines(stream, findings, latin1=form in LATIN1, ends=form in DIALECTS)
    if form is Format.FASTA:
        yield from fasta.records(lines, findings, marker=marker)
    elif form is Format.BCDM:
        yield from jsonlines.records(lines, findings)
    else:
        yield from _of_table(lines, DIALECTS[form], findings)


def to_line(record: Record) -> bytes:
    """A record as canonical JSON Lines has it: sorted keys, UTF-8, one line."""
    try:
        return UNICODE.encode(record).encode("utf-8") + b"\n"
    except UnicodeEncodeError:  # a lone surrogate, which JSON can escape and UTF-8 cannot hold
        return ASCII.encode(record).encode("ascii") + b"\n"


def _of_table(lines: Iterator[Line], dialect: Dialect, findings: Findings) -> Iterator[Record]:
    header = next((line for line in lines if line.text.strip()), None)
    if header is None:
        raise Invalid("it is empty")
    separator = separator_of(header.text)
    names = names_of(header.text, separator)
    if "processid" not in names:
        raise Invalid("its first line names no column `processid`")
    if PORTAL_NAMES & set(names):
        findings.add("damaged_export", header.number)
    maker = RecordMaker(names, dialect, findings)
    fields: Any = [dialect.renamed.get(name, name) for name in names]
    for line, row in Rows(lines, header, names, separator, findings, partial(rejoin, fields)):
        yield maker.record(line, row)
