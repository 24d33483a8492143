"""From a row of a table to a BCDM record: names, types, what is missing, what can be worked out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aioanalysis.conversion import fields, values
from aioanalysis.conversion.findings import Findings
from aioanalysis.conversion.values import Read

Reader = Callable[[str], Read]
Record = dict[str, Any]
NAMIBIA: Final = "Namibia"
NA: Final = "NA"


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """What one kind of export means: its names, and where NA says that a value is missing.

    `na` is whether NA is missing everywhere but in country codes, `na_in` the columns of others.
    """

    renamed: Mapping[str, str]
    lists: frozenset[str] = frozenset()
    na: bool = False
    na_in: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the file at `place`; `field` is what it is called in BCDM."""

    place: int
    name: str
    field: str
    read: Reader


def reader_of(field: str) -> Reader:
    """How values of a field are read; one that BCDM does not know is text."""
    if field in fields.INTEGERS:
        return values.integer
    if field in fields.NUMBERS:
        return values.number
    if field in fields.LISTS:
        return values.strings
    return {fields.COORD: values.coord, fields.NUC: values.nucleotides}.get(field, values.text)


class RecordMaker:
    """Makes records of the rows of one table."""

    def __init__(self, header: Sequence[str], dialect: Dialect, findings: Findings) -> None:
        self._dialect = dialect
        self._findings = findings
        columns = [self._column(place, name) for place, name in enumerate(_unique(header, findings))]
        # Of two columns for one field the one with BCDM's own name counts, wherever it stands.
        self._columns = sorted(columns, key=lambda column: column.name != column.field)
        self._names = {column.name for column in columns}
        self._country = next((c.place for c in self._columns if c.field == "country/ocean"), None)

    def record(self, line: int, row: Sequence[str]) -> Record:
        record: Record = {}
        taken: dict[str, str] = {}  # of the fields that have a value: the text it came from
        for column in self._columns:
            text = row[column.place]
            if values.is_missing(text) or (text == NA and self._na_is_missing(column.name, line, row)):
                self._findings.count("missing", column.field)
            elif column.field not in taken:
                taken[column.field] = text
                self._read(record, column, text, line)
            elif taken[column.field] != text:
                record[column.name] = text
                self._findings.add("two_values", line, field=column.name, value=text)
        self._place(record, line)
        self._derive(record, line)
        return record

    def _column(self, place: int, name: str) -> Column:
        field = self._dialect.renamed.get(name, name)
        read = values.barred if name in self._dialect.lists else reader_of(field)
        return Column(place, name, field, read)

    def _na_is_missing(self, name: str, line: int, row: Sequence[str]) -> bool:
        if name in self._dialect.na_in:
            return True
        return self._dialect.na and (name != "country_iso" or not self._may_be_namibia(line, row))

    def _may_be_namibia(self, line: int, row: Sequence[str]) -> bool:
        """R writes NA for a country code that is missing and for Namibia's: the country tells which."""
        if self._country is None:
            self._findings.add("na_or_namibia", line, field="country_iso")
            return True
        return row[self._country].strip() == NAMIBIA

    def _read(self, record: Record, column: Column, text: str, line: int) -> None:
        if column.name != column.field:
            self._findings.count("renamed", f"{column.name} → {column.field}")
        if column.read is values.text and text.isascii():  # most values of most files
            record[column.field] = text
            return
        value, kind = column.read(text)
        if value is not None:
            record[column.field] = value
        if kind == "missing":
            self._findings.count(kind, column.field)
        elif kind is not None:
            self._findings.add(kind, line, field=column.field, value=text)

    def _place(self, record: Record, line: int) -> None:
        """Coordinates of columns of their own, as v3 and v4 have them."""
        latitude, longitude = record.get("lat"), record.get("lon")
        if not {"lat", "lon"} <= self._names or (latitude is None and longitude is None):
            return
        if latitude is None or longitude is None:
            self._findings.add("half_coordinates", line, field="coord", value=latitude or longitude)
            return
        text = f"{latitude},{longitude}"
        found, kind = values.located(latitude, longitude, text=text)
        if kind is not None:
            self._findings.add(kind, line, field="coord", value=text)
        if kind != "not_coordinates" and "coord" not in record:
            record["coord"] = found
            del record["lat"], record["lon"]

    def _derive(self, record: Record, line: int) -> None:
        if "identification" not in record and "species_name" in self._names:
            rank = next((rank for rank in fields.RANKS if rank in record), None)
            if rank is not None:
                record["identification"], record["identification_rank"] = record[rank], rank
                self._findings.count("derived", "identification")
                self._take_taxid(record, rank)
        complete(record, line, self._findings)

    def _take_taxid(self, record: Record, rank: str) -> None:
        taxid = values.integer(record.get(f"{rank}_taxID", ""))
        if isinstance(taxid.value, int) and "taxid" not in record:
            record["taxid"] = taxid.value
            self._findings.count("derived", "taxid")


def complete(record: Record, line: int, findings: Findings) -> None:
    """Add the ids and the count that follow from other fields."""
    process, marker, nuc = record.get("processid"), record.get("marker_code"), record.get("nuc")
    if process is None:
        findings.add("no_id", line)
    elif marker is not None and "record_id" not in record:
        record["record_id"] = f"{process}.{marker}"
        findings.count("derived", "record_id")
    if isinstance(nuc, str) and "nuc_basecount" not in record:
        record["nuc_basecount"] = values.base_count(nuc)
        findings.count("derived", "nuc_basecount")


def _unique(header: Sequence[str], findings: Findings) -> list[str]:
    """The names of the columns, each once and none empty."""
    names: list[str] = []
    for number, name in enumerate(header, 1):
        given = name.strip() or f"column_{number}"
        while given in names:
            given = f"{given}.{number}"
        if given != name.strip():
            findings.add("column_renamed", 1, field=given, value=name)
        names.append(given)
    return names
