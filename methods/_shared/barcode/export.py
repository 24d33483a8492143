"""Records as rows of cells: which columns there are, of which kind, and values as text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .records import BOM, Record, is_missing, read_records
from .sequences import read_sequence, unexpected

# BCDM's order of fields; other keys follow by name.
_IN_ORDER = """
record_id processid sampleid fieldid museumid specimenid processid_minted_date bin_uri
bin_created_date collection_code inst sovereign_inst taxid kingdom phylum class order family
subfamily tribe genus species subspecies species_reference identification identification_method
identification_rank identified_by identifier_email taxonomy_notes sex reproduction life_stage
short_note notes voucher_type tissue_type specimen_linkout associated_specimens associated_taxa
collectors collection_date_start collection_date_end collection_event_id collection_time
collection_notes geoid country/ocean country_iso province/state region sector site site_code coord
coord_accuracy coord_source elev elev_accuracy depth depth_accuracy habitat sampling_protocol
ecoregion biome realm marker_code nuc nuc_basecount insdc_acs funding_src primers_forward
primers_reverse sequence_run_site sequence_upload_date bold_recordset_code_arr
"""
FIELDS = _IN_ORDER.split()
INT64 = 1 << 63


class Columns:
    """Gathers which columns the records have and what their values are: int, float, bool or text."""

    def __init__(self) -> None:
        self.kinds: dict[str, set[str]] = {}

    def add(self, values: dict[str, Any]) -> None:
        for key, value in values.items():
            kinds = self.kinds.setdefault(key, set())
            if not is_missing(value):
                kinds.add(kind_of(value))

    def ordered(self) -> list[tuple[str, str]]:
        """Name and kind of each column."""
        place = {name: n for n, name in enumerate(FIELDS)}
        names = sorted(self.kinds, key=lambda name: (place.get(name, len(place)), name))
        return [(name, joint(self.kinds[name])) for name in names]


def kind_of(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int" if -INT64 <= value < INT64 else "text"
    return "float" if isinstance(value, float) else "text"


def joint(kinds: set[str]) -> str:
    if len(kinds) == 1:
        return next(iter(kinds))
    return "float" if kinds == {"int", "float"} else "text"


def as_cell(value: object) -> str | None:
    """Text as it is; lists and objects as JSON; None where missing."""
    if is_missing(value):
        return None
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(value, ensure_ascii=True)


def chosen_records(path: Path, lines: Iterable[int]) -> Iterator[Record]:
    """The records of these lines, in order."""
    wanted = set(lines)
    return (item for item in read_records(path) if isinstance(item, Record) and item.line in wanted)


def chosen_lines(path: Path, lines: Iterable[int]) -> Iterator[bytes]:
    """These lines byte for byte, without a byte order mark and line ends."""
    wanted = set(lines)
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if number in wanted:
                yield (line.removeprefix(BOM) if number == 1 else line).strip()


class Headers:
    """FASTA headers: the record's id, then the fields asked for, joined by `|`; no blanks, every id once."""

    def __init__(self, fields: list[str]) -> None:
        self.fields = [field for field in fields if field != "record_id"]
        self.seen: dict[str, int] = {}
        self.changed = 0

    def of(self, record: Record) -> str:
        own = part(record.record_id)
        count = self.seen[own] = self.seen.get(own, 0) + 1
        if count > 1:
            self.changed += 1
            own = f"{own}.{count}"
            self.seen[own] = 1
        return "|".join([own, *(part(record.text(field) or "") for field in self.fields)])


def part(text: str) -> str:
    """Blanks, line breaks, control characters, `|` and `>` become `_`, several together one."""
    return "_".join("".join(c if c.isprintable() and c not in "|>" else " " for c in text).split())


def fasta_letters(record: Record, *, gaps: bool) -> tuple[str, int]:
    """The sequence as submitted, blanks removed, and how many of its characters were no letters (now N)."""
    text = record.sequence
    if text is None:
        return "", 0
    odd = unexpected(text)
    text = "".join(text.split())
    if odd:
        text = read_sequence(text).tobytes().decode("ascii")
    return (text if gaps else text.translate(str.maketrans("", "", "-.~"))), odd
