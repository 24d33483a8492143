"""Distances against ape's numbers, plain Python, scikit-bio and Biopython."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from barcode.distances import (
    MIN_OVERLAP,
    NO_OVERLAP,
    SATURATED,
    Rule,
    all_pairs,
    group_rows,
    median_p,
    square,
)
from barcode.sequences import encode, read_sequence
from Bio.Align import MultipleSeqAlignment
from Bio.Phylo.TreeConstruction import DistanceCalculator
from Bio.Seq import Seq
from Bio.SeqRecord import SeqRecord
from hypothesis import given, settings
from hypothesis import strategies as st
from skbio import DNA, TabularMSA
from skbio.alignment import align_dists

from tests.methods.conftest import read_csv, read_fasta

MODELS = {"raw": "p", "JC69": "jc69", "K80": "k2p"}
SETS = ["woodmouse", "anoteropsis", "streptocephalus_mafft"]


def codes_of(texts: list[str]) -> np.ndarray:
    return np.vstack([encode(read_sequence(text)) for text in texts])


@st.composite
def alignments(draw: st.DrawFn, alphabet: str = "ACGTacgtuNRY-?") -> list[str]:
    columns, rows = draw(st.integers(1, 40)), draw(st.integers(2, 7))
    return [draw(st.text(alphabet, min_size=columns, max_size=columns)) for _ in range(rows)]


@st.composite
def related(draw: st.DrawFn, alphabet: str = "ACGT") -> list[str]:
    """Sequences that differ from a common one in a sixth of the columns, so that most pairs are defined."""
    common = draw(st.text("ACGT", min_size=12, max_size=120))
    rows = draw(st.integers(2, 6))
    made = []
    for _ in range(rows):
        letters = list(common)
        for place in draw(st.sets(st.integers(0, len(common) - 1), max_size=len(common) // 6)):
            letters[place] = draw(st.sampled_from(alphabet))
        made.append("".join(letters))
    return made


def plainly(one: str, other: str, model: str, kept: list[int]) -> float | None:
    """The formulas written down once more, letter by letter."""
    pairs = [(one[n].upper().replace("U", "T"), other[n].upper().replace("U", "T")) for n in kept]
    pairs = [(a, b) for a, b in pairs if a in "ACGT" and b in "ACGT"]
    if not pairs:
        return None
    differing = [{a, b} for a, b in pairs if a != b]
    ts = sum(pair in ({"A", "G"}, {"C", "T"}) for pair in differing) / len(pairs)
    p = len(differing) / len(pairs)
    tv = p - ts
    try:
        if model == "p":
            return p
        if model == "jc69":
            return None if p > 0.75 - 1e-12 else -0.75 * math.log(1 - 4 * p / 3)
        if 1 - 2 * ts - tv < 1e-12 or 1 - 2 * tv < 1e-12:
            return None
        return -0.5 * math.log(1 - 2 * ts - tv) - 0.25 * math.log(1 - 2 * tv)
    except ValueError:
        return None


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("deletion", ["pairwise", "complete"])
def test_every_pair_has_the_distance_and_the_counts_of_ape(reference: Path, name: str, deletion: str) -> None:
    folder = reference / "reference-numbers" / name
    codes = codes_of(list(read_fasta(folder / "input.fasta").values()))
    rows = read_csv(folder / "pairs.csv")
    for theirs, ours in MODELS.items():
        matrix = square(codes, Rule(model=ours, deletion=deletion))
        for row in rows:
            found = matrix[int(row["ia"]) - 1, int(row["ib"]) - 1]
            assert found == pytest.approx(float(row[f"{theirs}_{deletion}"]), abs=1e-9, nan_ok=True)
    counted = {}
    for pairs in all_pairs(codes, Rule(deletion=deletion), block=7):
        counts = zip(pairs.sites, pairs.transitions, pairs.transversions, strict=True)
        counted.update(zip(zip(pairs.i + 1, pairs.j + 1, strict=True), counts, strict=True))
    for row in rows:
        sites, transitions, transversions = counted[int(row["ia"]), int(row["ib"])]
        assert (transitions, transversions) == (int(row[f"TS_{deletion}"]), int(row[f"TV_{deletion}"]))
        assert deletion == "complete" or sites == int(row["sites_pairwise"])


@given(alignments(), st.sampled_from(["p", "jc69", "k2p"]), st.sampled_from(["pairwise", "complete"]))
@settings(max_examples=150)
def test_distances_are_those_of_the_formulas_letter_by_letter(
    texts: list[str], model: str, deletion: str
) -> None:
    matrix = square(codes_of(texts), Rule(model=model, deletion=deletion))
    columns = range(len(texts[0]))
    complete = [n for n in columns if all(text[n] in "ACGTacgtu" for text in texts)]
    kept = complete if deletion == "complete" else list(columns)
    for i, one in enumerate(texts):
        for j, other in enumerate(texts[:i]):
            expected = plainly(one, other, model, kept)
            assert matrix[i, j] == pytest.approx(
                math.nan if expected is None else expected, abs=1e-9, nan_ok=True
            )


@given(related("ACGTN-"))
@settings(max_examples=60)
def test_distances_are_those_of_scikit_bio(texts: list[str]) -> None:
    msa = TabularMSA([DNA(text) for text in texts], index=[f"s{n}" for n in range(len(texts))])
    for ours, theirs in (("p", "pdist"), ("jc69", "jc69"), ("k2p", "k2p")):
        expected = align_dists(msa, theirs, shared_by_all=False)
        assert square(codes_of(texts), Rule(model=ours)) == pytest.approx(
            expected.data, abs=1e-9, nan_ok=True
        )


@given(related())
@settings(max_examples=60)
def test_p_distances_are_those_of_biopython(texts: list[str]) -> None:
    records = [SeqRecord(Seq(text), id=f"s{n}") for n, text in enumerate(texts)]
    matrix = DistanceCalculator("identity").get_distance(MultipleSeqAlignment(records))
    ours = square(codes_of(texts), Rule(model="p"))
    assert all(
        ours[i, j] == pytest.approx(matrix[i, j], abs=1e-9)
        for i in range(len(texts))
        for j in range(len(texts))
    )


@given(alignments(), st.integers(1, 4))
@settings(max_examples=60)
def test_the_size_of_a_block_changes_nothing(texts: list[str], block: int) -> None:
    codes = codes_of(texts)
    seen = {}
    for pairs in all_pairs(codes, Rule(), block=block):
        for i, j, distance in zip(pairs.i.tolist(), pairs.j.tolist(), pairs.distance.tolist(), strict=True):
            assert i < j
            assert (i, j) not in seen
            seen[i, j] = distance
    assert len(seen) == len(texts) * (len(texts) - 1) // 2
    matrix = square(codes, Rule())
    assert all(distance == pytest.approx(matrix[pair], nan_ok=True) for pair, distance in seen.items())


def reasons(texts: list[str], rule: Rule) -> list[int]:
    return [int(reason) for pairs in all_pairs(codes_of(texts), rule) for reason in pairs.reason]


def test_a_pair_without_common_sites_has_no_distance() -> None:
    texts = ["ACGT----", "----ACGT"]
    assert reasons(texts, Rule()) == [NO_OVERLAP]
    assert np.isnan(square(codes_of(texts), Rule())[0, 1])


def test_a_pair_with_too_few_common_sites_has_no_distance() -> None:
    texts = ["ACGTAC--", "--GTACGT"]
    assert reasons(texts, Rule(min_overlap=5)) == [MIN_OVERLAP]
    assert reasons(texts, Rule(min_overlap=4)) == [0]


@pytest.mark.parametrize(
    ("one", "other", "model"),
    [
        ("AAAA", "CCCC", "k2p"),
        ("AAAA", "CCCA", "jc69"),  # p is exactly 3/4
        ("AAA", "GCA", "k2p"),  # 1 - 2P - Q is exactly 0, in floating point it is not
        ("AAAA", "GGAA", "k2p"),
        ("AAAA", "CCAA", "k2p"),
    ],
)
def test_a_saturated_pair_has_no_distance(one: str, other: str, model: str) -> None:
    assert reasons([one, other], Rule(model=model)) == [SATURATED]


def test_identical_sequences_have_distance_zero_without_a_sign() -> None:
    for model in ("p", "jc69", "k2p"):
        for pairs in all_pairs(codes_of(["ACGTN", "ACGTN"]), Rule(model=model)):
            assert not np.signbit(pairs.distance).any()
            assert pairs.distance.tolist() == [0.0]


def test_complete_deletion_with_one_unknown_sequence_leaves_nothing() -> None:
    assert reasons(["ACGT", "ACGA", "NNNN"], Rule(deletion="complete")) == [NO_OVERLAP] * 3


def test_rows_that_differ_in_unknown_letters_only_are_one_group() -> None:
    first, member = group_rows(codes_of(["ACGN", "AC-G", "ACG-", "ACGR", "ACGT"]), list("aaaba"))
    assert member.tolist() == [0, 1, 0, 2, 3]
    assert first.tolist() == [0, 1, 3, 4]


def test_the_median_distance_leaves_the_sequence_itself_out() -> None:
    medians = median_p(codes_of(["AAAAAAAAAA", "AAAAAAAAAC", "AAAAAAAACC", "NNNNNNNNNN"]))
    assert medians[:3] == pytest.approx([0.15, 0.1, 0.15])
    assert np.isnan(medians[3])
