"""Taxon ID Tree from records to files: the reference tree, labels, missing distances, refusals."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from skbio import TreeNode

from tests.methods.conftest import MethodRun, read_fasta
from tests.methods.test_alignment import random_sequence
from tests.methods.test_distance_summary import five, record, refused
from tests.methods.test_nj import ODD, paths

Method = Callable[[str], MethodRun]
WHOLE = random_sequence(1)
HALVES = [WHOLE[:300] + "-" * 358, "-" * 300 + WHOLE[300:]]


@pytest.fixture
def tree(method: Method) -> MethodRun:
    return method("taxon_id_tree")


def tips(path: Path) -> list[str]:
    read = TreeNode.read(StringIO(path.read_text(encoding="utf-8")), convert_underscores=False)
    return [str(tip.name) for tip in read.tips()]


def test_the_tree_of_the_reference_comes_out_of_its_records(tree: MethodRun, reference: Path) -> None:
    folder = reference / "reference-numbers" / "woodmouse"
    fasta = read_fasta(folder / "input.fasta")
    records = [
        {"record_id": name, "processid": name, "marker_code": "CYTB", "nuc": nuc}
        for name, nuc in fasta.items()
    ]
    outcome = tree(records, marker="CYTB", alignment="as_uploaded", label_fields="processid")
    assert outcome.code == 0, outcome.printed
    mine, theirs = (
        paths(path.read_text(encoding="utf-8"), list(fasta))
        for path in (outcome.dir / "tree.nwk", folder / "nj_K80_pairwise.nwk")
    )
    assert np.abs(mine - theirs).max() < 1e-9
    assert outcome.json("run.json")["tree"]["total_length_percent"] == pytest.approx(6.78845763098, abs=1e-9)


def test_the_tables_follow_the_drawing(tree: MethodRun) -> None:
    outcome = tree(five())
    rows = outcome.table("taxonomy.tsv")
    assert [row["order_in_tree"] for row in rows] == [str(n) for n in range(1, 6)]
    assert {row["label"] for row in rows} == set(tips(outcome.dir / "tree.nwk"))
    drawing = ElementTree.parse(outcome.dir / "tree.svg").getroot()  # noqa: S314 - our own
    shown = [e.text for e in drawing.iter("{http://www.w3.org/2000/svg}text") if "tip" in e.get("class", "")]
    assert shown == [row["label"] for row in rows]
    assert "tree.svg" in outcome.report


def test_labels_have_the_process_id_first_and_are_never_alike(tree: MethodRun) -> None:
    records = five()
    records[1].update(processid=records[0]["processid"])
    records[2].update(identification=ODD)
    outcome = tree(records, label_fields="identification,country/ocean, identification")
    labels = tips(outcome.dir / "tree.nwk")
    assert len(set(labels)) == 5
    assert {"TEST001-26.COI-5P|Aus bus", "TEST002-26.COI-5P|Aus bus"} < set(labels)
    odd = next(label for label in labels if label.startswith("TEST003-26|it's"))
    assert "(x): a,b; c|d/é [e]" in odd
    refused(tree(records, label_fields=" , "), "label_fields names no field")


@pytest.mark.parametrize("count", [0, 1, 2])
def test_fewer_than_three_records_make_no_tree(tree: MethodRun, count: int) -> None:
    refused(
        tree(five()[:count]), f"No tree can be made: {count} of {count} records can be used, 3 are needed"
    )


def test_a_missing_distance_is_refused_with_names_or_the_worst_record_left_out(tree: MethodRun) -> None:
    records = [*five(), *(record(n + 6, nuc=nuc) for n, nuc in enumerate(HALVES))]
    printed = tree(records, alignment="as_uploaded")
    refused(printed, "such as TEST006-26.COI-5P with TEST007-26.COI-5P")
    refused(printed, "Leaving out 1 of 7 records would do: TEST006-26.COI-5P")
    outcome = tree(records, alignment="as_uploaded", undefined_distances="drop")
    assert outcome.code == 0, outcome.printed
    assert len(tips(outcome.dir / "tree.nwk")) == 6
    run = outcome.json("run.json")["records"]
    assert (run["read"], run["used"], run["left_out"]) == (7, 6, {"undefined_distance": 1})
    left_out = outcome.rows("records_left_out.jsonl")
    assert [(one["record_id"], one["reason"]) for one in left_out] == [
        ("TEST006-26.COI-5P", "undefined_distance")
    ]
    assert len(outcome.rows("records_used.jsonl")) == 6


def test_records_that_are_alike_but_too_short_have_no_distance(tree: MethodRun) -> None:
    records = [*five(), *(record(n, nuc="-" * 358 + WHOLE[358:]) for n in (6, 7))]
    outcome = tree(records, alignment="as_uploaded", min_overlap=400)
    refused(
        outcome, "Pairs without a distance: 11 (min_overlap 11), such as TEST001-26.COI-5P with TEST006-26"
    )
    assert tree(records, alignment="as_uploaded", min_overlap=300).code == 0


def test_too_few_records_with_distances_are_refused(tree: MethodRun) -> None:
    records = [record(n, nuc=nuc) for n, nuc in enumerate([*HALVES, HALVES[0]])]
    refused(tree(records, alignment="as_uploaded", undefined_distances="drop"), "of 3 records 2 are left")


def test_negative_branches_are_kept_or_set_to_zero(tree: MethodRun, reference: Path) -> None:
    records = reference / "data" / "streptocephalus.bcdm.jsonl"
    lengths = []
    for choice in ("keep", "zero"):
        outcome = tree(records, negative_branches=choice)
        read = TreeNode.read(StringIO((outcome.dir / "tree.nwk").read_text()), convert_underscores=False)
        lengths.append([node.length for node in read.traverse() if node.length is not None])
        assert "Branches with a negative length" in outcome.notes
    assert min(lengths[0]) < 0 == min(lengths[1])


def test_species_that_are_not_one_branch_are_named(tree: MethodRun) -> None:
    texts: list[Any] = [random_sequence(2), random_sequence(3)]
    records = [record(n, "Aus bus" if n in (0, 3) else "Aus cus", nuc=texts[n // 2]) for n in range(4)]
    outcome = tree(records, alignment="as_uploaded", distance_model="p")
    assert {row["species_together"] for row in outcome.table("taxonomy.tsv")} == {"false"}
    assert outcome.json("run.json")["tree"]["species_not_one_branch"] == 2


def test_a_tree_too_large_for_memory_is_refused_with_numbers(
    tree: MethodRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barcode.estimate.BASE_BYTES", 4 << 30)
    told = "5 sequences of 658 columns in one tree need about 4.2 GiB of memory, the method may use 3.0 GiB."
    refused(tree(five()), told)
