"""Sequence Composition: ape's counts, codon positions, reading frames."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from barcode.codons import STOPS, backbone, best, frames, positions
from barcode.sequences import encode, read_sequence
from Bio.Data import CodonTable
from Bio.SeqUtils import gc_fraction
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.methods.conftest import MethodRun, read_csv, read_fasta
from tests.methods.test_alignment import mutated
from tests.methods.test_distance_summary import five, record

Method = Callable[[str], MethodRun]


@pytest.fixture
def composition(method: Method) -> MethodRun:
    return method("sequence_composition")


def codes_of(texts: list[str]) -> np.ndarray:
    return encode(np.array([read_sequence(text) for text in texts]))


@pytest.mark.parametrize("name", ["woodmouse", "anoteropsis", "streptocephalus_mafft"])
def test_counts_and_gc_are_those_of_the_reference(composition: MethodRun, reference: Path, name: str) -> None:
    folder = reference / "reference-numbers" / name
    fasta = read_fasta(folder / "input.fasta")
    records = [{"record_id": key, "marker_code": "COI-5P", "nuc": nuc} for key, nuc in fasta.items()]
    outcome = composition(records, alignment="as_uploaded", min_length=0, codon_position="1")
    assert outcome.code == 0, outcome.printed
    found = {row["record_id"]: row for row in outcome.table("composition.tsv")}
    names = {"A": "A_count", "C": "C_count", "G": "G_count", "T": "T_count", "N_or_q": "N_count"}
    names |= {"gap": "gap_count", "other_iupac": "other_count", "columns": "columns"}
    facts = outcome.json("run.json")["composition"]
    for row in read_csv(folder / "composition.csv"):
        percent = pytest.approx(float(row["GC_percent"]), abs=1e-7)
        if row["id"] in found:
            own = found[row["id"]]
            assert {key: own[mine] for key, mine in names.items()} == {key: row[key] for key in names}
            assert float(own["GC_percent"]) == percent
        elif row["id"] == "ALL":
            assert facts["pooled"]["GC"] == percent
            counts = facts["pooled_counts"]
            assert [counts[base] for base in "ACGT"] == [int(row[base]) for base in "ACGT"]
        else:
            assert facts["pooled"][f"GC{row['id'][-1]}"] == percent


def test_mean_and_pooled_gc_are_told_apart(composition: MethodRun) -> None:
    records = [record(1, nuc="GC" * 200 + "-" * 400), record(2, nuc="AT" * 400)]
    outcome = composition(records, alignment="as_uploaded", codon_position="none")
    row = next(r for r in outcome.table("summary.tsv") if r["figure"] == "GC%")
    assert (row["mean_percent"], row["min_percent"], row["max_percent"]) == ("50", "0", "100")
    assert float(row["pooled_percent"]) == pytest.approx(100 / 3)
    assert float(row["se_percent"]) == pytest.approx(50)
    assert {r["GC1_percent"] for r in outcome.table("composition.tsv")} == {""}


def test_one_record_has_a_composition_without_a_spread(composition: MethodRun) -> None:
    outcome = composition(five()[:1], codon_position="3")
    row = outcome.table("summary.tsv")[0]
    assert row["sequences"] == "1"
    assert row["se_percent"] == row["sd_percent"] == ""


def test_the_real_barcodes_begin_at_codon_position_three(composition: MethodRun, reference: Path) -> None:
    """Their third positions have little GC, their second ones much, as 12.4 and 40.7 % of a part of them."""
    outcome = composition(reference / "data" / "ukbol_sample.bcdm.jsonl")
    facts = outcome.json("run.json")["composition"]
    used = [f for f in facts["frames"] if f["first_codon_position"] == facts["first_codon_position"]]
    others = [f for f in facts["frames"] if f["first_codon_position"] != facts["first_codon_position"]]
    assert used[0]["sequences_with_stop_codons"] < 100 < min(f["sequences_with_stop_codons"] for f in others)
    assert facts["pooled"]["GC3"] < 20 < 35 < facts["pooled"]["GC2"]


def coding(seed: int, codons: int = 100) -> str:
    """A gene without stop codons in its frame, by code 5."""
    random, made = np.random.default_rng(seed), []
    while len(made) < codons:
        codon = "".join(random.choice(list("ACGT"), 3))
        if codon not in STOPS[5]:
            made.append(codon)
    return "".join(made)


@pytest.mark.parametrize("shift", [0, 1, 2])
def test_the_frame_is_found_wherever_the_first_codon_begins(composition: MethodRun, shift: int) -> None:
    gene = coding(4)
    records = [record(n, nuc=gene[shift:]) for n in range(3)]
    facts = composition(records).json("run.json")["composition"]
    assert facts["first_codon_position"] == shift + 1


def test_an_insertion_in_one_sequence_shifts_no_frame() -> None:
    gene = coding(5)
    texts = [gene[:90] + "-" + gene[90:]] * 4 + [gene[:90] + "A" + gene[90:]]
    codes = codes_of(texts)
    kept = backbone(codes)
    assert np.flatnonzero(~kept).tolist() == [90]
    assert best(frames(codes, kept, 5)).first == 1
    place = positions(kept, 1)
    assert place[89:93].tolist() == [3, 0, 1, 2]


def test_what_is_no_gene_has_no_codon_positions(composition: MethodRun) -> None:
    outcome = composition([record(n) for n in range(4)])
    assert outcome.json("run.json")["composition"]["first_codon_position"] is None
    assert "so no codon positions are told" in outcome.notes
    assert {row["sequences"] for row in outcome.table("summary.tsv")[5:]} == {"0"}


def test_columns_that_are_empty_in_all_count_for_the_frame_as_uploaded(composition: MethodRun) -> None:
    gene = coding(6)
    records = [record(n, nuc="--" + gene) for n in range(2)]
    facts = composition(records, alignment="as_uploaded").json("run.json")["composition"]
    assert (facts["columns"], facts["first_codon_position"]) == (302, 2)


def test_stop_codons_are_those_of_the_genetic_codes() -> None:
    for number, codons in STOPS.items():
        assert set(CodonTable.unambiguous_dna_by_id[number].stop_codons) == set(codons)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text("ACGTNRY-", min_size=9, max_size=30), min_size=1, max_size=5).filter(
        lambda texts: len({len(t) for t in texts}) == 1
    )
    | st.integers(9, 30).flatmap(
        lambda n: st.lists(st.text("ACGTNRY-", min_size=n, max_size=n), min_size=1, max_size=5)
    )
)
def test_figures_are_those_of_biopython(texts: list[str]) -> None:
    from barcode.composition import COUNTS, counts, gc, summary

    letters = np.array([read_sequence(text) for text in texts])
    found = counts(letters, encode(letters))
    for text, row, percent in zip(texts, found, gc(found), strict=True):
        expected = [text.count(c) for c in "ACGTN-"]
        assert row.tolist() == [*expected, sum(text.count(c) for c in "RY")]
        assert row.sum() == len(text)
        plain = "".join(c for c in text if c in "ACGT")
        if plain:
            assert percent == pytest.approx(100 * gc_fraction(plain), abs=1e-9)
        else:
            assert np.isnan(percent)
    told: dict[str, Any] = summary(gc(found))
    assert told["n"] == np.count_nonzero(~np.isnan(gc(found)))
    assert len(COUNTS) == found.shape[1]


def test_groups_hold_the_means_of_their_records(composition: MethodRun) -> None:
    records = [record(n, "Aus bus" if n < 2 else None, nuc=mutated(coding(7), n, 0.02)) for n in range(4)]
    outcome = composition(records, codon_position="1")
    (row,) = outcome.table("groups.tsv")
    rows = outcome.table("composition.tsv")[:2]
    assert row["sequences"] == "2"
    mean = sum(float(r["GC3_percent"]) for r in rows) / 2
    assert float(row["mean_GC3_percent"]) == pytest.approx(mean, abs=1e-9)
    assert "in no row by group: 2" in outcome.notes
