"""Data packages old and new, v4 and BOLDconnectR tables: hand-made rows of each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aioanalysis import conversion
from aioanalysis.conversion.detection import Format
from aioanalysis.conversion.findings import Findings
from aioanalysis.errors import Invalid
from tests.support.converting import Convert

SHARED = Path(__file__).parents[4] / "shared/domain/data"
ROW = {
    "processid": "AAA1-26",
    "sampleid": "00123",
    "museumid": "",
    "record_id": "AAA1-26.COI-5P",
    "specimenid": "2931994",
    "taxid": "12",
    "identification": "Aus bus",
    "identification_rank": "species",
    "species": "Aus bus",
    "sex": " ",
    "notes": "None",
    "country/ocean": "Namibia",
    "country_iso": "NA",
    "province/state": "Khomas",
    "coord": "[-22.5, 17.1]",
    "elev": "1650.0",
    "nuc": "ACGT--acgtN",
    "nuc_basecount": "8",
    "marker_code": "COI-5P",
    "bold_recordset_code_arr": "['AAA', 'DS-ONE']",
}
RECORD = {
    "processid": "AAA1-26",
    "sampleid": "00123",
    "record_id": "AAA1-26.COI-5P",
    "specimenid": 2931994,
    "taxid": 12,
    "identification": "Aus bus",
    "identification_rank": "species",
    "species": "Aus bus",
    "country/ocean": "Namibia",
    "country_iso": "NA",
    "province/state": "Khomas",
    "coord": [-22.5, 17.1],
    "elev": 1650.0,
    "nuc": "ACGT--acgtN",
    "nuc_basecount": 8,
    "marker_code": "COI-5P",
    "bold_recordset_code_arr": ["AAA", "DS-ONE"],
}


def table(*rows: dict[str, str], names: list[str] | None = None, separator: str = "\t") -> str:
    names = names or list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, *([row.get(name, "") for name in names] for row in rows)]
    return "".join(separator.join(line) + "\n" for line in lines)


# --- data packages ---


def test_the_real_sample_becomes_its_known_conversion():
    sample = SHARED / "ukbol_BOLD_Public.24-Jan-2025.sample.tsv"
    if not sample.exists():
        pytest.skip("needs ../shared")
    findings = Findings()
    with sample.open("rb") as file:
        lines = [
            conversion.to_line(record) for record in conversion.records(file, Format.DATA_PACKAGE, findings)
        ]
    assert b"".join(lines) == (SHARED / "ukbol_sample.bcdm.jsonl").read_bytes()
    assert len(lines) == 999
    assert findings.unread == 0
    assert findings.counts["double_encoded", "species_reference"] == 94


def test_a_row_becomes_a_record_with_types_and_without_what_is_missing(convert: Convert):
    found = convert(table(ROW))
    assert found.records == [RECORD]
    assert found.told == []
    assert found.findings.counts["missing", "museumid"] == 1
    assert found.count("missing") == 3


def test_records_are_written_canonically():
    line = conversion.to_line({"b": "é", "a": [1.0, 2]})
    assert line == '{"a": [1.0, 2], "b": "é"}\n'.encode()
    assert json.loads(conversion.to_line({"a": "\ud800"})) == {"a": "\ud800"}


@pytest.mark.parametrize("end", ["\r\n", "\n"])
def test_bom_carriage_returns_and_blank_lines_are_not_data(convert: Convert, end: str):
    text = "\ufeff\n" + table(ROW, ROW).replace("\n", end) + end * 2
    assert convert(text).records == [RECORD, RECORD]


def test_quotes_are_characters_and_join_nothing(convert: Convert):
    odd = {**ROW, "notes": '"open', "sampleid": 'a "b" c'}
    other = {**ROW, "notes": 'close"'}
    found = convert(table(odd, other))
    assert [record["notes"] for record in found.records] == ['"open', 'close"']
    assert found.records[0]["sampleid"] == 'a "b" c'


def test_other_characters_that_end_lines_elsewhere_end_none_here(convert: Convert):
    text = "a\u2028b\x0bc\x85d\re"
    assert convert(table({**ROW, "notes": text})).records[0]["notes"] == text


def test_unknown_columns_are_kept(convert: Convert):
    (record,) = convert(table({**ROW, "my_column": "['x']", "other/column": "7"})).records
    assert record == {**RECORD, "my_column": "['x']", "other/column": "7"}


def test_a_row_of_another_width_is_reported_with_its_line(convert: Convert):
    good, cut = table(ROW), "AAA2-26\tS2\tnote with"
    found = convert(good + cut + "\n newline\tx\n" + "\t".join([*ROW.values(), "extra"]) + "\n" + good)
    assert len(found.records) == 2
    assert found.told == [("columns", 3), ("columns", 4), ("columns", 5), ("repeated_header", 6)]
    assert found.unread == [3, 4, 5]
    assert found.listed[0].detail == "3 columns instead of 20"
    assert found.listed[0].value == cut


def test_empty_columns_beyond_the_headers_are_no_reason(convert: Convert):
    found = convert(table(ROW)[:-1] + "\t\t\n")
    assert found.records == [RECORD]
    assert found.told == [("blank_columns", 2)]


def test_a_last_line_without_an_end_is_a_doubt(convert: Convert):
    found = convert(table(ROW)[:-1])
    assert (found.records, found.told) == ([RECORD], [("cut_off", 2)])


def test_a_line_that_is_not_utf8_is_reported_and_the_others_go_on(convert: Convert):
    data = table(ROW, ROW, ROW).encode().split(b"\n")
    data[2] = data[2].replace(b"Khomas", b"Kh\x96mas")
    found = convert(b"\n".join(data))
    assert len(found.records) == 2
    assert found.unread == [3]
    assert found.listed[0].detail is not None
    assert "0x96" in found.listed[0].detail


def test_a_field_of_five_megabytes_passes_and_a_line_over_the_limit_does_not(
    convert: Convert, monkeypatch: pytest.MonkeyPatch
):
    large = "A" * 5_000_000
    assert convert(table({**ROW, "nuc": large})).records[0]["nuc"] == large
    monkeypatch.setattr("aioanalysis.conversion.lines.MAX_LINE_BYTES", 1_000_000)
    found = convert(table(ROW, {**ROW, "nuc": large}, ROW))
    assert (found.records, found.told) == ([RECORD, RECORD], [("too_long", 3)])


@pytest.mark.parametrize(
    ("name", "text", "value", "kind"),
    [
        ("specimenid", "2931994.0", 2931994, "whole_number"),
        ("specimenid", "x7", "x7", "not_a_number"),
        ("elev", "high", "high", "not_a_number"),
        ("elev", "nan", None, "not_finite"),
        ("coord", "somewhere", "somewhere", "not_coordinates"),
        ("coord", "(-22.5, 17.1)", [-22.5, 17.1], None),
        ("coord", "-22.5,17.1", [-22.5, 17.1], None),
        ("coord", "[122.5, 17.1]", [122.5, 17.1], "outside_globe"),
        ("nuc", "ACGT ACGT", "ACGT ACGT", "odd_characters"),
        ("bold_recordset_code_arr", "['A'", "['A'", "not_a_list"),
        ("notes", "GuenÃ©e", "GuenÃ©e", "double_encoded"),
    ],
)
def test_what_does_not_fit_its_field_is_kept_and_told(
    convert: Convert, name: str, text: str, value: object, kind: str | None
):
    found = convert(table({**ROW, name: text}))
    assert found.records[0].get(name) == value
    assert found.told == ([(kind, 2)] if kind else [])
    assert found.unread == []


def test_a_row_without_a_process_id_is_a_doubt(convert: Convert):
    found = convert(table({**ROW, "processid": "None"}))
    assert found.told == [("no_id", 2)]
    assert found.records[0]["record_id"] == "AAA1-26.COI-5P"


def test_ids_and_counts_are_worked_out_where_they_are_missing(convert: Convert):
    found = convert(table({**ROW, "record_id": "None", "nuc_basecount": ""}))
    assert found.records == [RECORD]
    assert found.count("derived") == 2


def test_columns_get_names_that_are_their_own(convert: Convert):
    text = "processid\tnotes\tnotes\t\tmarker_code\nA-26\tx\ty\tz\tCOI-5P\n"
    found = convert(text)
    assert found.records[0] == {
        "processid": "A-26",
        "notes": "x",
        "notes.3": "y",
        "column_4": "z",
        "marker_code": "COI-5P",
        "record_id": "A-26.COI-5P",
    }
    assert found.told == [("column_renamed", 1), ("column_renamed", 1)]


def test_the_portals_tsv_is_told_of(convert: Convert):
    found = convert(table({**ROW, "marker_count": "1", "pre_md5hash": "x"}))
    assert found.told == [("damaged_export", 1)]


# --- older data packages ---


def test_older_names_get_the_present_ones(convert: Convert):
    old = {
        "processid": "AAA1-26",
        "taxon_name": "Aus bus",
        "taxon_rank": "species",
        "country": "Namibia",
        "country_iso": "NA",
        "province": "Khomas",
        "gb_acs": "JF840047",
        "nucraw": "ACGT",
        "marker_code": "COI-5P",
        "recordset_code_arr": "['AAA']",
        "collection_date": "2015-07",
        "collection_note": "n",
        "associated_specimen": "s",
        "extrainfo": "e",
        "collection_date_accuracy": "30",
    }
    found = convert(table(old))
    assert found.records == [
        {
            "processid": "AAA1-26",
            "record_id": "AAA1-26.COI-5P",
            "identification": "Aus bus",
            "identification_rank": "species",
            "country/ocean": "Namibia",
            "country_iso": "NA",
            "province/state": "Khomas",
            "insdc_acs": "JF840047",
            "nuc": "ACGT",
            "nuc_basecount": 4,
            "marker_code": "COI-5P",
            "bold_recordset_code_arr": ["AAA"],
            "collection_date_start": "2015-07",
            "collection_notes": "n",
            "associated_specimens": "s",
            "short_note": "e",
            "collection_date_accuracy": "30",
        }
    ]
    assert found.count("renamed") == 11
    assert found.told == []


@pytest.mark.parametrize("names", [["taxon_name", "identification"], ["identification", "taxon_name"]])
def test_a_package_with_both_names_loses_neither(convert: Convert, names: list[str]):
    names = ["processid", *names, "marker_code"]
    base = {"processid": "A-26", "marker_code": "COI-5P"}
    found = convert(
        table(
            {**base, "identification": "Aus", "taxon_name": "Aus"},
            {**base, "identification": "Aus", "taxon_name": "None"},
            {**base, "identification": "", "taxon_name": "Bus"},
            {**base, "identification": "Aus", "taxon_name": "Bus"},
            names=names,
        )
    )
    kept = [(r.get("identification"), r.get("taxon_name")) for r in found.records]
    assert kept == [("Aus", None), ("Aus", None), ("Bus", None), ("Aus", "Bus")]
    assert found.told == [("two_values", 5)]


# --- v3 and v4 ---

V4_COLUMNS = """
processid sampleid recordID catalognum fieldnum institution_storing collection_code bin_uri
phylum_taxID phylum_name class_taxID class_name order_taxID order_name family_taxID family_name
subfamily_taxID subfamily_name genus_taxID genus_name species_taxID species_name subspecies_taxID
subspecies_name identification_provided_by identification_method identification_reference tax_note
voucher_status tissue_type collection_event_id collectors collectiondate_start collectiondate_end
collectiontime collection_note site_code sampling_protocol lifestage sex reproduction habitat
associated_specimens associated_taxa extrainfo notes lat lon coord_source coord_accuracy elev depth
elev_accuracy depth_accuracy country province_state region sector exactsite image_ids image_urls
media_descriptors captions copyright_holders copyright_years copyright_licenses
copyright_institutions photographers sequenceID markercode genbank_accession nucleotides trace_ids
trace_names trace_links run_dates sequencing_centers directions seq_primers marker_codes
"""
V4 = V4_COLUMNS.split()
V4_ROW = {
    "processid": "ACRJP618-11",
    "sampleid": "0042",
    "recordID": "2020123",
    "institution_storing": "Mined from GenBank, NCBI",
    "phylum_taxID": "20",
    "phylum_name": "Arthropoda",
    "genus_taxID": "5",
    "genus_name": "Aus",
    "species_taxID": "77",
    "species_name": "Aus bus",
    "collectiondate_start": "2015",
    "lifestage": "A",
    "notes": "100 m \x96 200 m",
    "lat": "-22.5",
    "lon": "17.1",
    "elev": "100",
    "country": "Namibia",
    "province_state": "Khomas",
    "exactsite": "by the road",
    "sequenceID": "4",
    "markercode": "COI-5P",
    "genbank_accession": "JF840047",
    "nucleotides": "--ACGT",
    "trace_ids": "1|2|",
    "directions": "F|R|",
    "image_ids": "9",
}


def test_a_row_of_v4_becomes_a_record(convert: Convert):
    assert len(V4) == 80
    found = convert(table(V4_ROW, names=V4).encode("latin-1"))
    assert found.records == [
        {
            "processid": "ACRJP618-11",
            "sampleid": "0042",
            "record_id": "ACRJP618-11.COI-5P",
            "recordID": "2020123",
            "inst": "Mined from GenBank, NCBI",
            "phylum": "Arthropoda",
            "phylum_taxID": "20",
            "genus": "Aus",
            "genus_taxID": "5",
            "species": "Aus bus",
            "species_taxID": "77",
            "identification": "Aus bus",
            "identification_rank": "species",
            "taxid": 77,
            "collection_date_start": "2015",
            "life_stage": "A",
            "notes": "100 m \x96 200 m",
            "coord": [-22.5, 17.1],
            "elev": 100,
            "country/ocean": "Namibia",
            "province/state": "Khomas",
            "site": "by the road",
            "sequenceID": "4",
            "marker_code": "COI-5P",
            "insdc_acs": "JF840047",
            "nuc": "--ACGT",
            "nuc_basecount": 4,
            "trace_ids": ["1", "2", ""],
            "directions": ["F", "R", ""],
            "image_ids": ["9"],
        }
    ]
    assert found.told == [("latin1", 2)]


def test_utf8_in_v4_is_read_as_such(convert: Convert):
    found = convert(table({**V4_ROW, "notes": "é"}, names=V4))
    assert found.records[0]["notes"] == "é"
    assert found.told == []


def test_na_is_missing_for_markers_and_sequences_of_v4_only(convert: Convert):
    row = {
        **V4_ROW,
        "markercode": "NA",
        "nucleotides": "NA",
        "sampleid": "NA",
        "notes": "NA",
        "country": "NA",
    }
    (record,) = convert(table(row, names=V4)).records
    assert not {"marker_code", "nuc", "record_id"} & set(record)
    assert (record["sampleid"], record["notes"], record["country/ocean"]) == ("NA", "NA", "NA")


@pytest.mark.parametrize(
    ("latitude", "longitude", "kept", "kind"),
    [
        ("-22.5", "", {"lat": "-22.5"}, "half_coordinates"),
        ("", "17.1", {"lon": "17.1"}, "half_coordinates"),
        ("", "", {}, None),
        ("22 S", "17 E", {"lat": "22 S", "lon": "17 E"}, "not_coordinates"),
        ("95", "17", {"coord": [95, 17]}, "outside_globe"),
    ],
)
def test_latitudes_and_longitudes_are_never_halves(
    convert: Convert, latitude: str, longitude: str, kept: dict[str, object], kind: str | None
):
    found = convert(table({**V4_ROW, "notes": "", "lat": latitude, "lon": longitude}, names=V4))
    assert {
        name: found.records[0].get(name) for name in ("lat", "lon", "coord") if name in found.records[0]
    } == kept
    assert found.told == ([(kind, 2)] if kind else [])


def test_a_record_split_by_a_newline_and_an_error_within_are_named(convert: Convert):
    row = table({**V4_ROW, "notes": "", "copyright_holders": "A\nB"}, names=V4)
    found = convert(row + "Fatal error: out of memory\n")
    assert found.records == []
    assert [(f.kind, f.line, f.detail) for f in found.listed] == [
        ("columns", 2, "64 columns instead of 80"),
        ("columns", 3, "17 columns instead of 80"),
        ("columns", 4, "1 columns instead of 80"),
    ]


def test_the_identification_is_the_lowest_name_there_is(convert: Convert):
    row = {**V4_ROW, "notes": "", "species_name": "", "species_taxID": ""}
    (record,) = convert(table(row, names=V4)).records
    assert (record["identification"], record["identification_rank"], record["taxid"]) == ("Aus", "genus", 5)


# --- BOLDconnectR ---

R_COLUMNS = """
processid record_id sampleid specimenid inst collectors collection_date_start notes marker_code
identification identification_rank species_reference nuc nuc_basecount bin_uri elev coord site
country_iso country.ocean province.state bold_recordset_code_arr collection_date_end
"""
R_NAMES = R_COLUMNS.split()
R_ROW = {
    "processid": "BBCNP1869-14",
    "record_id": "BBCNP1869-14.COI-5P",
    "sampleid": "BIOUG12563-F04",
    "specimenid": "4467470",
    "inst": "Centre for Biodiversity Genomics",
    "collectors": "NA",
    "collection_date_start": "2012-06-03",
    "notes": "NA",
    "marker_code": "COI-5P",
    "identification": "Eris militaris",
    "identification_rank": "species",
    "species_reference": "NA",
    "nuc": "TTAATT--",
    "nuc_basecount": "6",
    "bin_uri": "BOLD:AAA5654",
    "elev": "276",
    "coord": "59.536,-112.231",
    "site": "NA",
    "country_iso": "CA",
    "country.ocean": "Canada",
    "province.state": "Alberta",
    "bold_recordset_code_arr": "BBCNP,DS-SOC2014",
    "collection_date_end": "NA",
}
R_RECORD = {
    "processid": "BBCNP1869-14",
    "record_id": "BBCNP1869-14.COI-5P",
    "sampleid": "BIOUG12563-F04",
    "specimenid": 4467470,
    "inst": "Centre for Biodiversity Genomics",
    "collection_date_start": "2012-06-03",
    "marker_code": "COI-5P",
    "identification": "Eris militaris",
    "identification_rank": "species",
    "nuc": "TTAATT--",
    "nuc_basecount": 6,
    "bin_uri": "BOLD:AAA5654",
    "elev": 276,
    "coord": [59.536, -112.231],
    "country_iso": "CA",
    "country/ocean": "Canada",
    "province/state": "Alberta",
    "bold_recordset_code_arr": ["BBCNP", "DS-SOC2014"],
}


def test_a_row_of_boldconnectrs_tsv_becomes_a_record(convert: Convert):
    found = convert(table(R_ROW, names=R_NAMES))
    assert found.records == [R_RECORD]
    assert found.told == []


def test_unquoted_csv_is_put_together_where_there_is_one_way(convert: Convert):
    row = {
        **R_ROW,
        "inst": "Mined from GenBank, NCBI",
        "collectors": "T.F.Mitterboeck, C.Vandermeer",
        "species_reference": "Hentz, 1845",
        "site": "mature forest, by the lake, north",
    }
    found = convert(table(row, names=R_NAMES, separator=","))
    assert found.records == [
        {
            **R_RECORD,
            "inst": "Mined from GenBank, NCBI",
            "collectors": "T.F.Mitterboeck, C.Vandermeer",
            "species_reference": "Hentz, 1845",
            "site": "mature forest, by the lake, north",
        }
    ]
    assert found.told == [("rejoined", 2)]


@pytest.mark.parametrize(
    "changed", [{"coord": "NA"}, {"bold_recordset_code_arr": "BBCNP"}, {"collectors": " "}]
)
def test_unquoted_csv_with_less_in_it_is_read_too(convert: Convert, changed: dict[str, str]):
    found = convert(table({**R_ROW, **changed}, names=R_NAMES, separator=","))
    assert len(found.records) == 1
    for name in ("country/ocean", "nuc", "bin_uri"):
        assert found.records[0][name] == R_RECORD[name]


@pytest.mark.parametrize(
    "changed",
    [{"notes": "a,b"}, {"site": "Hwy 6,just east"}, {"collectors": "A,B"}, {"coord": "59.5,-112.2,7"}],
)
def test_unquoted_csv_that_may_be_read_in_other_ways_is_reported(convert: Convert, changed: dict[str, str]):
    found = convert(table({**R_ROW, **changed}, R_ROW, names=R_NAMES, separator=","))
    assert found.records == [R_RECORD]
    assert found.unread == [2]


def test_quoted_csv_holds_commas_quotes_and_newlines(convert: Convert):
    row = {**R_ROW, "notes": 'said "so", twice\nand left', "site": "a,b"}
    text = "".join(
        ",".join('"' + value.replace('"', '""') + '"' for value in line) + "\n"
        for line in (R_NAMES, [row[name] for name in R_NAMES], [R_ROW[name] for name in R_NAMES])
    )
    found = convert(text)
    assert found.records == [{**R_RECORD, "notes": row["notes"], "site": "a,b"}, R_RECORD]
    assert found.told == []


def test_csv_quoted_where_needed_is_read(convert: Convert):
    row = {**R_ROW, "coord": '"59.536,-112.231"', "bold_recordset_code_arr": '"BBCNP,DS-SOC2014"'}
    assert convert(table(row, names=R_NAMES, separator=",")).records == [R_RECORD]


def test_a_stray_quote_costs_its_own_row_only(convert: Convert):
    row = {**R_ROW, "coord": '"59.536,-112.231"', "bold_recordset_code_arr": '"BBCNP,DS-SOC2014"'}
    found = convert(table(row, {**row, "notes": '"never closed'}, row, row, names=R_NAMES, separator=","))
    assert found.records == [R_RECORD, R_RECORD, R_RECORD]
    assert found.unread == [3]


def test_a_tsv_with_a_quoted_header_is_quoted_throughout(convert: Convert):
    text = '"processid"\t"notes"\t"marker_code"\n"A-26"\t"a\tb"\t"COI-5P"\n'
    assert convert(text).records[0]["notes"] == "a\tb"


@pytest.mark.parametrize(
    ("country", "code", "kept", "kind"),
    [
        ("Namibia", "NA", "NA", None),
        ("NA", "NA", None, None),
        ("", "NA", None, None),
        ("Canada", "NA", None, None),
        ("Canada", "CA", "CA", None),
        (None, "NA", "NA", "na_or_namibia"),
    ],
)
def test_namibia_stays_where_r_says_na_for_nothing(
    convert: Convert, country: str | None, code: str, kept: str | None, kind: str | None
):
    row = {"processid": "A-26", "sampleid": "NA", "country_iso": code, "marker_code": "COI-5P"}
    if country is not None:
        row["country.ocean"] = country
    found = convert(table(row), Format.BOLDCONNECTR)
    assert found.records[0].get("country_iso") == kept
    assert "sampleid" not in found.records[0]
    assert found.told == ([(kind, 2)] if kind else [])


def test_a_table_without_process_ids_is_refused(convert: Convert):
    with pytest.raises(Invalid, match="no column `processid`"):
        convert("a\tb\n1\t2\n", Format.V4)
    with pytest.raises(Invalid, match="empty"):
        convert("\n\n", Format.V4)
