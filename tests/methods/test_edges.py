"""The minimum edge list of DOMAIN 6 over methods: a report that says what happened, or a clear refusal."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.methods.conftest import ROOT, MethodRun, Outcome
from tests.methods.test_alignment import mutated, random_sequence
from tests.methods.test_distance_summary import record, refused
from tests.methods.test_report import outline

Method = Callable[[str], MethodRun]
Records = list[dict[str, Any]]
WHOLE = random_sequence(1)
# Title, and parameters that make a run quick.
METHODS: dict[str, dict[str, Any]] = {
    "accumulation_curve": {"count": "all", "iterations": 5},
    "barcode_gap": {},
    "bin_discordance": {},
    "cluster_sequences": {"linkage": "average"},
    "diagnostic_characters": {"min_group_size": 1},
    "geographic_distance": {"permutations": 9},
    "identification": {},
    "record_export": {},
    "sequence_composition": {},
    "taxon_id_tree": {"undefined_distances": "drop"},
}
EMPTY = {"nan", "NaN", "inf", "-inf", "-0", "None"}
SPECIES = ("Aus bus", "Aus bus", "Aus bus", "Aus cus", "Bus dus", "Bus dus", "Bus dus")


def placed(number: int, species: str | None = "Aus bus", **values: Any) -> dict[str, Any]:
    """A record with all that the methods look at: BIN, place and dates too."""
    found = {
        "bin_uri": f"BOLD:TST{len(species or ''):04d}",
        "coord": [10.5 + number, -20.25 + 2 * number],
        "processid_minted_date": f"2026-01-{1 + number % 28:02d}",
        "country/ocean": "Imaginaria",
    }
    return record(number, species, **{**found, **values})


def seven(**values: Any) -> Records:
    return [placed(n, species, **values) for n, species in enumerate(SPECIES, 1)]


def lines(records: Records, between: bytes = b"\n") -> bytes:
    return between.join(json.dumps(one).encode() for one in records)


ODD = "Aus b'us\" (x): a,b; c|d/é\t<script>alert(1)</script> " + "y" * 300
HALVES = [WHOLE[:300] + "-" * 358, "-" * 300 + WHOLE[300:]]
CASES: dict[str, Records | bytes] = {
    "one record": seven()[:1],
    "two records": seven()[:2],
    "one species": [placed(n) for n in range(6)],
    "single sequences only": [placed(n, f"Aus {'abcdef'[n]}us") for n in range(6)],
    "no species names": [placed(n, None) for n in range(5)],
    "no names at all": [placed(n, None, family=" ", identification=None) for n in range(5)],
    "all N": seven(nuc="N" * 658),
    "all gaps": seven(nuc="-" * 658),
    "no sequences": seven(nuc=None),
    "mixed markers": [placed(n, marker_code=("COI-5P", "16S", None)[n % 3]) for n in range(9)],
    "a record id twice": [*seven(), placed(1, nuc=WHOLE)],
    "a processid with two markers": [
        *seven(),
        placed(1, record_id="TEST001-26.16S", marker_code="16S", nuc=WHOLE[:400]),
    ],
    "lengths that differ": [placed(n, nuc=mutated(WHOLE, n, 0.03)[20 * n :]) for n in range(6)],
    "identical sequences": seven(nuc=WHOLE),
    "one place": seven(coord=[1.5, 2.5]),
    "no common sites": [placed(n, nuc=HALVES[n % 2]) for n in range(6)],
    "saturated": [placed(n, nuc=random_sequence(n + 50)) for n in range(5)],
    "odd names": [
        placed(1, ODD),
        placed(2, ODD, record_id='R"2\n<b>', bin_uri=ODD),
        placed(3, "Aus \x00bus\u2028cus"),
        placed(4, ODD, processid=ODD, genus="\ud800", **{"country/ocean": ODD}),
    ],
    "lower case and RNA": seven(nuc=WHOLE.lower().replace("t", "u")),
    "a byte order mark and Windows line ends": b"\xef\xbb\xbf" + lines(seven(), b"\r\n\r\n") + b"\r\n",
    "places as null and text": [
        placed(n, coord=(None, "[18.677, -88.395]", "1,2", "north", [91, 0], [0, 0], "", {})[n])
        for n in range(8)
    ],
    "unknown keys": seven(**{"a key of the future": {"x": [1]}, "": 3, "a\tb\n": [None, {}]}),
    "a field of five megabytes": [*seven()[:6], placed(9, notes="x" * (5 << 20))],
    "lines that are no records": b'{"half":\n' + lines(seven()) + b"\n<html>\n[1]\n\xff\xfe\n",
    "fields of odd kinds": [
        {**placed(n, bin_uri=n), "nuc": nuc, "species": species}
        for n, (nuc, species) in enumerate([(5, []), (["A"], 1), ({}, {}), (True, None), (WHOLE, "Aus bus")])
    ],
}


def sound(outcome: Outcome) -> None:
    """Either whole and consistent, or refused in one plain sentence."""
    assert "Traceback" not in outcome.printed
    assert "The method has a fault" not in outcome.printed
    if outcome.code:
        assert outcome.printed.strip().splitlines()[-1].endswith(".")
        return
    assert not (outcome.dir / "work").exists()
    html = outline(outcome.report)
    assert [tag for tag, _ in html.tags].count("script") == 1
    assert not {"nan", "None", "inf"} & set(html.text.split())
    run = outcome.json("run.json")
    records = run["records"]
    assert records["read"] == records["used"] + sum(records["left_out"].values())
    assert records["used"] == len(outcome.rows("records_used.jsonl"))
    assert records["read"] - records["used"] == len(outcome.rows("records_left_out.jsonl"))
    assert run["parameters"].keys() == outcome_parameters(outcome)
    for path in outcome.dir.glob("*.tsv"):
        if path.name == "export.tsv":  # its cells are the user's
            continue
        head, *rows = path.read_text(encoding="utf-8").split("\n")
        assert rows.pop() == ""
        for row in rows:
            cells = row.split("\t")
            assert len(cells) == len(head.split("\t")), path.name
            assert not EMPTY & set(cells), (path.name, row)


def outcome_parameters(outcome: Outcome) -> set[str]:
    title = outcome.dir.parent.name
    method = json.loads((ROOT / "methods" / title / "method.json").read_text(encoding="utf-8"))
    return set(method["parameters"]["properties"])


@pytest.mark.parametrize("title", METHODS)
def test_no_records_at_all_are_refused(method: Method, title: str) -> None:
    refused(method(title)([], **METHODS[title]), "0 of 0 records can be used")
    refused(method(title)(b"\n\n", **METHODS[title]), "0 of 0 records can be used")
    refused(method(title)(b"<html>\n503\n", **METHODS[title]), "0 of 2 records can be used")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("title", METHODS)
def test_odd_records_end_in_a_sound_report_or_a_refusal(method: Method, title: str, case: str) -> None:
    sound(method(title)(CASES[case], **METHODS[title]))


@pytest.mark.parametrize("title", sorted(METHODS.keys() - {"accumulation_curve", "bin_discordance"}))
def test_a_sequence_that_is_no_text_is_named_in_report_and_tables(method: Method, title: str) -> None:
    records = [*seven(), placed(8, record_id="EIGHTH", nuc=123)]
    outcome = method(title)(records, **METHODS[title])
    assert outcome.code == 0, outcome.printed
    told = "nuc is a number, no text"
    text = outline(outcome.report).text
    assert "EIGHTH" in text
    assert told in text
    if title == "record_export":
        assert f"EIGHTH ({told})" in outcome.notes
        return
    [left_out] = [row for row in outcome.rows("records_left_out.jsonl") if row["record_id"] == "EIGHTH"]
    assert (left_out["reason"], left_out["detail"]) == ("no_sequence", told)
    if title == "identification":
        [query] = [row for row in outcome.table("identification.tsv") if row["query_record_id"] == "EIGHTH"]
        assert (query["status"], query["flags"]) == ("no sequence", told)


@pytest.mark.parametrize("title", METHODS)
def test_a_wrong_parameter_is_refused(method: Method, title: str) -> None:
    refused(method(title)(seven(), nonsense=1), "Unknown parameter nonsense")


@pytest.mark.parametrize("title", METHODS)
def test_the_same_records_give_the_same_files(method: Method, title: str) -> None:
    first, second = (method(title)(seven(), **METHODS[title]) for _ in range(2))
    assert first.code == 0, first.printed
    for path in first.dir.iterdir():
        assert path.read_bytes() == (second.dir / path.name).read_bytes(), path.name


@pytest.mark.parametrize("title", METHODS)
def test_what_cannot_fit_is_refused_with_numbers(
    method: Method, title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barcode.size.memory_allowed", lambda job: 1 << 20)
    refused(method(title)(seven(), **METHODS[title]), "GiB of memory, the method may use 0.0 GiB")


def five_thousand() -> Records:
    """Few different sequences, so that the test is quick; 40 species in BINs of their own."""
    haplotypes = [
        [mutated(mutated(WHOLE, 1000 + n, 0.08), 2000 + 10 * n + k, 0.004) for k in range(3)]
        for n in range(40)
    ]
    return [
        placed(
            n,
            f"G{'abcd'[n % 4]}us {chr(97 + n % 40 // 4)}us",
            processid=f"TEST{n:05d}-26",
            record_id=f"TEST{n:05d}-26.COI-5P",
            nuc=haplotypes[n % 40][n // 40 % 3],
            bin_uri=f"BOLD:BIG{n % 40:04d}",
            coord=[(n % 90) / 2, n % 170],
        )
        for n in range(5000)
    ]


@pytest.mark.parametrize("title", METHODS)
def test_five_thousand_records(method: Method, title: str) -> None:
    outcome = method(title)(five_thousand(), **METHODS[title])
    assert outcome.code == 0, outcome.printed
    sound(outcome)
    assert outcome.json("run.json")["records"]["used"] == 5000


@pytest.mark.parametrize("title", METHODS)
def test_real_records_go_through(method: Method, reference: Any, title: str) -> None:
    outcome = method(title)(reference / "data" / "streptocephalus.bcdm.jsonl", **METHODS[title])
    sound(outcome)
    assert outcome.code == 0, outcome.printed


@pytest.mark.parametrize("title", METHODS)
def test_the_sample_goes_through(method: Method, title: str) -> None:
    sample = ROOT / "methods" / title / "sample"
    given = json.loads((sample / "params.json").read_text(encoding="utf-8"))
    outcome = method(title)(sample / "records.jsonl", **{**given, **METHODS[title]})
    assert outcome.code == 0, outcome.printed
    sound(outcome)
    assert "SIMULATED" in (sample / "README.md").read_text(encoding="utf-8")
