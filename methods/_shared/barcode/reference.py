"""A reference library for identification: JSON Lines or FASTA, as text or as a file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from .records import BOM

BIN = re.compile(r"BOLD:[A-Z]{3}\d{4}", re.IGNORECASE)
MARKER = re.compile(
    r"COI-[35]P|COI|COII|COXIII|COX[123]|CYTB|12S|16S|18S(-\dP)?|28S|ITS[12]?|matK|rbcLa?|trnH-psbA|ND\d(L)?|EF1-alpha",
    re.IGNORECASE,
)


class UnreadableError(Exception):
    """The text is neither; it says what it is."""


def as_json_lines(content: bytes, marker: str) -> Iterator[bytes]:
    """One record a line. A FASTA header that names no marker is taken to be of `marker`."""
    content = content.removeprefix(BOM).lstrip()
    if content.startswith(b"{"):
        yield from content.splitlines(keepends=True)
    elif content.startswith((b">", b";")):
        for header, letters in fasta_blocks(content.decode("utf-8", "replace")):
            yield json.dumps(record_of(header, letters, marker)).encode() + b"\n"
    else:
        raise UnreadableError("it begins neither with > (FASTA) nor with { (JSON Lines)")


def fasta_blocks(text: str) -> Iterator[tuple[str, str]]:
    header: str | None = None
    letters: list[str] = []
    for line in text.splitlines():
        if line.startswith(">"):
            if header is not None:
                yield header, "".join(letters)
            header, letters = line[1:].strip(), []
        elif header is not None and not line.startswith(";"):
            letters.append(line.strip())
    if header is not None:
        yield header, "".join(letters)


def record_of(header: str, letters: str, marker: str) -> dict[str, str]:
    """`id|name|marker|BIN`, the parts after the id in any order, or `id Genus species ...` as in GenBank.

    Underscores in a name are blanks. A name of two words or more counts as a species, its first as a genus.
    """
    if "|" in header:
        own, *parts = (part.strip() for part in header.split("|"))
    else:
        own, _, rest = header.partition(" ")
        parts = [" ".join(rest.split()[:2])] if rest else []
    found = {
        "record_id": own or "unnamed",
        "processid": own or "unnamed",
        "marker_code": marker,
        "nuc": letters,
    }
    for part in parts:
        if BIN.fullmatch(part):
            found["bin_uri"] = part.upper()
        elif MARKER.fullmatch(part):
            found["marker_code"] = part
        elif part and "identification" not in found and any(map(str.isalpha, part)):
            name = " ".join(part.replace("_", " ").split())
            found["identification"] = name
            if " " in name:
                found |= {"species": name, "genus": name.split()[0]}
    return found
