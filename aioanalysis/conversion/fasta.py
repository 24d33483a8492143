"""FASTA, with BOLD's headers (`processid|identification|marker|accession`) or any others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from aioanalysis.conversion import values
from aioanalysis.conversion.findings import Findings
from aioanalysis.conversion.lines import Line
from aioanalysis.conversion.rows import Record, complete
from aioanalysis.domain.records import MAX_LINE_BYTES

PROCESSID: Final = re.compile(r"[A-Z0-9]+-[0-9]{2}")
BIN: Final = re.compile(r"BOLD:[A-Z]{3}[0-9]+")
ACCESSION: Final = re.compile(r"([A-Z]{1,2}[0-9]{5,8}|[A-Z]{2}_[0-9]{6,9})(\.[0-9]+)?(-SUPPRESSED)?")
MARKER: Final = re.compile(
    r"(COI|COII|COIII|COXI{1,3}|COX[123]|CO[123]|CYTB|CytB|ND[1-6]L?|ATP[68]|12S|16S|18S|23S|28S|5\.8S|5S"
    r"|ITS[12]?|matK|MATK|rbcLa?|RBCLA?|trn[A-Z](-[A-Za-z]+)*|psbA|atpF-atpH|H[34]|EF1?-?[Aa]lpha|CAD|RAG[12]"
    r"|Wnt1|wingless|Rho|TufA|tufA|D-loop|UPA|DDC|AATS|CK1|PGD|IDH|MDH|GAPDH|RpS[0-9]+|ArgKin)"
    r"(-[0-9]?[0-9A-Z][0-9A-Za-z]?)?"
)
ANY_MARKER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{1,29}")
NAME: Final = re.compile(r"[A-Z][^|;]*")
BINOMIAL: Final = re.compile(r"(?P<genus>[A-Z][a-z-]+) (?!(?:sp|spp|cf|aff|nr|gen)$)[a-z][a-z-]+")
SUPPRESSED: Final = "SUPPRESSED"


@dataclass(slots=True)
class _Entry:
    line: int
    header: str
    parts: list[str] = field(default_factory=list)
    size: int = 0


def records(lines: Iterator[Line], findings: Findings, *, marker: str | None) -> Iterator[Record]:
    """A record a header; `marker` is what headers without one get."""
    entry: _Entry | None = None
    for number, text in lines:
        if text.startswith(">"):
            if entry is not None:
                yield from _finished(entry, findings, marker)
            entry = _Entry(number, text[1:].strip())
            if not entry.header:
                findings.add("not_fasta", number, detail="a header without an id")
                entry = None
        elif text.strip() and not text.startswith(";"):
            if entry is None:
                findings.add("not_fasta", number, value=text)
                continue
            entry.size += len(text)
            if entry.size <= MAX_LINE_BYTES:
                entry.parts.append("".join(text.split()))
    if entry is not None:
        yield from _finished(entry, findings, marker)


def _finished(entry: _Entry, findings: Findings, marker: str | None) -> Iterator[Record]:
    if entry.size > MAX_LINE_BYTES:
        findings.add("too_long", entry.line, value=entry.header, detail=f"more than {MAX_LINE_BYTES} bytes")
        return
    record = of_header(entry.header)
    if "species" in record:
        findings.count("derived", "species")
    if "marker_code" not in record:
        if marker is None:
            findings.count("no_marker")
        else:
            record["marker_code"] = marker
            findings.count("assumed", "marker_code")
    if entry.parts:
        record["nuc"], kind = values.nucleotides("".join(entry.parts))
        if kind is not None:
            findings.add(kind, entry.line, field="nuc", value=entry.header)
    else:
        findings.add("empty_sequence", entry.line, value=entry.header)
    complete(record, entry.line, findings)
    yield record


def of_header(header: str) -> Record:
    """What a header says. A part that nothing is known of leaves the whole header in `fasta_header`."""
    if "|" not in header:
        name, _, rest = header.partition(" ")
        record = _identified(name)
        if rest.strip():
            record["fasta_header"] = header
        return record
    first, *others = (part.strip() for part in header.split("|"))
    record = _identified(first)
    # BOLD's own order; elsewhere a part is taken for what it looks like.
    bolds = bool(PROCESSID.fullmatch(first)) and len(others) in {2, 3} and ANY_MARKER.fullmatch(others[1])
    for place, part in enumerate(others):
        if values.is_missing(part):
            continue
        kind = ("identification", "marker_code", "insdc_acs")[place] if bolds else _kind_of(part)
        if kind is None or kind in record:
            record["fasta_header"] = header
        else:
            record[kind] = part
    _name_species(record)
    return record


def _identified(first: str) -> Record:
    """The ids in a header's first part: a process id, a record id, or whatever its author calls it."""
    if BIN.fullmatch(first):
        return {"bin_uri": first}
    process, dot, marker = first.rpartition(".")
    known = ANY_MARKER if PROCESSID.fullmatch(process) else MARKER
    if dot and known.fullmatch(marker) and not ACCESSION.fullmatch(first):
        return {"processid": process, "record_id": first, "marker_code": marker}
    record: Record = {"processid": first} if first else {}
    if ACCESSION.fullmatch(first):
        record["insdc_acs"] = first
    return record


def _kind_of(part: str) -> str | None:
    if BIN.fullmatch(part):
        return "bin_uri"
    if MARKER.fullmatch(part):
        return "marker_code"
    if ACCESSION.fullmatch(part) or part == SUPPRESSED:
        return "insdc_acs"
    return "identification" if NAME.fullmatch(part) else None


def _name_species(record: Record) -> None:
    """A clean binomial is a species; of any other name the rank is not known."""
    found = BINOMIAL.fullmatch(record.get("identification", ""))
    if found is not None:
        record["identification_rank"] = "species"
        record["species"], record["genus"] = found[0], found["genus"]
