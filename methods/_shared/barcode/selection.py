"""Which records an analysis uses, and why the others are left out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .records import BadLine, Record
from .sequences import Bytes, ambiguous_percent, known_bases, read_sequence, unexpected

# In the order in which they are looked at: a record is left out for the first that fits.
REASONS = {
    "bad_line": "the line is no record",
    "duplicate": "the same record_id came before; the first was kept",
    "no_marker": "no marker is named",
    "other_marker": "another marker",
    "no_sequence": "no sequence",
    "no_known_base": "not one A, C, G or T in the sequence",
    "too_short": "fewer known bases than min_length",
    "too_ambiguous": "more ambiguous letters than max_ambiguous_percent",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    record_id: str | None
    processid: str | None
    line: int
    reason: str
    detail: str

    def as_json(self) -> dict[str, object]:
        return {
            "record_id": self.record_id,
            "processid": self.processid,
            "line": self.line,
            "reason": self.reason,
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True)
class Used:
    record: Record
    letters: Bytes


class Selector:
    """Judges records one after the other; `counts` holds how many were left out for each reason."""

    def __init__(self, *, marker: str, min_length: int, max_ambiguous_percent: float | None) -> None:
        self.marker, self.min_length, self.max_ambiguous = marker, min_length, max_ambiguous_percent
        self.seen: dict[str, int] = {}
        self.counts: Counter[str] = Counter()
        self.other_markers: Counter[str] = Counter()
        self.read = self.used = self.unexpected_letters = 0

    def judge(self, item: Record | BadLine) -> Used | LeftOut:
        self.read += 1
        if isinstance(item, BadLine):
            self.counts["bad_line"] += 1
            return LeftOut(record_id=None, processid=None, line=item.line, reason="bad_line", detail=item.why)
        found = self.fault(item)
        if isinstance(found, Used):
            self.used += 1
            return found
        reason, detail = found
        self.counts[reason] += 1
        return LeftOut(
            record_id=item.record_id, processid=item.processid, line=item.line, reason=reason, detail=detail
        )

    def fault(self, record: Record) -> Used | tuple[str, str]:
        first = self.seen.setdefault(record.record_id, record.line)
        if first != record.line:
            return "duplicate", f"line {first} has the same record_id"
        marker = record.marker
        if marker is None:
            return "no_marker", ""
        if marker.casefold() != self.marker.casefold():
            self.other_markers[marker] += 1
            return "other_marker", marker
        text = record.sequence
        if text is None:
            return "no_sequence", record.not_a_sequence or ""
        letters = read_sequence(text)
        known = known_bases(letters)
        if not known:
            return "no_known_base", f"{letters.size} letters"
        if known < self.min_length:
            return "too_short", f"{known} known bases, {self.min_length} wanted"
        if self.max_ambiguous is not None and (percent := ambiguous_percent(letters)) > self.max_ambiguous:
            return "too_ambiguous", f"{percent:.4g} % ambiguous, at most {self.max_ambiguous:g} % wanted"
        self.unexpected_letters += unexpected(text)
        return Used(record, letters)
