"""Barcode Gap Analysis: the numbers of spider and ape, ties, single sequences, thresholds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from barcode.distances import Rule, square
from barcode.groups import Groups
from barcode.nearest import MOST_TIES, NearestGroups
from barcode.sequences import encode
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.methods.conftest import ROOT, MethodRun, Outcome, read_csv
from tests.methods.test_alignment import mutated, random_sequence
from tests.methods.test_distance_summary import record, reference_records
from tests.methods.test_distances import MODELS

Method = Callable[[str], MethodRun]
WHOLE = random_sequence(1)


def percent(text: str) -> float:
    return 100 * float(text)


def same(found: str, expected: str) -> None:
    if expected in {"NA", "Inf", "NaN"}:
        assert found == ""
    else:
        assert float(found) == pytest.approx(percent(expected), abs=1e-7)


def of_reference(method: Method, folder: Path, model: str, deletion: str) -> Outcome:
    outcome = method("barcode_gap")(
        list(reference_records(folder)),
        alignment="as_uploaded",
        distance_model=MODELS[model],
        deletion=deletion,
        min_length=0,
    )
    assert outcome.code == 0, outcome.printed
    return outcome


@pytest.mark.parametrize("name", ["anoteropsis", "streptocephalus_mafft"])
@pytest.mark.parametrize("model", ["raw", "K80"])
@pytest.mark.parametrize("deletion", ["pairwise", "complete"])
def test_the_tables_hold_the_reference_numbers(
    method: Method, reference: Path, name: str, model: str, deletion: str
) -> None:
    folder = reference / "reference-numbers" / name
    outcome = of_reference(method, folder, model, deletion)
    found = {row["species"]: row for row in outcome.table("barcode_gap.tsv")}
    expected = read_csv(folder / f"barcodegap_{model}_{deletion}.csv")
    assert found.keys() == {row["species"] for row in expected}
    for row in expected:
        own = found[row["species"]]
        assert own["sequences"] == row["n"]
        assert own["nearest_groups"] == row["nearest_species"]
        assert own["nearest_records"] == row["nearest_ids"]
        assert own["has_gap"] == {"NA": "", "TRUE": "true", "FALSE": "false"}[row["has_gap"]]
        same(own["mean_within_distance_percent"], row["mean_intra"])
        same(own["max_within_distance_percent"], row["max_intra"])
        same(own["nearest_distance_percent"], row["dist_nn"])
        same(own["gap_percent"], row["gap"])
    records = {row["record_id"]: row for row in outcome.table("records.tsv")}
    for row in read_csv(folder / f"spider_{model}_{deletion}.csv"):
        own = records[row["id"]]
        if not own["species"]:  # spider takes a missing name for a name
            continue
        if name == "anoteropsis":
            same(own["nearest_distance_percent"], row["nonConDist"])
        same(own["max_within_distance_percent"], row["maxInDist"])
        same(own["min_within_distance_percent"], row["minInDist"])
    if name != "anoteropsis":
        return
    thresholds = {float(row["threshold_percent"]): row for row in outcome.table("thresholds.tsv")}
    for row in read_csv(folder / f"threshOpt_{model}_{deletion}.csv"):
        own = thresholds[round(percent(row["Threshold"]), 6)]
        names = {
            "True neg": "true_negative_records",
            "True pos": "true_positive_records",
            "False neg": "false_negative_records",
            "False pos": "false_positive_records",
            "Cumulative error": "cumulative_error_records",
        }
        assert {key: own[name] for key, name in names.items()} == {key: row[key] for key in names}


def test_nearest_neighbours_that_tie_are_all_named(method: Method) -> None:
    records = [
        record(1, "Aus bus", nuc=WHOLE),
        record(2, "Bus cus", nuc=WHOLE),
        record(3, "Bus dus", nuc=WHOLE),
    ]
    rows = method("barcode_gap")(records).table("barcode_gap.tsv")
    assert [row["nearest_groups"] for row in rows] == [
        "Bus cus|Bus dus",
        "Aus bus|Bus dus",
        "Aus bus|Bus cus",
    ]
    assert {row["nearest_distance_percent"] for row in rows} == {"0"}
    assert {row["has_gap"] for row in rows} == {""}


def test_a_species_with_one_sequence_has_no_distance_within_but_a_neighbour(method: Method) -> None:
    records = [record(n, "Aus bus") for n in range(3)] + [record(9, "Aus cus")]
    outcome = method("barcode_gap")(records)
    one, other = outcome.table("barcode_gap.tsv")
    assert (one["comparisons"], other["comparisons"]) == ("3", "0")
    assert other["max_within_distance_percent"] == other["gap_percent"] == other["has_gap"] == ""
    assert float(other["nearest_distance_percent"]) == float(one["nearest_distance_percent"]) > 0


def test_one_species_has_no_nearest_neighbour(method: Method) -> None:
    outcome = method("barcode_gap")([record(n) for n in range(4)])
    (row,) = outcome.table("barcode_gap.tsv")
    assert row["nearest_distance_percent"] == row["nearest_records"] == row["has_gap"] == ""
    assert "so it has no nearest neighbour" in outcome.notes


def test_no_gap_where_the_neighbour_is_as_far_as_the_farthest_of_its_own(method: Method) -> None:
    far = "".join("ACGT"["CATG".index(c)] if n < 10 else c for n, c in enumerate(WHOLE))
    other = WHOLE[:-10] + "".join("ACGT"["CATG".index(c)] for c in WHOLE[-10:])
    records = [
        record(1, "Aus bus", nuc=WHOLE),
        record(2, "Aus bus", nuc=far),
        record(3, "Aus cus", nuc=other),
    ]
    row = method("barcode_gap")(records, distance_model="p").table("barcode_gap.tsv")[0]
    assert row["gap_percent"] == "0"
    assert row["has_gap"] == "false"


def test_grouped_by_bin(method: Method) -> None:
    records = [record(n, None, bin_uri=f"BOLD:AAA000{n % 2}") for n in range(4)]
    rows = method("barcode_gap")(records, group_by="bin_uri").table("barcode_gap.tsv")
    assert [row["bin_uri"] for row in rows] == ["BOLD:AAA0000", "BOLD:AAA0001"]
    assert {row["comparisons"] for row in rows} == {"1"}


def test_very_many_ties_are_cut_short(method: Method) -> None:
    """Else 300 species of one sequence would be 300 x 299 names."""
    letters = "abcdefghijklmnopqrst"
    names = [f"Aus {a}{b}us" for a in letters for b in letters][:300]
    outcome = method("barcode_gap")([record(n, name, nuc=WHOLE) for n, name in enumerate(names)])
    row = outcome.table("barcode_gap.tsv")[0]
    assert row["nearest_records"].count("|") == MOST_TIES - 1


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.text("ACGTN-", min_size=12, max_size=12), st.sampled_from(["a", "b", "c", None])),
        min_size=2,
        max_size=12,
    ),
    st.sampled_from(["p", "jc69", "k2p"]),
)
def test_the_summaries_are_those_of_the_whole_matrix(rows: list[tuple[str, str | None]], model: Any) -> None:
    codes = encode(np.array([list(text.encode()) for text, _ in rows], np.uint8))
    groups, rule = Groups([label for _, label in rows]), Rule(model=model)
    found = NearestGroups(codes, groups, rule)
    found.run(lambda done, of: None)
    matrix = square(codes, rule)
    np.fill_diagonal(matrix, np.nan)
    for number in range(len(groups.names)):
        own, others = groups.of == number, (groups.of >= 0) & (groups.of != number)
        inside = matrix[np.ix_(own, own)][np.triu_indices(own.sum(), 1)]
        between = matrix[np.ix_(own, others)]
        assert found.within.count[number] == np.count_nonzero(~np.isnan(inside))
        assert found.undefined_within[number] == np.count_nonzero(np.isnan(inside))
        assert found.undefined_between[number] == np.count_nonzero(np.isnan(between))
        if found.within.count[number]:
            assert found.within.max[number] == np.nanmax(inside)
            assert found.within.mean[number] == pytest.approx(np.nanmean(inside), abs=1e-12)
        if np.isnan(between).all():
            assert np.isnan(found.nearest[number])
            continue
        assert found.nearest[number] == np.nanmin(between)
        nearest = [int(n) for n in np.flatnonzero(others) if (matrix[own, n] == found.nearest[number]).any()]
        assert found.nearest_rows()[number] == nearest


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [mutated(WHOLE, n, 0.01) for n in range(40)]
    codes = encode(np.array([list(t.encode()) for t in texts], np.uint8))
    groups = Groups([f"s{n % 7}" for n in range(40)])
    whole = NearestGroups(codes, groups, Rule())
    whole.run(lambda done, of: None)
    monkeypatch.setattr("barcode.distances.all_pairs.__kwdefaults__", {"block": 6})
    cut = NearestGroups(codes, groups, Rule())
    cut.run(lambda done, of: None)
    assert cut.nearest_rows() == whole.nearest_rows()
    assert np.array_equal(cut.nearest, whole.nearest)
    assert np.array_equal(cut.record_nearest, whole.record_nearest, equal_nan=True)
    assert np.array_equal(cut.record_max_within, whole.record_max_within, equal_nan=True)


SAMPLES = (
    "barcode_gap",
    "cluster_sequences",
    "taxon_id_tree",
    "diagnostic_characters",
    "sequence_composition",
)


@pytest.mark.parametrize("title", SAMPLES)
def test_the_sample_is_what_its_readme_says(tmp_path: Path, title: str) -> None:
    sample = ROOT / "methods" / title / "sample"
    command = (sample / "README.md").read_text(encoding="utf-8").split("`")[3].split()
    assert command[0] == "scripts/simulate_records"
    made = tmp_path / "records.jsonl"
    script = [sys.executable, str(ROOT / command[0]), *command[1:-1], str(made)]
    subprocess.run(script, check=True, capture_output=True)
    assert made.read_bytes() == (sample / "records.jsonl").read_bytes()
