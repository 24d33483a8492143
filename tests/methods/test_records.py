"""Reading records, judging them, and their names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from barcode.records import BadLine, Record, parse_array, parse_coord, read_records
from barcode.selection import LeftOut, Selector, Used
from barcode.sequences import ambiguous_percent, encode, read_sequence, reverse_complement, strip
from barcode.taxa import clean_name, is_interim, names_of


def read(path: Path, content: bytes) -> list[Record | BadLine]:
    path.write_bytes(content)
    return list(read_records(path))


def record(**values: Any) -> Record:
    return Record(1, values)


def test_a_byte_order_mark_windows_line_ends_and_blank_lines_do_no_harm(tmp_path: Path) -> None:
    found = read(tmp_path / "r", b'\xef\xbb\xbf{"processid": "A-1"}\r\n\r\n  \n{"processid": "B-1"}')
    assert [(r.line, r.processid) for r in found if isinstance(r, Record)] == [(1, "A-1"), (4, "B-1")]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "not JSON: Expecting property name"),
        (b'{"a": 1} {"b": 2}', "not JSON: Extra data"),
        (b"[1, 2]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b'{"site": "caf\xe9"}', "not UTF-8 at byte 14"),
        (b"[" * 100_000, "not JSON: RecursionError"),
        (b"<html><body>503</body></html>", "not JSON"),
    ],
)
def test_a_line_that_is_no_record_is_told_with_its_number(tmp_path: Path, line: bytes, why: str) -> None:
    found = read(tmp_path / "r", b'{"processid": "A-1"}\n' + line + b'\n{"processid": "B-1"}\n')
    assert [type(item) for item in found] == [Record, BadLine, Record]
    bad = found[1]
    assert isinstance(bad, BadLine)
    assert bad.line == 2
    assert bad.why.startswith(why)


def test_a_line_that_is_far_too_long_is_told_and_the_next_one_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barcode.records.MAX_LINE_BYTES", 100)
    found = read(tmp_path / "r", b'{"a": "' + b"x" * 500 + b'"}\n{"processid": "B-1"}\n')
    assert isinstance(found[0], BadLine)
    assert isinstance(found[1], Record)
    assert found[1].line == 2


@pytest.mark.parametrize("missing", [None, "", " ", "\t", "None", [], {}])
def test_the_ways_of_saying_nothing_are_one(missing: object) -> None:
    assert record(sex=missing).text("sex") is None
    assert record().text("sex") is None


def test_na_is_missing_where_old_exports_mean_so_and_namibia_elsewhere() -> None:
    assert record(markercode="NA").marker is None
    assert record(country_iso="NA").text("country_iso") == "NA"


def test_numbers_and_lists_read_as_text_and_lone_surrogates_as_marks() -> None:
    assert record(sampleid=123).text("sampleid") == "123"
    assert record(codes=["A", None, "B"]).text("codes") == "A, B"
    assert Record(1, json.loads('{"site": "a\\ud800b"}')).text("site") == "a?b"


def test_older_names_of_fields_are_known() -> None:
    old = record(taxon_name="Aus bus", taxon_rank="species", province="X", markercode="COI-5P")
    assert old.text("identification") == "Aus bus"
    assert old.text("identification_rank") == "species"
    assert old.text("province/state") == "X"
    assert old.marker == "COI-5P"


def test_a_record_without_an_id_of_its_own_gets_one() -> None:
    assert record(record_id="R", processid="P").record_id == "R"
    assert record(processid="P", marker_code="COI-5P").record_id == "P.COI-5P"
    assert record(record_id=None, processid="P").record_id == "P"
    assert Record(7, {}).record_id == "line 7"


@pytest.mark.parametrize(
    "value", [[18.677, -88.395], "[18.677, -88.395]", "18.677,-88.395", "(18.677, -88.395)"]
)
def test_coordinates_are_latitude_and_longitude_in_every_shape(value: object) -> None:
    assert parse_coord(value) == (18.677, -88.395)


@pytest.mark.parametrize(
    "value", [None, "", "north", [1], [1, 2, 3], [91, 0], [0, 181], ["nan", 0], {"lat": 1}, 5]
)
def test_what_is_no_place_is_none(value: object) -> None:
    assert parse_coord(value) is None


@pytest.mark.parametrize(
    "value", [["AAI", "DS-MOB113"], "['AAI', 'DS-MOB113']", "AAI, DS-MOB113", "[AAI, DS-MOB113]"]
)
def test_lists_are_read_in_every_shape(value: object) -> None:
    assert parse_array(value) == ["AAI", "DS-MOB113"]


def test_lists_are_never_evaluated() -> None:
    assert parse_array("[__import__('os').getpid()]") == ["__import__('os').getpid()"]
    assert parse_array(None) == parse_array("") == parse_array(7) == []


def test_sequences_read_in_upper_case_without_blanks_and_with_t_for_u() -> None:
    assert read_sequence(" ac\nGU-n.ry* é").tobytes() == b"ACGT-N-RYNN"
    assert strip(read_sequence("--NNAC-GNT-NN--")).tobytes() == b"ACGNT"
    assert strip(read_sequence("NN--")).tobytes() == b""
    assert reverse_complement(read_sequence("AACRN-")).tobytes() == b"-NYGTT"
    assert encode(read_sequence("ACGTR-")).tolist() == [0, 1, 2, 3, 4, 5]
    assert ambiguous_percent(read_sequence("NNACGNRACGTA--")) == 20.0


def judge(*values: dict[str, Any] | BadLine, **settings: Any) -> tuple[Selector, list[Used | LeftOut]]:
    chosen = {"marker": "COI-5P", "min_length": 4, "max_ambiguous_percent": None, **settings}
    selector = Selector(**chosen)
    items = [v if isinstance(v, BadLine) else Record(n, v) for n, v in enumerate(values, 1)]
    return selector, [selector.judge(item) for item in items]


GOOD = {"processid": "P-1", "marker_code": "COI-5P", "nuc": "ACGTACGT"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, None),
        ({"marker_code": "coi-5p"}, None),
        ({"nuc": "acgu"}, None),
        ({"marker_code": None}, "no_marker"),
        ({"marker_code": "CYTB"}, "other_marker"),
        ({"nuc": None}, "no_sequence"),
        ({"nuc": " "}, "no_sequence"),
        ({"nuc": ["ACGT"]}, "no_sequence"),
        ({"nuc": 7}, "no_sequence"),
        ({"nuc": "NNNNNNNN"}, "no_known_base"),
        ({"nuc": "--------"}, "no_known_base"),
        ({"nuc": "ACG-----NNNN", "nuc_basecount": 658}, "too_short"),
        ({"nuc": "NNACGTRRRRACGTNN"}, "too_ambiguous"),
        ({"nuc": "NNNNNNNNACGTACGTNNNNNN"}, None),
    ],
)
def test_a_record_is_left_out_for_the_first_reason_that_fits(
    change: dict[str, Any], reason: str | None
) -> None:
    selector, (item,) = judge({**GOOD, **change}, max_ambiguous_percent=10)
    assert (item.reason if isinstance(item, LeftOut) else None) == reason
    assert dict(selector.counts) == ({reason: 1} if reason else {})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"nuc": 123}, "nuc is a number, no text"),
        ({"nuc": 1.5}, "nuc is a number, no text"),
        ({"nuc": True}, "nuc is true or false, no text"),
        ({"nuc": ["ACGT"]}, "nuc is a list, no text"),
        ({"nuc": {"a": 1}}, "nuc is an object, no text"),
        ({"nuc": None, "nucleotides": 123}, "nucleotides is a number, no text"),
        ({"nuc": " ", "nucleotides": None}, ""),
        ({"nuc": []}, ""),
    ],
)
def test_a_sequence_that_is_no_text_is_told_as_such_and_one_that_is_missing_is_not(
    given: dict[str, Any], told: str
) -> None:
    _, (item,) = judge({**GOOD, **given})
    assert isinstance(item, LeftOut)
    assert (item.record_id, item.reason, item.detail) == ("P-1.COI-5P", "no_sequence", told)


def test_of_records_with_one_id_the_first_is_kept_and_markers_do_not_collide() -> None:
    selector, found = judge(GOOD, GOOD, {**GOOD, "marker_code": "16S"}, {**GOOD, "record_id": "P-1.COI-5P"})
    reasons = [item.reason if isinstance(item, LeftOut) else None for item in found]
    assert reasons == [None, "duplicate", "other_marker", "duplicate"]
    assert isinstance(found[1], LeftOut)
    assert found[1].detail == "line 1 has the same record_id"
    assert selector.other_markers == {"16S": 1}


def test_characters_that_are_no_nucleotides_are_counted() -> None:
    assert judge({**GOOD, "nuc": "ACGTACGTZ9?.*-N"})[0].unexpected_letters == 2


@pytest.mark.parametrize(
    "name",
    [
        "Microgaster jft17", "Eupselia sp. ANICMK228", "Aus cf. bus", "Aus aff. bus", "Aus sp", "Aus nr. bus",
        "Aus", "Aus BOLD:AAA1234", "Streptocephalus sp. 1 LSE-2022a", "Aus bus group", "Aus_sp._1", "aus Bus",
    ],
)  # fmt: skip
def test_interim_names_are_known(name: str) -> None:
    assert is_interim(name)


@pytest.mark.parametrize(
    "name",
    ["Aus bus", "Aus bus cus", "Aus (Bus) cus", "Aus bus-albus", "Aus × bus", "Aüs büs", "Aus_bus"],  # noqa: RUF001
)
def test_scientific_names_are_no_interim_ones(name: str) -> None:
    assert not is_interim(name)


@pytest.mark.parametrize(
    "name", ["Incertae_sedis", "incertae sedis", "Unidentified", "unknown sp.", "NA", "", None]
)
def test_fillers_are_no_names(name: str | None) -> None:
    assert clean_name(name) is None


def test_a_species_counts_when_the_identification_reaches_it() -> None:
    full = {"species": "Aus  bus ", "genus": "Aus", "family": "Aidae"}
    assert names_of(record(**full)).species == "Aus bus"
    assert names_of(record(**full, identification_rank="Species")).species == "Aus bus"
    assert names_of(record(**full, identification_rank="subspecies")).species == "Aus bus"
    assert names_of(record(**full, identification_rank="genus")).species is None
    interim = {**full, "species": "Aus sp. 1"}
    assert names_of(record(**interim)).species == "Aus sp. 1"
    assert names_of(record(**interim), exclude_interim=True).species is None
    assert names_of(record(**interim), exclude_interim=True).genus == "Aus"


def test_names_that_differ_in_how_an_accent_is_written_are_one() -> None:
    assert clean_name("A\u00fcs b") == clean_name("Au\u0308s b")
