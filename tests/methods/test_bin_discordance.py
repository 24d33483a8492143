"""BIN Discordance: the reference's BINs, ranks, thresholds, votes, species over BINs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from barcode.discordance import RANKS, Rule, judge, relation

from tests.methods.conftest import MethodRun, read_csv
from tests.methods.test_edges import placed

Method = Callable[[str], MethodRun]


def test_the_bins_are_those_of_the_reference(method: Method, reference: Path) -> None:
    outcome = method("bin_discordance")(reference / "data" / "ukbol_sample.bcdm.jsonl")
    assert outcome.code == 0, outcome.printed
    found = {row["bin_uri"]: row for row in outcome.table("bins.tsv")}
    expected = read_csv(reference / "reference-numbers" / "records" / "bin_discordance_ukbol_sample.csv")
    assert found.keys() == {row["bin_uri"] for row in expected}
    for row in expected:
        own = found[row["bin_uri"]]
        assert (own["members"], own["status"]) == (row["records"], row["status"])
        assert own["rank_of_conflict"] == row["rank_of_conflict"]
        assert sorted(filter(None, own["species_names"].split("|"))) == sorted(
            filter(None, row["species"].split("|"))
        )
        genera = {name.rsplit(" (", 1)[0] for name in filter(None, own["genus_names"].split("|"))}
        assert genera == set(filter(None, row["genera"].split("|")))
    run = outcome.json("run.json")
    assert run["records"]["left_out"] == {"no_bin": 60}
    assert {key: run["bins"][key] for key in ("bins", "singleton", "concordant", "discordant")} == {
        "bins": 435, "singleton": 248, "concordant": 174, "discordant": 13,
    }  # fmt: skip
    assert run["bins"]["conflicts_by_rank"] == {"genus": 5, "species": 8}
    order = [row["rank_of_conflict"] for row in outcome.table("bins.tsv")]
    assert order[:14] == ["genus"] * 5 + ["species"] * 8 + [""]


def names(**ranks: str) -> dict[str, str | None]:
    return {rank: ranks.get(rank) for rank in RANKS}


def test_the_highest_rank_in_conflict_counts_and_missing_names_never_do() -> None:
    one = names(phylum="Aa", family="Aidae", genus="Aus", species="Aus bus")
    assert judge([one, names(phylum="Aa")], Rule()).status == "concordant"
    assert judge([one, names(genus="Bus", species="Bus bus")], Rule()).conflict_rank == "genus"
    assert judge([one, names(phylum="Ba", genus="Bus")], Rule()).conflict_rank == "phylum"
    assert judge([one], Rule()).status == "singleton"
    nothing = judge([names(), names()], Rule())
    assert (nothing.status, nothing.agreed_rank) == ("concordant", None)


def test_a_threshold_forgives_a_minority_and_min_ids_a_lonely_name() -> None:
    members = [*[names(genus="Aus", species="Aus bus")] * 3, names(genus="Aus", species="Aus cus")]
    assert judge(members, Rule()).conflict_rank == "species"
    agreed = judge(members, Rule(threshold=0.75))
    assert (agreed.status, agreed.agreed_name) == ("concordant", "Aus bus")
    assert judge(members, Rule(threshold=0.76)).status == "discordant"
    assert judge(members, Rule(min_ids=5)).status == "concordant"


def test_a_specimen_votes_once(method: Method) -> None:
    records = [placed(1), placed(1, "Aus cus", record_id="TEST001-26.16S", marker_code="16S"), placed(2)]
    records = [{**one, "bin_uri": "bold:aaa0001"} for one in records]
    outcome = method("bin_discordance")(records)
    (row,) = outcome.table("bins.tsv")
    assert (row["bin_uri"], row["status"], row["members"]) == ("BOLD:AAA0001", "concordant", "2")
    (left,) = outcome.rows("records_left_out.jsonl")
    assert (left["reason"], left["record_id"]) == ("same_processid", "TEST001-26.16S")


def test_species_match_split_merge_and_mix(method: Method) -> None:
    of: list[tuple[str, int]] = [
        ("Aus bus", 1), ("Aus bus", 1), ("Aus cus", 2), ("Aus cus", 3),
        ("Aus dus", 4), ("Aus eus", 4), ("Aus eus", 5),
    ]  # fmt: skip
    records: list[dict[str, Any]] = [
        placed(n, species, bin_uri=f"BOLD:AAA000{number}") for n, (species, number) in enumerate(of)
    ]
    found = {
        row["species"]: row["relation"]
        for row in method("bin_discordance")(records).table("species_bins.tsv")
    }
    assert found == {"Aus bus": "match", "Aus cus": "split", "Aus dus": "merge", "Aus eus": "mixture"}
    assert Counter(found.values())[relation(1, False)] == 1


def test_the_rarest_name_of_a_discordant_bin_comes_first(method: Method) -> None:
    records = [placed(n, "Aus cus" if n == 3 else "Aus bus", bin_uri="BOLD:AAA0001") for n in range(5)]
    rows = method("bin_discordance")(records).table("discordant_records.tsv")
    assert [row["name"] for row in rows] == ["Aus cus"] + ["Aus bus"] * 4
    assert rows[0]["name_share"] == "0.2"
