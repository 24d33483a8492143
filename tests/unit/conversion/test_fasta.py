"""FASTA: BOLD's headers and others."""

from __future__ import annotations

import pytest

from aioanalysis.conversion.fasta import of_header
from tests.support.converting import Convert

BOLD = """>ACRJP618-11|Ailoscolex lacteospumosus|COI-5P|JN263771
-----ACTATTTACGTT
ttaNNN
>GMFID492-12|Lepidoptera|COI-5P
ACGT
"""


def test_bolds_own_fasta_becomes_records(convert: Convert):
    found = convert(BOLD)
    assert found.records == [
        {
            "processid": "ACRJP618-11",
            "record_id": "ACRJP618-11.COI-5P",
            "marker_code": "COI-5P",
            "identification": "Ailoscolex lacteospumosus",
            "identification_rank": "species",
            "species": "Ailoscolex lacteospumosus",
            "genus": "Ailoscolex",
            "insdc_acs": "JN263771",
            "nuc": "-----ACTATTTACGTTttaNNN",
            "nuc_basecount": 15,
        },
        {
            "processid": "GMFID492-12",
            "record_id": "GMFID492-12.COI-5P",
            "marker_code": "COI-5P",
            "identification": "Lepidoptera",
            "nuc": "ACGT",
            "nuc_basecount": 4,
        },
    ]
    assert found.told == []
    assert found.count("derived") == 5


@pytest.mark.parametrize(
    ("header", "record"),
    [
        (
            "GMFID492-12.COI-5P",
            {"processid": "GMFID492-12", "record_id": "GMFID492-12.COI-5P", "marker_code": "COI-5P"},
        ),
        (
            "ABC12-26.odd_marker",
            {"processid": "ABC12-26", "record_id": "ABC12-26.odd_marker", "marker_code": "odd_marker"},
        ),
        ("seq1", {"processid": "seq1"}),
        ("s.1", {"processid": "s.1"}),
        ("my.16S", {"processid": "my", "record_id": "my.16S", "marker_code": "16S"}),
        ("seq1 some words", {"processid": "seq1", "fasta_header": "seq1 some words"}),
        (
            "JN263771.1 Aus bus COI",
            {"processid": "JN263771.1", "insdc_acs": "JN263771.1", "fasta_header": "JN263771.1 Aus bus COI"},
        ),
        (
            "A1|BOLD:AAA1234|rbcLa|Aus",
            {"processid": "A1", "bin_uri": "BOLD:AAA1234", "marker_code": "rbcLa", "identification": "Aus"},
        ),
        (
            "A1|AB123456|Canada|Ontario",
            {
                "processid": "A1",
                "insdc_acs": "AB123456",
                "identification": "Canada",
                "fasta_header": "A1|AB123456|Canada|Ontario",
            },
        ),
        ("A1|x9", {"processid": "A1", "fasta_header": "A1|x9"}),
        ("A1||None|", {"processid": "A1"}),
        (
            "BOLD:AAA1234|Eris|Eris militaris",
            {
                "bin_uri": "BOLD:AAA1234",
                "identification": "Eris",
                "fasta_header": "BOLD:AAA1234|Eris|Eris militaris",
            },
        ),
        (
            "AB-26|Aus sp.|matK|AB123456-SUPPRESSED",
            {
                "processid": "AB-26",
                "identification": "Aus sp.",
                "marker_code": "matK",
                "insdc_acs": "AB123456-SUPPRESSED",
            },
        ),
        ("AB-26|Aus sp|COI-5P", {"processid": "AB-26", "identification": "Aus sp", "marker_code": "COI-5P"}),
        (
            "AB-26|Microgaster jft17|NEW-MARKER|x",
            {
                "processid": "AB-26",
                "identification": "Microgaster jft17",
                "marker_code": "NEW-MARKER",
                "insdc_acs": "x",
            },
        ),
    ],
)
def test_a_header_says_what_its_parts_look_like_and_loses_nothing(header: str, record: dict[str, str]):
    assert of_header(header) == record


@pytest.mark.parametrize(
    "name", ["Aus sp", "Aus cf", "Aus bus9", "aus bus", "Aus", "Aus bus cus", "Aus sp. 1"]
)
def test_only_a_clean_binomial_is_a_species(name: str):
    assert "species" not in of_header(f"AB-26|{name}|COI-5P")


def test_a_marker_can_be_given_for_headers_without_one(convert: Convert):
    text = ">a\nACGT\n>b.16S\nACGT\n"
    without, given = convert(text), convert(text, marker="COI-5P")
    assert [record.get("marker_code") for record in without.records] == [None, "16S"]
    assert without.count("no_marker") == 1
    assert [record["record_id"] for record in given.records] == ["a.COI-5P", "b.16S"]
    assert given.count("assumed") == 1


def test_carriage_returns_blank_lines_comments_and_blanks_in_sequences(convert: Convert):
    text = b"\xef\xbb\xbf>a\r\nAC GT\r\n\r\n;comment\r\nACGT\r\n>b\r\nA\tC\r\n"
    found = convert(text)
    assert [record["nuc"] for record in found.records] == ["ACGTACGT", "AC"]


def test_what_is_no_fasta_is_named_and_the_rest_read(convert: Convert):
    found = convert(">\nACGT\n>a\nACGT\n")
    assert [record["processid"] for record in found.records] == ["a"]
    assert found.unread == [1, 2]


def test_a_header_without_a_sequence_and_odd_characters_are_doubts(convert: Convert):
    found = convert(">a\n>b\nACGE1\n>c")
    assert [record.get("nuc") for record in found.records] == [None, "ACGE1", None]
    assert found.told == [("empty_sequence", 1), ("odd_characters", 2), ("empty_sequence", 4)]


def test_names_in_latin1_are_read_and_told(convert: Convert):
    found = convert(">AB-26|Gu\xe9n\xe9e|COI-5P\nACGT\n".encode("latin-1"))
    assert found.records[0]["identification"] == "Guénée"
    assert found.told == [("latin1", 1)]


def test_rna_is_kept_and_a_bin_in_place_of_an_id_is_a_doubt(convert: Convert):
    found = convert(">BOLD:AAA1234|Aus\nACGU\n")
    assert found.records[0]["nuc"] == "ACGU"
    assert found.told == [("no_id", 1)]


def test_a_sequence_longer_than_a_record_may_be_is_reported(
    convert: Convert, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("aioanalysis.conversion.fasta.MAX_LINE_BYTES", 100)
    found = convert(">a\n" + "ACGT\n" * 50 + ">b\nACGT\n")
    assert [record["processid"] for record in found.records] == ["b"]
    assert found.unread == [1]
