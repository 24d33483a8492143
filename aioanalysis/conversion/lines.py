"""Lines of a file: numbered from 1, decoded, without their ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

from aioanalysis.conversion.findings import Findings
from aioanalysis.domain.records import BOM, MAX_LINE_BYTES

PIECE: Final = 1024 * 1024


class Line(NamedTuple):
    number: int
    text: str


def read_lines(stream: BinaryIO, findings: Findings, *, latin1: bool, ends: bool) -> Iterator[Line]:
    """Every line that can be read; with `latin1` those that are not UTF-8 too. Only a newline ends a line.

    `ends`: the last line should have one, too; where nothing else tells whether it is whole.
    """
    number = 0
    while raw := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(raw) > MAX_LINE_BYTES:
            findings.add("too_long", number, detail=f"more than {MAX_LINE_BYTES} bytes")
            while raw and not raw.endswith(b"\n"):
                raw = stream.readline(PIECE)
            continue
        if ends and not raw.endswith(b"\n"):
            findings.add("cut_off", number)
        if number == 1:
            raw = raw.removeprefix(BOM)
        text = _decoded(raw.removesuffix(b"\n").removesuffix(b"\r"), number, findings, latin1)
        if text is not None:
            yield Line(number, text)


def _decoded(raw: bytes, number: int, findings: Findings, latin1: bool) -> str | None:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        if latin1:
            findings.add("latin1", number, detail=f"byte 0x{raw[error.start]:02x} at {error.start + 1}")
            return raw.decode("latin-1")
        findings.add("encoding", number, detail=f"byte 0x{raw[error.start]:02x} at {error.start + 1}")
        return None
