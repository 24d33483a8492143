"""JSON Lines of stores and of the portal, made canonical."""

from __future__ import annotations

from tests.support.converting import Convert


def test_nulls_and_blanks_go_and_types_are_mended(convert: Convert):
    found = convert(
        b'\xef\xbb\xbf{"processid":"A-26","marker_code":"COI-5P","sex":" ","bin_uri":null,"notes":"",'
        b'"x":{"y":null},'
        b'"coord":"59.5,-112.2","specimenid":"7","bold_recordset_code_arr":"A,DS-B","elev":3,"primers_forward":[],'
        b'"country_iso":"NA","country.ocean":"Namibia","nuc":"AC","flag":false}\r\n\n'
    )
    assert found.records == [
        {
            "processid": "A-26",
            "record_id": "A-26.COI-5P",
            "marker_code": "COI-5P",
            "coord": [59.5, -112.2],
            "specimenid": 7,
            "bold_recordset_code_arr": ["A", "DS-B"],
            "elev": 3,
            "country_iso": "NA",
            "country/ocean": "Namibia",
            "nuc": "AC",
            "nuc_basecount": 2,
            "x": {"y": None},
            "flag": False,
        }
    ]
    assert found.told == []


def test_bad_lines_are_named_and_the_others_go_on(convert: Convert):
    deep = "[" * 100_000
    found = convert(f'{{"processid":"A-26"}}\n{{"cut\n[1]\n{deep}\n{{"a":NaN}}\n{{"processid":"B-26"}}')
    assert [record["processid"] for record in found.records] == ["A-26", "B-26"]
    assert found.unread == [2, 3, 4, 5]


def test_bytes_that_are_not_utf8_are_not_guessed_at(convert: Convert):
    found = convert(b'{"processid":"A-26"}\n{"processid":"\x96"}\n')
    assert found.unread == [2]


def test_an_older_name_beside_the_present_one_is_kept(convert: Convert):
    found = convert('{"processid":"A-26","identification":"Aus","taxon_name":"Bus","province":"P"}')
    assert found.records == [
        {"processid": "A-26", "identification": "Aus", "taxon_name": "Bus", "province/state": "P"}
    ]


def test_what_does_not_fit_is_kept_and_told(convert: Convert):
    found = convert('{"processid":"A-26","elev":"high","coord":"[None, None]"}')
    assert found.records == [{"processid": "A-26", "elev": "high"}]
    assert found.told == [("not_a_number", 1)]
