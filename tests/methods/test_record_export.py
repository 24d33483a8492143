"""Record Export: lossless JSON Lines, FASTA headers, TSV, Darwin Core, Excel, Parquet, refusals."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from barcode.darwin_core import TERMS
from barcode.records import parse_array, parse_coord

from tests.methods.conftest import MethodRun, Outcome, read_fasta
from tests.methods.test_alignment import random_sequence
from tests.methods.test_distance_summary import refused
from tests.methods.test_edges import ODD, WHOLE, lines, placed, seven, sound

Method = Callable[[str], MethodRun]


def done(outcome: Outcome) -> Outcome:
    assert outcome.code == 0, outcome.printed
    sound(outcome)
    return outcome


def test_json_lines_are_byte_for_byte(method: Method, reference: Path) -> None:
    for name in ("ukbol_sample.bcdm.jsonl", "streptocephalus.bcdm.jsonl"):
        data = reference / "data" / name
        assert (done(method("record_export")(data)).dir / "export.jsonl").read_bytes() == data.read_bytes()


def test_odd_spellings_of_json_survive(method: Method) -> None:
    odd = b'{"processid": "A1-26", "x": 1e2, "y": 1.0, "z":  "\\ud800", "n": 123456789012345678901234567890}'
    outcome = done(method("record_export")(b"\xef\xbb\xbf" + odd + b"\r\n\r\n" + lines(seven()[:1])))
    assert (outcome.dir / "export.jsonl").read_bytes() == odd + b"\n" + lines(seven()[:1]) + b"\n"


def test_fasta_has_each_id_once_and_no_blanks(method: Method) -> None:
    records = [
        placed(1, ODD, record_id="a b", nuc=WHOLE[:50] + "--" + WHOLE[50:60] + "\n" + WHOLE[60:]),
        placed(2, record_id="a_b", nuc=None),
        placed(3, record_id="a  b|", nuc="acgu"),
    ]
    outcome = done(method("record_export")(records, fasta_header="species, bin_uri,nothing"))
    found = read_fasta(outcome.dir / "export.fasta")
    first, second = found
    assert first.split("|")[0] == "a_b"
    assert second == "a_b.2|Aus_bus|BOLD:TST0007|"
    assert not {" ", "\t"} & set(first)
    assert list(found.values()) == [WHOLE, "acgu"]
    assert "Records without a sequence, in all files but FASTA: 1 of 3." in outcome.notes
    kept = done(method("record_export")(records, fasta_gaps="keep"))
    assert "--" in next(iter(read_fasta(kept.dir / "export.fasta").values()))


def test_tsv_has_one_line_a_record_and_can_be_read_again(method: Method) -> None:
    record = placed(1, ODD, notes="a\tb\r\nc", zzz={"k": [1]}, elev=-2.5, coord_accuracy=" ", sex="None")
    outcome = done(
        method("record_export")([{**record, "bold_recordset_code_arr": ["AAI", "DS-B"]}, *seven()])
    )
    rows = outcome.table("export.tsv")
    assert len(rows) == 7  # one repeats a record id
    row = rows[0]
    assert list(row)[:2] == ["record_id", "processid"]
    assert list(row)[-1] == "zzz"
    assert (row["notes"], row["elev"], row["coord_accuracy"], row["sex"]) == ("a b c", "-2.5", "", "")
    assert parse_array(row["bold_recordset_code_arr"]) == ["AAI", "DS-B"]
    assert parse_coord(row["coord"]) == (11.5, -18.25)
    assert json.loads(row["zzz"]) == {"k": [1]}


def test_leading_zeros_and_numbers_that_are_text_stay(method: Method) -> None:
    records = [placed(1, sampleid="00123", museumid="1e5"), placed(2, sampleid="7", country_iso="NA")]
    rows = done(method("record_export")(records)).table("export.tsv")
    assert [row["sampleid"] for row in rows] == ["00123", "7"]
    assert (rows[0]["museumid"], rows[1]["country_iso"]) == ("1e5", "NA")


def test_darwin_core_is_an_archive_that_describes_itself(method: Method) -> None:
    records = [
        placed(1, sex="F", collection_date_start="2026-01-02", collection_date_end="2026-01-03", elev=12.0),
        placed(2, None, coord=None, **{"country/ocean": "Pacific Ocean"}),
    ]
    outcome = done(method("record_export")(records))
    with zipfile.ZipFile(outcome.dir / "darwin_core.zip") as archive:
        meta = ElementTree.fromstring(archive.read("meta.xml"))  # noqa: S314 - our own
        text = archive.read("occurrence.txt").decode()
    name = "{http://rs.tdwg.org/dwc/text/}"
    fields = [field.attrib["term"].rsplit("/", 1)[1] for field in meta.iter(f"{name}field")]
    rows = list(csv.DictReader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE))
    assert tuple(fields) == tuple(rows[0]) == TERMS
    first, second = rows
    assert first["occurrenceID"] == "TEST001-26.COI-5P"
    assert (first["sex"], first["eventDate"], first["verbatimElevation"]) == (
        "female", "2026-01-02/2026-01-03", "12.0",
    )  # fmt: skip
    assert (first["decimalLatitude"], first["decimalLongitude"], first["country"]) == (
        "11.5",
        "-18.25",
        "Imaginaria",
    )
    assert (second["country"], second["waterBody"], second["decimalLatitude"]) == ("", "Pacific Ocean", "")
    assert json.loads(first["dynamicProperties"])["bin_uri"] == "BOLD:TST0007"


def test_one_marker_or_all(method: Method) -> None:
    records = [*seven(), placed(8, marker_code="16S"), placed(9, marker_code=None, nuc=None)]
    assert done(method("record_export")(records)).json("run.json")["records"]["used"] == 9
    left_out = done(method("record_export")(records, marker="coi-5p")).json("run.json")["records"]["left_out"]
    assert left_out == {"no_marker": 1, "other_marker": 1}
    with_sequence = done(method("record_export")(records, with_sequence_only=True))
    assert with_sequence.json("run.json")["records"]["left_out"] == {"no_sequence": 1}
    refused(method("record_export")(records, marker="matK"), "other markers found: COI-5P (7), 16S (1)")


def test_no_format_is_refused(method: Method) -> None:
    none = dict.fromkeys(("fasta", "tsv", "jsonl", "darwin_core"), False)
    refused(method("record_export")(seven(), **none), "No format is chosen")


@pytest.mark.parametrize(("name", "library"), [("xlsx", "openpyxl"), ("parquet", "pyarrow")])
def test_a_format_whose_library_is_missing_is_refused_by_name(
    method: Method, monkeypatch: pytest.MonkeyPatch, name: str, library: str
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda module: None)
    refused(method("record_export")(seven(), **{name: True}), f"needs the Python library {library}")


def test_excel_keeps_text_as_text(method: Method) -> None:
    import openpyxl

    records = [
        placed(1, "=1+1", sampleid="00123", elev=2.5, notes="x" * 40_000, fieldid="a\x00b", specimenid=7),
        placed(2, "#N/A", coord=None),
    ]
    outcome = done(method("record_export")(records, xlsx=True))
    sheet = openpyxl.load_workbook(outcome.dir / "export.xlsx")["records"]
    head, first, second = sheet.iter_rows()
    place = {cell.value: n for n, cell in enumerate(head)}
    assert [first[place["species"]].data_type, first[place["species"]].value] == ["s", "=1+1"]
    assert second[place["species"]].value == "#N/A"
    assert first[place["sampleid"]].value == "00123"
    assert (first[place["elev"]].value, first[place["specimenid"]].value) == (2.5, 7)
    assert first[place["notes"]].value.startswith("[40000 characters")
    assert second[place["coord"]].value is None
    assert "Values of more than 32,767 characters, which Excel cannot hold: 1" in outcome.notes


def test_parquet_has_types_where_all_values_agree(method: Method) -> None:
    from pyarrow import parquet

    records = [
        placed(1, specimenid=7, elev=2, taxid="", mixed=1, flag=True),
        placed(2, specimenid=None, elev=2.5, taxid=5, mixed="a", nuc=random_sequence(4)),
    ]
    outcome = done(method("record_export")(records, parquet=True))
    table = parquet.read_table(outcome.dir / "export.parquet")
    kinds = {field.name: str(field.type) for field in table.schema}
    assert (kinds["specimenid"], kinds["elev"], kinds["taxid"]) == ("int64", "double", "int64")
    assert (kinds["mixed"], kinds["flag"], kinds["coord"]) == ("string", "bool", "string")
    rows = table.to_pylist()
    assert (rows[0]["taxid"], rows[1]["specimenid"], rows[0]["elev"]) == (None, None, 2.0)
    assert (rows[0]["mixed"], rows[1]["nuc"]) == ("1", random_sequence(4))
    assert parse_coord(rows[0]["coord"]) == (11.5, -18.25)
