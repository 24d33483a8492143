"""Diagnostic Characters: the worked example, spider's nucDiag, the definitions letter by letter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from barcode.diagnostic import CODES, Columns, bases, pure
from barcode.groups import Groups
from barcode.sequences import encode
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.methods.conftest import MethodRun, read_csv, read_fasta
from tests.methods.test_distance_summary import five, record, reference_records, refused

Method = Callable[[str], MethodRun]


@pytest.fixture
def diagnostic(method: Method) -> MethodRun:
    return method("diagnostic_characters")


def test_the_worked_example_has_its_codes(diagnostic: MethodRun, reference: Path) -> None:
    folder = reference / "reference-numbers" / "diagnostic_codes"
    groups = {row["id"]: row["group"] for row in read_csv(folder / "groups.csv")}
    records = [
        {"record_id": name, "marker_code": "COI-5P", "nuc": nuc, "species": groups[name]}
        for name, nuc in read_fasta(folder / "input.fasta").items()
    ]
    outcome = diagnostic(records, alignment="as_uploaded", min_length=0, min_group_size=1, list_codes="all")
    assert outcome.code == 0, outcome.printed
    found = {(row["position"], row["species"]): row for row in outcome.table("characters.tsv")}
    expected = {(row["position"], row["group"]): row for row in read_csv(folder / "expected.csv")}
    assert len(expected) == 24
    for place, row in expected.items():
        own = found.get(place)
        assert (own["code"] if own else "") == row["code"], (place, row["why"])
        assert (own["base"] if own else "") == row["consensus"]


@pytest.mark.parametrize("name", ["anoteropsis", "streptocephalus_mafft"])
def test_pure_characters_are_those_of_spider(diagnostic: MethodRun, reference: Path, name: str) -> None:
    folder = reference / "reference-numbers" / name
    records = [r for r in reference_records(folder) if r["species"]]
    outcome = diagnostic(records, alignment="as_uploaded", min_length=0, min_group_size=1)
    found = {(r["species"], int(r["position"])): r for r in outcome.table("pure.tsv")}
    fasta = read_fasta(folder / "input.fasta")
    for row in read_csv(folder / "nucDiag.csv"):
        states = set(row["states"].upper().split("/"))
        if not row["species"] or not states <= set("ACGT"):
            continue  # spider takes a missing name for a name, N and IUPAC letters for states
        column = {text[int(row["position_1based"]) - 1].upper() for text in fasta.values()}
        own = found.get((row["species"], int(row["position_1based"])))
        if own is None:
            assert name != "anoteropsis", (row, column)
            continue
        assert own["bases"].split("/") == sorted(states)


def test_pure_characters_of_the_example_of_sarkar(reference: Path) -> None:
    folder = reference / "reference-numbers" / "sarkar"
    texts, labels = [], []
    for block in (folder / "input.fasta").read_text(encoding="utf-8").split(">")[1:]:
        name, _, body = block.partition("\n")
        texts.append(list("".join(body.split()).upper().encode()))
        labels.append(name.strip()[:3])
    found = Columns(encode(np.array(texts, np.uint8)), Groups(labels))
    rows = {
        (
            found.groups.names[one.group],
            place + 1,
            bases(one.states[:, place]),
            bases(one.other_states[:, place]),
        )
        for one in found.all(1)
        for place in pure(one).tolist()
    }
    expected = {
        (r["species"], int(r["position_1based"]), r["states"].upper(), r["others"].upper())
        for r in read_csv(folder / "nucDiag.csv")
    }
    assert rows == expected


def plainly(column: list[tuple[str, str]], group: str) -> str:
    """The definition of the codes, group by group."""
    own = {base for base, label in column if label == group and base in "ACGT"}
    if len(own) != 1:
        return ""
    (consensus,) = own
    others = []
    for label in sorted({label for _, label in column} - {group}):
        members = [base for base, of in column if of == label]
        nc, na = members.count(consensus), sum(base not in "ACGT" for base in members)
        others.append((nc, na, len(members) - nc - na))
    if all(nc + no == 0 for nc, _, no in others):
        return "I"
    if any(nc > 0 and na == 0 and no == 0 for nc, na, no in others):
        return "U"
    if any(nc > 0 and na > 0 and no == 0 for nc, na, no in others):
        return "PU"
    if any(nc > 0 for nc, _, _ in others):
        return "P"
    return "DP" if any(na > 0 for _, na, _ in others) else "D"


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(st.text("ACGN-", min_size=6, max_size=6), st.sampled_from(["a", "b", "c", "d"])),
        min_size=2,
        max_size=12,
    ).filter(lambda rows: len({label for _, label in rows}) > 1)
)
def test_codes_are_those_of_the_definition(rows: list[tuple[str, str]]) -> None:
    groups = Groups([label for _, label in rows])
    found = Columns(encode(np.array([list(text.encode()) for text, _ in rows], np.uint8)), groups)
    for one in found.all(1):
        for place in range(6):
            column = [(text[place], label) for text, label in rows]
            assert CODES[one.codes[place]] == plainly(column, groups.names[one.group])


def test_one_group_or_none_is_refused(diagnostic: MethodRun) -> None:
    refused(diagnostic([record(n) for n in range(4)]), "all named ones are of one species")
    refused(diagnostic([record(n, None) for n in range(4)]), "none has a species name")


def test_small_groups_are_compared_with_but_have_no_characters(diagnostic: MethodRun) -> None:
    outcome = diagnostic(five(), min_group_size=2)
    assert [row["species"] for row in outcome.table("groups.tsv")] == ["Aus bus", "Bus dus"]
    assert "1 of 3" in outcome.notes
    refused(diagnostic(five()), "the largest has 2. Choose a smaller min_group_size.")
    outcome = diagnostic(five(), min_group_size=1)
    assert "with one record only: 1." in outcome.notes


def test_identical_sequences_have_no_diagnostic_character(diagnostic: MethodRun) -> None:
    records = [{**r, "nuc": five()[0]["nuc"]} for r in five()]
    outcome = diagnostic(records, min_group_size=1)
    assert outcome.table("characters.tsv") == []
    assert {row["U_columns"] for row in outcome.table("groups.tsv")} == {"658"}
    assert "has a diagnostic character" in outcome.report


def test_groups_may_be_countries(diagnostic: MethodRun) -> None:
    records = [record(n, **{"country/ocean": "NA" if n % 2 else "Côte d'Ivoire"}) for n in range(6)]
    outcome = diagnostic(records, group_by="country/ocean")
    assert [row["country/ocean"] for row in outcome.table("groups.tsv")] == ["Côte d'Ivoire", "NA"]
