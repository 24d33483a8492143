"""Which records count where no sequence is needed: one for each specimen (processid), the others with why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from .records import BadLine, Record
from .selection import LeftOut

REASONS = {
    "bad_line": "the line is no record",
    "duplicate": "the same record_id came before; the first was kept",
    "same_processid": "another record of the same processid came before; a specimen counts once",
}


class SpecimenSelector:
    """`fault` names the reason and detail for which a record cannot be used, or None.

    The first usable record of a processid counts; a record without a processid stands for itself.
    """

    def __init__(self, fault: Callable[[Record], tuple[str, str] | None], *, once: bool = True) -> None:
        self.fault, self.once = fault, once
        self.seen: dict[str, int] = {}
        self.specimens: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        self.other_markers: Counter[str] = Counter()
        self.read = self.used = 0

    def judge(self, item: Record | BadLine) -> Record | LeftOut:
        self.read += 1
        if isinstance(item, BadLine):
            self.counts["bad_line"] += 1
            return LeftOut(record_id=None, processid=None, line=item.line, reason="bad_line", detail=item.why)
        found = self.why_not(item)
        if found is None:
            self.used += 1
            return item
        reason, detail = found
        self.counts[reason] += 1
        return LeftOut(
            record_id=item.record_id, processid=item.processid, line=item.line, reason=reason, detail=detail
        )

    def why_not(self, record: Record) -> tuple[str, str] | None:
        first = self.seen.setdefault(record.record_id, record.line)
        if first != record.line:
            return "duplicate", f"line {first} has the same record_id"
        if found := self.fault(record):
            return found
        process = record.processid
        if self.once and process:
            before = self.specimens.setdefault(process, record.record_id)
            if before != record.record_id:
                return "same_processid", f"{before} counts for {process}"
        return None
