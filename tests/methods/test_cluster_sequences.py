"""Cluster Sequences: R's single linkage, scipy's average and complete linkage, names and clusters."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from barcode.agreement import agreement
from barcode.distances import Rule, square
from barcode.linkage import Forest, Linkage, agglomerate
from barcode.sequences import encode
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from tests.methods.conftest import MethodRun, read_csv
from tests.methods.test_alignment import random_sequence
from tests.methods.test_distance_summary import record, reference_records
from tests.methods.test_distances import MODELS

Method = Callable[[str], MethodRun]
WHOLE = random_sequence(1)


def together(labels: Any) -> set[frozenset[int]]:
    """The sets of places that have one label."""
    places: dict[Any, set[int]] = {}
    for place, label in enumerate(labels):
        places.setdefault(label, set()).add(place)
    return {frozenset(one) for one in places.values()}


@pytest.mark.parametrize("name", ["anoteropsis", "streptocephalus_mafft"])
@pytest.mark.parametrize("model", ["raw", "K80"])
@pytest.mark.parametrize("deletion", ["pairwise", "complete"])
def test_the_clusters_are_those_of_the_reference(
    method: Method, reference: Path, name: str, model: str, deletion: str
) -> None:
    folder = reference / "reference-numbers" / name
    expected = read_csv(folder / f"clusters_{model}_{deletion}.csv")
    records, run = list(reference_records(folder)), method("cluster_sequences")
    for threshold in ("0.005", "0.02", "0.022"):
        outcome = run(
            records,
            alignment="as_uploaded",
            distance_model=MODELS[model],
            deletion=deletion,
            min_length=0,
            threshold_percent=100 * float(threshold),
        )
        found = [row["cluster"] for row in outcome.table("records.tsv")]
        assert together(found) == together(row[f"cluster_le_{threshold}"] for row in expected)
        curve = {float(r["threshold_percent"]): int(r["clusters"]) for r in outcome.table("thresholds.tsv")}
        assert curve[2.0] == len({row["cluster_le_0.02"] for row in expected})


def matrices() -> st.SearchStrategy[list[float]]:
    """Distances that are all different, so that there is one answer only."""
    return st.integers(3, 12).flatmap(
        lambda n: st.lists(
            st.integers(1, 10**6), min_size=n * (n - 1) // 2, max_size=n * (n - 1) // 2, unique=True
        )
    )


@settings(max_examples=60, deadline=None)
@given(matrices(), st.floats(0.01, 0.9), st.sampled_from(["average", "complete"]))
def test_average_and_complete_linkage_are_those_of_scipy(
    distances: list[float], threshold: float, kind: str
) -> None:
    condensed = np.array(distances) / 10**6
    matrix = squareform(condensed)
    found = agglomerate(matrix, np.ones(matrix.shape[0], np.int64), threshold, average=kind == "average")
    assert together(found.tolist()) == together(fcluster(linkage(condensed, kind), threshold, "distance"))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text("ACGTN", min_size=10, max_size=10), min_size=2, max_size=14),
    st.sampled_from([0.0, 0.1, 0.2, 0.25]),
    st.sampled_from([1, 6]),
)
def test_single_linkage_connects_what_a_chain_of_near_pairs_connects(
    texts: list[str], threshold: float, overlap: int
) -> None:
    codes, rule = (
        encode(np.array([list(t.encode()) for t in texts], np.uint8)),
        Rule(model="p", min_overlap=overlap),
    )
    found = Linkage(codes, rule)
    found.run(1.0, lambda done, of: None)
    reached = (square(codes, rule) <= threshold + 1e-12).astype(int)
    for _ in range(4):
        reached = ((reached @ reached) > 0).astype(int)
    clusters = found.clusters(threshold, "single").tolist()
    assert together(clusters) == {frozenset(np.flatnonzero(row).tolist()) for row in reached}


def test_a_weighted_row_counts_as_often_as_it_occurs(method: Method) -> None:
    """Average linkage over records, not over different sequences: 0, 0, 0 and 4 % from a third at 3 %."""

    def changed(start: int, count: int, text: str = WHOLE) -> str:
        part = text[start : start + count].translate(str.maketrans("ACGT", "CATG"))
        return text[:start] + part + text[start + count :]

    near, far = changed(0, 13), changed(300, 20)
    records = [record(n, nuc=text) for n, text in enumerate([WHOLE, WHOLE, WHOLE, near, far])]
    codes = encode(np.array([list(r["nuc"].encode()) for r in records], np.uint8))
    matrix = square(codes, Rule(model="p"))
    expected = fcluster(linkage(squareform(matrix), "average"), 0.0375, "distance")
    outcome = method("cluster_sequences")(
        records, alignment="as_uploaded", linkage="average", threshold_percent=3.75
    )
    assert together(row["cluster"] for row in outcome.table("records.tsv")) == together(expected)


def test_a_forest_thinned_often_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(5)
    i, j = np.triu_indices(30, 1)
    d = random.integers(1, 20, i.size) / 100
    whole, often = Forest(30), Forest(30)
    whole.add(i, j, d)
    monkeypatch.setattr("barcode.linkage.MOST_EDGES", 7)
    order = random.permutation(i.size)
    for part in np.array_split(order, 40):
        often.add(i[part], j[part], d[part])
    for threshold in (0.0, 0.01, 0.02, 0.05, 0.2):
        assert together(whole.components(threshold).tolist()) == together(
            often.components(threshold).tolist()
        )
        assert whole.clusters_at(threshold) == len(set(whole.components(threshold).tolist()))


def test_names_and_clusters_match_split_merge_or_are_mixed() -> None:
    clusters = [1, 1, 2, 3, 4, 4, 5, 6, 6, 7]
    names = ["match", "match", "split", "split", "merged", "other", "mixed", "mixed", "with it", None]
    found = {one.name: one for one in agreement(clusters, names)}
    assert {name: one.kind for name, one in found.items()} == {
        "match": "match",
        "split": "split",
        "merged": "merge",
        "other": "merge",
        "mixed": "mixture",
        "with it": "merge",
    }
    assert found["mixed"].others == ("with it",)


def test_clusters_are_named_by_size_then_smallest_process_id(method: Method) -> None:
    texts = [random_sequence(3), random_sequence(2), random_sequence(2), random_sequence(4)]
    records = [record(9 - n, nuc=text) for n, text in enumerate(texts)]
    outcome = method("cluster_sequences")(records, alignment="as_uploaded")
    assert [row["cluster"] for row in outcome.table("records.tsv")] == [
        "OTU0003",
        "OTU0001",
        "OTU0001",
        "OTU0002",
    ]
    sizes = [int(row["sequences"]) for row in outcome.table("clusters.tsv")]
    assert all(one >= next_one for one, next_one in pairwise(sizes))
    assert outcome.rows("clusters.jsonl")[0]["records"] == ["TEST008-26.COI-5P", "TEST007-26.COI-5P"]


def test_a_distance_of_exactly_the_threshold_links(method: Method) -> None:
    text = WHOLE[:500]
    other = text[:489] + text[489:].translate(str.maketrans("ACGT", "CATG"))  # 11 of 500: 2.2 %
    for threshold, clusters in ((2.2, 1), (2.1999, 2)):
        outcome = method("cluster_sequences")(
            [record(1, nuc=text), record(2, nuc=other)], alignment="as_uploaded", threshold_percent=threshold
        )
        assert len(outcome.table("clusters.tsv")) == clusters


def test_a_pair_without_a_distance_links_nothing(method: Method) -> None:
    halves = [WHOLE[:300] + "-" * 358, "-" * 300 + WHOLE[300:]]
    records = [record(n, nuc=nuc) for n, nuc in enumerate(halves)]
    for kind in ("single", "average", "complete"):
        outcome = method("cluster_sequences")(records, alignment="as_uploaded", linkage=kind)
        assert len(outcome.table("clusters.tsv")) == 2
        assert outcome.table("clusters.tsv")[0]["nearest_distance_percent"] == ""
