"""What a conversion has to tell: kinds of findings, how grave they are, their number and their places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

QUOTED_TEXT: Final = 200


class Weight(StrEnum):
    """How grave a finding is."""

    UNREAD = "unread"  # a line that is not in the output
    DOUBT = "doubt"  # kept as it is, but look at it
    CHANGE = "change"  # the output says it otherwise than the input
    ROUTINE = "routine"  # what every conversion does: counted, not listed


@dataclass(frozen=True, slots=True)
class Kind:
    weight: Weight
    meaning: str


U, D, C, R = Weight.UNREAD, Weight.DOUBT, Weight.CHANGE, Weight.ROUTINE
KINDS: Final[Mapping[str, Kind]] = {
    "columns": Kind(U, "another number of columns than the header has"),
    "encoding": Kind(U, "not UTF-8"),
    "too_long": Kind(U, "longer than a record may be"),
    "not_json": Kind(U, "not a JSON object"),
    "not_fasta": Kind(U, "neither a FASTA header nor a sequence under one"),
    "cut_off": Kind(D, "the last line has no end: it may have been cut off"),
    "no_id": Kind(D, "no process id"),
    "not_a_number": Kind(D, "not a number: kept as text"),
    "not_a_list": Kind(D, "not a list: kept as text"),
    "not_coordinates": Kind(D, "not a latitude and a longitude: kept as text"),
    "half_coordinates": Kind(D, "a latitude or a longitude alone: kept in its own field"),
    "outside_globe": Kind(D, "coordinates that no place has: kept"),
    "odd_characters": Kind(D, "a sequence with characters that are no nucleotide codes: kept"),
    "empty_sequence": Kind(D, "a header without a sequence: a record without nuc"),
    "two_values": Kind(D, "two columns for one field disagree: the second kept under its own name"),
    "double_encoded": Kind(D, "text that was encoded twice: kept as it is"),
    "na_or_namibia": Kind(D, "NA as country code, with no country beside it: kept"),
    "damaged_export": Kind(D, "the portal's TSV, which damages ids and numbers: download JSON instead"),
    "latin1": Kind(C, "not UTF-8: read as ISO-8859-1"),
    "whole_number": Kind(C, "a whole number written with a fraction or exponent: written without"),
    "not_finite": Kind(C, "NaN or infinity: left out"),
    "rejoined": Kind(C, "an unquoted row with commas in its values: put together again"),
    "blank_columns": Kind(C, "empty columns beyond the header's: left out"),
    "repeated_header": Kind(C, "the header again: left out"),
    "column_renamed": Kind(C, "a column without a name, or with one that is taken: given another"),
    "missing": Kind(R, "a value that says it is missing: left out"),
    "renamed": Kind(R, "an older name of a field: given the present one"),
    "derived": Kind(R, "a field worked out from others"),
    "assumed": Kind(R, "a field that was given for all records"),
    "no_marker": Kind(R, "no marker known: methods that select one leave the record out; see --marker"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One finding at its place; lines count from 1."""

    kind: str
    line: int
    field: str | None = None
    value: str | None = None
    detail: str | None = None

    @property
    def weight(self) -> Weight:
        return KINDS[self.kind].weight

    def to_json(self) -> dict[str, str | int]:
        texts = {"field": self.field, "value": self.value, "detail": self.detail}
        return {
            "line": self.line,
            "weight": str(self.weight),
            "kind": self.kind,
            **{name: text for name, text in texts.items() if text is not None},
        }


class Findings:
    """Counts findings by kind and field, and passes each that has a place on to `tell`."""

    def __init__(self, tell: Callable[[Finding], None] | None = None) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._tell = tell

    def add(
        self,
        kind: str,
        line: int,
        *,
        field: str | None = None,
        value: str | None = None,
        detail: str | None = None,
    ) -> None:
        self.counts[kind, field or ""] += 1
        if self._tell is not None:
            quoted = None if value is None else value[:QUOTED_TEXT]
            self._tell(Finding(kind=kind, line=line, field=field, value=quoted, detail=detail))

    def count(self, kind: str, field: str = "", number: int = 1) -> None:
        """Count what is routine, without a place."""
        self.counts[kind, field] += number

    @property
    def unread(self) -> int:
        return sum(n for (kind, _), n in self.counts.items() if KINDS[kind].weight is Weight.UNREAD)
