"""Accumulation Curve: the exact expectation against fractions and all orders, simulation, groups, order."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from math import comb
from pathlib import Path

import numpy as np
import pytest
from barcode.accumulation import chao1, collected, expected, grid, simulated
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.methods.conftest import MethodRun
from tests.methods.test_edges import placed

Method = Callable[[str], MethodRun]


def by_fractions(kinds: list[int], k: int) -> tuple[Fraction, Fraction]:
    total = sum(kinds)

    def absent(size: int) -> Fraction:
        return Fraction(comb(total - size, k), comb(total, k)) if total >= size else Fraction(0)

    q = [absent(size) for size in kinds]
    variance = sum((one * (1 - one) for one in q), Fraction(0))
    for i, j in itertools.permutations(range(len(kinds)), 2):
        variance += absent(kinds[i] + kinds[j]) - q[i] * q[j]
    return sum((1 - one for one in q), Fraction(0)), variance


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=8))
def test_mean_and_variance_are_those_of_exact_fractions(kinds: list[int]) -> None:
    points = np.arange(1, sum(kinds) + 1)
    found = expected(np.array(kinds), points)
    for k in points.tolist():
        mean, variance = by_fractions(kinds, k)
        assert found.mean[k - 1] == pytest.approx(float(mean), abs=1e-12)
        assert found.sd[k - 1] == pytest.approx(float(variance) ** 0.5, abs=1e-7)
    assert found.sd[-1] == 0


def test_the_expectation_is_the_mean_over_all_orders() -> None:
    samples, points = [0, 0, 1, 1, 1, 2], np.arange(1, 7)
    curves = np.array([collected(np.array(order), points) for order in itertools.permutations(samples)])
    found = expected(np.bincount(samples), points)
    assert found.mean == pytest.approx(curves.mean(axis=0))
    assert found.sd == pytest.approx(curves.std(axis=0))


def test_random_orders_come_near_the_expectation_and_depend_on_the_seed_only() -> None:
    samples = np.repeat(np.arange(40), np.arange(1, 41) % 7 + 1)
    points = grid(samples.size, 20)
    runs = [simulated(samples, points, 2000, seed, lambda done: None) for seed in (1, 1, 2)]
    assert (runs[0] == runs[1]).all()
    assert (runs[0] != runs[2]).any()
    exact = expected(np.bincount(samples), points)
    assert np.abs(runs[0].mean(axis=0) - exact.mean).max() < 0.2
    assert np.abs(runs[0].std(axis=0) - exact.sd).max() < 0.2


def test_chao1_with_and_without_doubles() -> None:
    assert chao1(np.array([1, 1, 1, 2, 5])) == 5 + 9 / 2
    assert chao1(np.array([1, 1, 1, 5])) == 4 + 3
    assert chao1(np.array([3, 3])) == 2


def test_real_records_give_the_known_numbers(method: Method, reference: Path) -> None:
    outcome = method("accumulation_curve")(reference / "data" / "ukbol_sample.bcdm.jsonl", count="all")
    assert outcome.code == 0, outcome.printed
    points = {(row["counted"], row["samples"]): row for row in outcome.table("accumulation.tsv")}
    species = points["species", "100"]
    assert float(species["expected_kinds"]) == pytest.approx(71.71514464884673, abs=1e-9)
    assert float(species["sd_kinds"]) == pytest.approx(3.76343678185918, abs=1e-9)
    assert float(species["simulated_mean_kinds"]) == pytest.approx(71.7, abs=1.5)
    ends = {row["counted"]: (row["samples"], row["kinds"]) for row in outcome.table("summary.tsv")}
    assert ends == {
        "species": ("604", "227"), "genus": ("815", "192"),
        "subfamily": ("328", "17"), "bin_uri": ("939", "435"),
    }  # fmt: skip
    assert "Samples without species, left out of that curve: 378 of 982." in outcome.notes


def test_the_order_of_submission_is_by_date_then_as_in_the_file(method: Method) -> None:
    dates = {"Aus bus": "2026-01-03", "Aus cus": "2026-01-01", "Aus dus": None}
    kinds = ["Aus dus", "Aus bus", "Aus cus", "Aus cus", "Aus bus"]
    records = [placed(n, kind, processid_minted_date=dates[kind]) for n, kind in enumerate(kinds)]
    outcome = method("accumulation_curve")(records, order="submission")
    found = [row["submission_order_kinds"] for row in outcome.table("accumulation.tsv")]
    assert found == ["1", "1", "2", "2", "3"]
    assert "Records without processid_minted_date: 1 of 5" in outcome.notes


def test_groups_have_curves_of_their_own_and_those_beyond_are_named(method: Method) -> None:
    records = [placed(n, f"Aus {'ab'[n % 2]}us", **{"country/ocean": f"Land {n % 3}"}) for n in range(11)]
    outcome = method("accumulation_curve")(records, group_by="country/ocean", max_curves=2)
    assert [row["group"] for row in outcome.table("summary.tsv")] == ["Land 0", "Land 1"]
    assert "Groups without a curve, as there are more than max_curves: 1: Land 2 (3)" in outcome.notes


def test_any_field_can_be_counted(method: Method) -> None:
    records = [placed(n, None, short_note=note) for n, note in enumerate(["a", "b", "a", None])]
    outcome = method("accumulation_curve")(records, count="extra_info")
    (row,) = outcome.table("summary.tsv")
    assert (row["curve"], row["samples"], row["kinds"]) == ("short_note", "3", "2")
    assert outcome.json("run.json")["records"]["left_out"] == {"no_value": 1}
