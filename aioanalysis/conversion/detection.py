"""Which kind of export a file is, told by its beginning."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from aioanalysis.conversion import fields, tables
from aioanalysis.domain.records import BOM
from aioanalysis.errors import Invalid

HEAD_BYTES: Final = 1024 * 1024
ROWS_LOOKED_AT: Final = 200


class Format(StrEnum):
    DATA_PACKAGE = "data-package"
    V4 = "v4"
    BOLDCONNECTR = "boldconnectr"
    FASTA = "fasta"
    BCDM = "bcdm"


# What is no text, or no list of records, and what to do about it.
OTHERS: Final = (
    (b"\xff\xfe", "UTF-16 text: save it as UTF-8"),
    (b"\xfe\xff", "UTF-16 text: save it as UTF-8"),
    (b"PK\x03\x04", "a zip file or a spreadsheet: unpack it, or save the sheet as tab-separated text"),
    (b"PAR1", "Parquet: write it as TSV or JSON Lines first"),
    (b"BZh", "compressed with bzip2: unpack it first"),
    (b"\xfd7zXZ", "compressed with xz: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it first"),
    (b"%PDF", "a PDF"),
)
V4_NAMES: Final = frozenset(fields.RENAMED_V4) - frozenset(fields.RENAMED)
R_NAMES: Final = frozenset({"country.ocean", "province.state"})
KNOWN: Final = (
    frozenset(fields.RENAMED)
    | frozenset(fields.RENAMED.values())
    | fields.INTEGERS
    | fields.NUMBERS
    | fields.LISTS
    | frozenset(
        {"processid", "record_id", "sampleid", "bin_uri", "marker_code", "species", "family", "coord"}
    )
)


def detect(head: bytes) -> Format:
    """The format of a file that begins with `head`; raises `Invalid` for one that is none of ours."""
    require_text(head)
    start = head.removeprefix(BOM).lstrip()
    if start.startswith(b"<"):
        raise Invalid("it is a page or XML, not records: perhaps an error that was saved as data")
    if start.startswith(b">"):
        return Format.FASTA
    if start.startswith(b"{"):
        return Format.BCDM
    if start.startswith(b"["):
        raise Invalid("it is one JSON array: write it as JSON Lines, one record a line")
    if not start:
        raise Invalid("it is empty")
    header, *rows = start.decode("latin-1").split("\n")
    return _of_table(header.rstrip("\r"), rows)


def require_text(head: bytes) -> None:
    """Raises `Invalid` for what is no text."""
    for magic, what in OTHERS:
        if head.startswith(magic):
            raise Invalid(f"it is {what}")
    if head[257:262] == b"ustar":
        raise Invalid("it is a tar archive: unpack it, and convert the .tsv within")
    if b"\0" in head:
        raise Invalid("it is no text")


def separator_of(header: str) -> str:
    """A tab if there is one, else a comma."""
    return "\t" if "\t" in header else ","


def names_of(header: str, separator: str) -> Sequence[str]:
    """The names in a header; raises `Invalid` for one whose quotes do not fit."""
    names = header.split(separator)
    if '"' in header:
        quoted = tables.fields(header, separator)
        if quoted is None:
            raise Invalid("the quotes in its header do not fit")
        names = quoted
    return [name.strip() for name in names]


def _of_table(header: str, rows: Sequence[str]) -> Format:
    separator = separator_of(header)
    names = set(names_of(header, separator))
    if len(names & V4_NAMES) >= 2:
        return Format.V4
    if "processid" not in names or len(names & KNOWN) < 2:
        what = ", ".join(sorted(names)[:5])[:200]
        raise Invalid(f"its first line names no columns of BOLD's exports, but {what!r}")
    if separator == "," or names & R_NAMES or _has_na(header, separator, rows):
        return Format.BOLDCONNECTR
    return Format.DATA_PACKAGE


def _has_na(header: str, separator: str, rows: Sequence[str]) -> bool:
    """Whether NA stands where no country code does, and None nowhere: that is how R says "nothing"."""
    names = names_of(header, separator)
    found = False
    for row in rows[:ROWS_LOOKED_AT]:
        for name, value in zip(names, row.rstrip("\r").split(separator), strict=False):
            if value == "None":
                return False
            found = found or (value.strip('"') == "NA" and name != "country_iso")
    return found
