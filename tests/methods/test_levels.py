"""Summaries by level against the reference tables, and against all values held at once."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from barcode.distances import DEFINED, Rule, all_pairs
from barcode.levels import RANKS, Taxa
from barcode.sequences import encode, read_sequence
from barcode.statistics import GroupedSummary, Quantiles
from barcode.summary import ALL, DistanceSummary
from barcode.taxa import Names
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.methods.conftest import read_csv, read_fasta
from tests.methods.test_distances import MODELS, SETS, alignments, codes_of


def summarise(codes: np.ndarray, names: list[Names], **rule: object) -> DistanceSummary:
    summary = DistanceSummary(codes, Taxa(names), Rule(**rule), bin_percent=0.5, extremes=10)
    summary.run(lambda done, total: None)
    return summary


def number(text: str) -> float:
    return math.nan if text == "NA" else float(text)


@pytest.mark.parametrize("name", SETS[1:])
@pytest.mark.parametrize("model", ["raw", "K80"])
@pytest.mark.parametrize("deletion", ["pairwise", "complete"])
def test_levels_are_those_of_the_reference(reference: Path, name: str, model: str, deletion: str) -> None:
    folder = reference / "reference-numbers" / name
    species = {row["id"]: row for row in read_csv(folder / "species.csv")}
    fasta = read_fasta(folder / "input.fasta")
    names = [Names(*(species[key][rank] or None for rank in RANKS)) for key in fasta]
    summary = summarise(codes_of(list(fasta.values())), names, model=MODELS[model], deletion=deletion)
    for row in read_csv(folder / f"levels_{model}_{deletion}.csv"):
        level = RANKS.index(row["level"])
        assert summary.taxa.compared(row["level"]).sum() == int(row["sequences"])
        assert np.count_nonzero(summary.by_taxon[row["level"]].count) == int(row["taxa"])
        assert summary.levels.count[level] == int(row["n"])
        assert summary.undefined[level].sum() == int(row["undefined"])
        for key in ("min", "mean", "max", "sd", "se"):
            found = getattr(summary.levels, key)[level]
            assert found == pytest.approx(number(row[key]), abs=1e-9, nan_ok=True), key
        quartiles = summary.quantiles[level].quartiles()
        for key in ("q1", "median", "q3"):
            found = math.nan if quartiles is None else getattr(quartiles, key)
            assert found == pytest.approx(number(row[key]), abs=1e-9, nan_ok=True), key
        means = summary.by_taxon[row["level"]].mean
        means = means[~np.isnan(means)]
        expected = number(row["mean_of_group_means"])
        assert (means.mean() if means.size else math.nan) == pytest.approx(expected, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize("name", SETS)
def test_all_pairs_are_those_of_the_reference(reference: Path, name: str) -> None:
    folder = reference / "reference-numbers" / name
    codes = codes_of(list(read_fasta(folder / "input.fasta").values()))
    for row in read_csv(folder / "distance_stats.csv"):
        if row["model"] not in MODELS:
            continue
        names = [Names(None, None, None)] * len(codes)
        summary = summarise(codes, names, model=MODELS[row["model"]], deletion=row["deletion"])
        quartiles = summary.quantiles[ALL].quartiles()
        assert quartiles is not None
        assert quartiles.exact
        assert summary.levels.count[ALL] + summary.undefined[ALL].sum() == len(codes) * (len(codes) - 1) // 2
        for key in ("min", "mean", "max", "sd", "se"):
            assert getattr(summary.levels, key)[ALL] == pytest.approx(number(row[key]), abs=1e-9)
        for key in ("q1", "median", "q3"):
            assert getattr(quartiles, key) == pytest.approx(number(row[key]), abs=1e-9)


names_drawn = st.builds(
    Names,
    st.sampled_from([None, "A a", "A b", "B a", "B b"]),
    st.sampled_from([None, "A", "B", "C"]),
    st.sampled_from([None, "F", "G"]),
)


def level_plainly(one: Names, other: Names) -> int:
    if one.species and one.species == other.species:
        return 0
    if one.genus and one.genus == other.genus and one.species and other.species:
        return 1
    if one.family and one.family == other.family and one.genus and other.genus and one.genus != other.genus:
        return 2
    return 3


@given(alignments("ACGTN"), st.data())
@settings(max_examples=100)
def test_records_that_are_alike_count_as_often_as_they_occur(texts: list[str], data: st.DataObject) -> None:
    texts = texts + texts[:3]
    names = [data.draw(names_drawn) for _ in texts]
    codes = codes_of(texts)
    summary = summarise(codes, names, model="p")
    values: dict[int, list[float]] = {0: [], 1: [], 2: [], 3: []}
    missing = dict.fromkeys(values, 0)
    for pairs in all_pairs(codes, Rule(model="p")):
        for i, j, distance, reason in zip(pairs.i, pairs.j, pairs.distance, pairs.reason, strict=True):
            level = level_plainly(names[i], names[j])
            for group in {level, ALL}:
                if reason == DEFINED:
                    values[group].append(float(distance))
                else:
                    missing[group] += 1
    for group, found in values.items():
        assert summary.levels.count[group] == len(found)
        assert summary.undefined[group].sum() == missing[group]
        assert summary.histogram[group].sum() == len(found)
        if found:
            assert summary.levels.mean[group] == pytest.approx(np.mean(found))
            assert (summary.levels.min[group], summary.levels.max[group]) == (min(found), max(found))
            quartiles = summary.quantiles[group].quartiles()
            assert quartiles is not None
            expected = np.quantile(found, [0.25, 0.5, 0.75])
            assert [quartiles.q1, quartiles.median, quartiles.q3] == pytest.approx(expected)
        if len(found) > 1:
            assert summary.levels.sd[group] == pytest.approx(np.std(found, ddof=1), abs=1e-9)
    if values[0]:
        assert summary.normalised().sum() == pytest.approx(1)
        assert summary.farthest.rows[0, 0] == max(values[0])


def test_blocks_of_many_rows_give_what_one_block_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(3)
    codes = random.integers(0, 5, (90, 60)).astype(np.uint8)
    names = [Names(f"G{n % 7} s{n % 13}", f"G{n % 7}", f"F{n % 3}") for n in range(90)]
    whole = summarise(codes, names, model="p")
    monkeypatch.setattr("barcode.summary.all_pairs", lambda codes, rule: all_pairs(codes, rule, block=8))
    parts = summarise(codes, names, model="p")
    for key in ("count", "min", "mean", "max", "sd"):
        assert getattr(parts.levels, key) == pytest.approx(getattr(whole.levels, key), nan_ok=True)
    assert (parts.histogram == whole.histogram).all()
    assert parts.farthest.rows == pytest.approx(whole.farthest.rows)


def test_equal_values_have_a_deviation_of_exactly_zero() -> None:
    summary = GroupedSummary(1)
    for _ in range(50):
        summary.add(np.zeros(1000, np.int64), np.full(1000, 0.1234567), np.full(1000, 10**6))
    assert summary.sd[0] == 0
    assert summary.mean[0] == 0.1234567


def test_quantiles_that_do_not_fit_are_close_and_say_so() -> None:
    random = np.random.default_rng(5)
    values, weights = random.gamma(2, 0.05, 20_000), random.integers(1, 4, 20_000)
    exact, coarse = Quantiles(), Quantiles(limit=3000)
    for start in range(0, 20_000, 1000):
        for one in (exact, coarse):
            one.add(values[start : start + 1000], weights[start : start + 1000])
    first, second = exact.quartiles(), coarse.quartiles()
    assert first is not None
    assert second is not None
    assert (first.exact, second.exact) == (True, False)
    expected = np.quantile(np.repeat(values, weights), [0.25, 0.5, 0.75])
    assert [first.q1, first.median, first.q3] == pytest.approx(expected)
    assert [second.q1, second.median, second.q3] == pytest.approx(expected, abs=1e-5)


def test_codes_of_a_text_and_its_lower_case_rna_are_the_same() -> None:
    assert (encode(read_sequence("acgu-n")) == encode(read_sequence("ACGT-N"))).all()
