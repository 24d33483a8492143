"""Single values of exports: what they are read as, and what is said of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioanalysis.conversion import values


@pytest.mark.parametrize("text", ["", "None", " ", "\t", "\u00a0", "  \r"])
def test_a_value_may_be_missing_in_several_ways(text: str):
    assert values.is_missing(text)


@pytest.mark.parametrize("text", ["NA", "null", "none", "-", "0", "None.", "nan"])
def test_other_words_are_values(text: str):
    assert not values.is_missing(text)


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("12", 12, None),
        (" -3 ", -3, None),
        ("2931994.0", 2931994, "whole_number"),
        ("1e+05", 100_000, "whole_number"),
        ("2.5", "2.5", "not_a_number"),
        ("12a", "12a", "not_a_number"),
        ("1_000", "1_000", "not_a_number"),
        ("²", "²", "not_a_number"),
        ("nan", None, "not_finite"),
        ("9" * 5000, "9" * 5000, "not_a_number"),
    ],
)
def test_integers(text: str, value: object, kind: str | None):
    assert values.integer(text) == (value, kind)


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("1045.0", 1045.0, None),
        ("276", 276, None),
        ("-.5", -0.5, None),
        ("1e-3", 0.001, None),
        ("Inf", None, "not_finite"),
        ("-NaN", None, "not_finite"),
        ("1e999", "1e999", "not_a_number"),
        ("10 m", "10 m", "not_a_number"),
        ("1,5", "1,5", "not_a_number"),
        ("0x10", "0x10", "not_a_number"),
    ],
)
def test_numbers(text: str, value: object, kind: str | None):
    found = values.number(text)
    assert found == (value, kind)
    assert type(found.value) is type(value)


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("[18.677, -88.395]", [18.677, -88.395], None),
        ("(18.677,-88.395)", [18.677, -88.395], None),
        ("18.677,-88.395", [18.677, -88.395], None),
        (" [ 65 , 25.8 ] ", [65, 25.8], None),
        ("[None, None]", None, "missing"),
        ("[91.0, 0.0]", [91.0, 0.0], "outside_globe"),
        ("[0, -181]", [0, -181], "outside_globe"),
        ("[1, 2", "[1, 2", "not_coordinates"),
        ("[1, 2, 3]", "[1, 2, 3]", "not_coordinates"),
        ("[1, None]", "[1, None]", "not_coordinates"),
        ("north, 2", "north, 2", "not_coordinates"),
        ("12", "12", "not_coordinates"),
    ],
)
def test_coordinates_are_latitude_and_longitude_however_written(text: str, value: object, kind: str | None):
    assert values.coord(text) == (value, kind)


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("['AAI', 'DS-MOB113']", ["AAI", "DS-MOB113"], None),
        ('["AAI", "DS-MOB113"]', ["AAI", "DS-MOB113"], None),
        ("['AAI' 'DS-MOB113'\n 'DS-X']", ["AAI", "DS-MOB113", "DS-X"], None),
        ("('AAI',)", ["AAI"], None),
        ("[AAI, DS-X]", ["AAI", "DS-X"], None),
        ("AAI,DS-X", ["AAI", "DS-X"], None),
        ("AAI", ["AAI"], None),
        (
            r"""["it's", 'a\'b', 'tab\there', '\xe9\u00e9', '\q']""",
            ["it's", "a'b", "tab\there", "éé", r"\q"],
            None,
        ),
        ("['A', None, '']", ["A"], None),
        ("[]", None, "missing"),
        ("[None]", None, "missing"),
        ("['A'", "['A'", "not_a_list"),
        ("['A' B]", "['A' B]", "not_a_list"),
        ("['A', __import__('os').system('x')]", "['A', __import__('os').system('x')]", "not_a_list"),
        ("['a', ['b']]", "['a', ['b']]", "not_a_list"),
        ("[C_LepFolF:ATTCAACCAATCATAAAGATATTGG]", ["C_LepFolF:ATTCAACCAATCATAAAGATATTGG"], None),
    ],
)
def test_lists_are_read_and_never_evaluated(text: str, value: object, kind: str | None):
    assert values.strings(text) == (value, kind)


@given(st.lists(st.text(min_size=1).filter(lambda text: not values.is_missing(text))))
def test_a_list_as_python_writes_it_comes_back(items: list[str]):
    surrogates = any(0xD800 <= ord(character) < 0xE000 for item in items for character in item)
    if not surrogates:
        assert values.strings(repr(items)).value == (items or None)


def test_a_long_list_and_a_long_bad_one_take_no_time():
    many = "['" + "', '".join(["A" * 20] * 100_000) + "']"
    assert len(values.strings(many).value) == 100_000
    assert values.strings("['" + "a" * 2_000_000).kind == "not_a_list"
    assert values.strings("[" * 2_000_000 + "]").kind == "not_a_list"


def test_values_between_bars_keep_their_places():
    assert values.barred("1||3").value == ["1", "", "3"]


@pytest.mark.parametrize("text", ["GuenÃ©e, 1858", "MÃ¼ller", "â€œtype"])
def test_text_encoded_twice_is_told_and_kept(text: str):
    assert values.text(text) == (text, "double_encoded")


@pytest.mark.parametrize("text", ["Guenée", "plain", "São João", "中文", "é" * 20_000])
def test_good_text_is_not_told(text: str):
    assert values.text(text) == (text, None)


@pytest.mark.parametrize("nuc", ["ACGT", "acgtn-", "RYSWKMBDHV", "A?.*~U", ""])
def test_every_code_of_a_nucleotide_is_one(nuc: str):
    assert values.nucleotides(nuc).kind is None


@pytest.mark.parametrize("nuc", ["ACG T", "ACGE", "1 acgt", "É"])
def test_other_characters_are_told_and_kept(nuc: str):
    assert values.nucleotides(nuc) == (nuc, "odd_characters")


def test_bases_are_counted_without_gaps_and_ambiguities():
    assert values.base_count("--ACgtNNRYacgtU-") == 8
