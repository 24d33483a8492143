"""Conversion of bytes, for its tests."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aioanalysis import conversion
from aioanalysis.conversion.detection import Format, detect
from aioanalysis.conversion.findings import KINDS, Finding, Findings, Weight


@dataclass(frozen=True)
class Result:
    """The records of some bytes, and what was found."""

    records: list[dict[str, Any]]
    listed: list[Finding]
    findings: Findings

    @property
    def told(self) -> list[tuple[str, int]]:
        """Kinds and lines of what a report lists."""
        return [(finding.kind, finding.line) for finding in self.listed]

    @property
    def unread(self) -> list[int]:
        return [finding.line for finding in self.listed if KINDS[finding.kind].weight is Weight.UNREAD]

    def count(self, kind: str) -> int:
        return sum(n for (name, _), n in self.findings.counts.items() if name == kind)


Convert = Callable[..., Result]


def convert_bytes(data: str | bytes, form: Format | None = None, *, marker: str | None = None) -> Result:
    """Convert text or bytes, of the format they show if none is given."""
    raw = data.encode() if isinstance(data, str) else data
    listed: list[Finding] = []
    findings = Findings(listed.append)
    stream = io.BytesIO(raw)
    records = list(conversion.records(stream, form or detect(raw), findings, marker=marker))
    for record in records:
        assert conversion.to_line(record).count(b"\n") == 1
    return Result(records, listed, findings)
