"""Geographic distance: the reference's correlations, great circles, spanning tree, permutations, no r."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from barcode.geography import EARTH_RADIUS_KM, haversine_km, mantel, spanning_tree_km, square_km
from skbio.stats.distance import DistanceMatrix
from skbio.stats.distance import mantel as skbio_mantel

from tests.methods.conftest import MethodRun, read_csv
from tests.methods.test_alignment import mutated
from tests.methods.test_edges import WHOLE, placed

Method = Callable[[str], MethodRun]


def reference_records(reference: Path) -> list[dict[str, Any]]:
    """As the reference chose them: 658 letters long, with a species, the first six of each."""
    of_species: Counter[str] = Counter()
    chosen = []
    for line in (reference / "data" / "ukbol_sample.bcdm.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if (
            len(record.get("nuc") or "") == 658
            and record["marker_code"] == "COI-5P"
            and record.get("species")
        ):
            of_species[record["species"]] += 1
            if of_species[record["species"]] <= 6:
                chosen.append(record)
    return chosen


def test_the_correlations_are_those_of_the_reference(method: Method, reference: Path) -> None:
    records = reference_records(reference)
    assert len(records) == 410
    settings = {"alignment": "as_uploaded", "distance_model": "p", "min_length": 0, "min_records": 4}
    outcome = method("geographic_distance")(records, **settings)
    assert outcome.code == 0, outcome.printed
    found = {row["group"]: row for row in outcome.table("correlation.tsv")}
    expected = read_csv(reference / "reference-numbers" / "records" / "geo_correlation_ukbol658_raw.csv")
    assert found.keys() == {row["species"] for row in expected}
    for row in expected:
        own = found[row["species"]]
        assert (own["records"], own["pairs"]) == (row["n"], row["pairs"])
        assert float(own["max_distance_km"]) == pytest.approx(float(row["max_geo_km"]), abs=1e-6)
        percent = 100 * float(row["max_p_distance"])
        assert float(own["max_genetic_distance_percent"]) == pytest.approx(percent, abs=1e-7)
        if row["mantel_r"] == "nan":
            assert (own["mantel_r"], own["p_greater"]) == ("", "")
            assert own["no_r_because"] in {"one site", "no genetic variance"}
        else:
            assert float(own["mantel_r"]) == pytest.approx(float(row["mantel_r"]), abs=1e-9)
    assert sum(not row["mantel_r"] for row in found.values()) == 8


def test_great_circles_of_known_length() -> None:
    quarter = EARTH_RADIUS_KM * math.pi / 2
    pole, equator = np.array([90.0, 0.0]), np.array([0.0, 77.0])
    assert float(haversine_km(pole, equator)) == pytest.approx(quarter)
    assert float(haversine_km(np.array([0.0, 179.5]), np.array([0.0, -179.5]))) == pytest.approx(quarter / 90)
    assert float(haversine_km(np.array([10.0, 20.0]), np.array([-10.0, -160.0]))) == pytest.approx(
        2 * quarter
    )
    assert float(haversine_km(pole, pole)) == 0


def test_the_spanning_tree_is_the_shortest_of_all() -> None:
    sites = np.random.default_rng(3).uniform(-60, 60, (5, 2))
    km = square_km(sites)
    edges = list(itertools.combinations(range(5), 2))
    lengths = [sum(km[edge] for edge in tree) for tree in itertools.combinations(edges, 4) if spans(tree)]
    assert spanning_tree_km(np.concatenate([sites, sites[:2]])) == pytest.approx(min(lengths))
    assert spanning_tree_km(sites[:1]) == 0


def spans(tree: tuple[tuple[int, int], ...]) -> bool:
    reached = {0}
    for _ in range(4):
        reached |= {b for a, b in tree if a in reached} | {a for a, b in tree if b in reached}
    return len(reached) == 5


def test_r_and_p_agree_with_scikit_bio() -> None:
    random = np.random.default_rng(5)
    places = random.uniform(-3, 3, (9, 2))
    km = square_km(places)
    genetic = km / 4000 + random.uniform(0, 0.05, km.shape)
    genetic = np.triu(genetic, 1) + np.triu(genetic, 1).T
    found = mantel(genetic, km, 2000, np.random.default_rng(1))
    for alternative, p in (("greater", found.p_greater), ("two-sided", found.p_two_sided)):
        r, theirs, _ = skbio_mantel(
            DistanceMatrix(genetic),
            DistanceMatrix((km + km.T) / 2),
            permutations=2000,
            alternative=alternative,
            seed=2,
        )
        assert found.r == pytest.approx(r, abs=1e-9)
        assert p == pytest.approx(theirs, abs=0.04)


def test_undefined_pairs_are_left_out_and_named() -> None:
    km = square_km(np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 2.0], [0.0, 4.0]]))
    genetic = km / 1000
    genetic[0, 3] = genetic[3, 0] = np.nan
    found = mantel(genetic, km, 99, np.random.default_rng(1))
    assert (found.pairs, found.r) == (5, pytest.approx(1))
    genetic[1:, :] = genetic[:, 1:] = np.nan
    assert mantel(genetic, km, 99, np.random.default_rng(1)).why == "fewer than 3 pairs"


def test_the_seed_alone_decides_and_other_groups_do_not(method: Method) -> None:
    groups = [[placed(n + 10 * g, f"Aus {'ab'[g]}us") for n in range(6)] for g in range(2)]
    run = method("geographic_distance")
    alone, both = run(groups[0]), run([*groups[1], *groups[0]])
    assert alone.table("correlation.tsv")[0]["p_greater"] == both.table("correlation.tsv")[0]["p_greater"]
    assert run(groups[0], seed=1, permutations=99).table("correlation.tsv") == run(
        groups[0], seed=1, permutations=99
    ).table("correlation.tsv")


def test_who_is_left_out_and_why(method: Method) -> None:
    records = [placed(n) for n in range(3)]
    records += [
        placed(4, coord=None),
        placed(5, coord="north of here"),
        placed(6, None),
        placed(7, "Aus cus"),
    ]
    outcome = method("geographic_distance")(records)
    reasons = outcome.json("run.json")["records"]["left_out"]
    assert reasons == {"no_coordinates": 1, "bad_coordinates": 1, "no_group": 1, "small_group": 1}
    refusal = method("geographic_distance")(records[1:])
    assert "No species has 3 records with sequence and coordinates" in refusal.printed


def test_records_far_apart_that_differ_more_are_found(method: Method) -> None:
    nuc = WHOLE
    records = []
    for n in range(8):
        records.append(placed(n, nuc=nuc, coord=[n * 3.0, 0.0]))
        nuc = mutated(nuc, 700 + n, 0.01)
    (row,) = method("geographic_distance")(records).table("correlation.tsv")
    assert float(row["mantel_r"]) > 0.95
    assert float(row["p_greater"]) <= 0.005
