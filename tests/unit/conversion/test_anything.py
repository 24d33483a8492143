"""Whatever bytes come: a conversion ends in records and findings or in a refusal, and no line goes unsaid."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioanalysis import conversion
from aioanalysis.conversion.detection import Format
from aioanalysis.errors import Invalid
from tests.support.converting import convert_bytes

HEADER = b"processid,marker_code,coord,nuc,elev,specimenid,country_iso,bold_recordset_code_arr,lat,lon\n"
PIECES = [
    b"A-26",
    b'"',
    b",",
    b"\t",
    b"\n",
    b"[1, 2]",
    b"['A'",
    b"None",
    b"NA",
    b"\x96",
    b"|",
    b"1e9",
    b" ",
    b"\r",
]
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r\0"), min_size=1)


@pytest.mark.parametrize("form", Format)
@given(data=st.one_of(st.binary(), st.lists(st.sampled_from(PIECES)).map(b"".join)))
def test_any_bytes_end_well(form: Format, data: bytes):
    for head in (b"", HEADER, HEADER.replace(b",", b"\t"), b">A-26|"):
        try:
            found = convert_bytes(head + data, form)
        except Invalid:
            continue
        for record in found.records:
            assert json.loads(conversion.to_line(record)) == record


@given(rows=st.lists(st.tuples(TEXT, TEXT, TEXT), min_size=1))
def test_any_text_in_a_table_comes_through_as_it_is(rows: list[tuple[str, str, str]]):
    lines = ["processid\tsampleid\tmy notes", *("\t".join(row) for row in rows)]
    found = convert_bytes("\n".join(lines) + "\n", Format.DATA_PACKAGE)
    assert found.unread == []
    whole = [row for row in rows if "\t".join(row) != lines[0] and "".join(row).strip()]
    assert len(found.records) == len(whole)
    for row, record in zip(whole, found.records, strict=True):
        for name, value in zip(lines[0].split("\t"), row, strict=True):
            assert record.get(name) == (None if value == "None" or value.isspace() else value)


@given(width=st.integers(1, 9), rows=st.lists(st.integers(1, 12), max_size=20))
def test_every_line_is_a_record_or_a_finding(width: int, rows: list[int]):
    header = ["processid", *(f"c{n}" for n in range(width))]
    lines = ["\t".join(header), *("\t".join(["x"] * n) for n in rows)]
    found = convert_bytes("\n".join(lines) + "\n", Format.DATA_PACKAGE)
    assert len(found.records) + len(found.unread) == len(rows)
    assert found.unread == [line for line, n in enumerate(rows, 2) if n != len(header)]
