"""Neighbour joining against ape, scikit-bio and Biopython; trees as text, rooted, drawn."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from barcode.distances import Rule, square
from barcode.nj import Tree, neighbour_joining
from barcode.sequences import encode, read_sequence
from barcode.trees import drawn, newick, nexus, quoted, together
from Bio import Phylo
from Bio.Phylo.TreeConstruction import DistanceMatrix as BioMatrix
from Bio.Phylo.TreeConstruction import DistanceTreeConstructor
from hypothesis import given, settings
from hypothesis import strategies as st
from skbio import DistanceMatrix, TreeNode
from skbio.tree import nj

from tests.methods.conftest import read_fasta
from tests.methods.test_distances import MODELS

WOODMOUSE_K80 = 0.0678845763098
ODD = 'it\'s "odd" (x): a,b; c|d/é [e] _f ' + "y" * 300


def paths(text: str, names: list[str]) -> np.ndarray:
    """Tip-to-tip path lengths of a Newick text, in the order of `names`."""
    tree = TreeNode.read(StringIO(text), convert_underscores=False)
    return np.asarray(tree.cophenet().filter(names).data)


def of_tree(tree: Tree) -> np.ndarray:
    """Tip-to-tip path lengths, counted along the branches."""
    inside: dict[int, dict[int, float]] = {}
    lengths = np.zeros((tree.tips, tree.tips))
    for node in reversed(tree.preorder()):
        if node < tree.tips:
            inside[node] = {node: 0.0}
            continue
        gathered: dict[int, float] = {}
        for child in tree.children[node]:
            own = {tip: far + tree.length[child] for tip, far in inside.pop(child).items()}
            for tip, far in own.items():
                for other, beside in gathered.items():
                    lengths[tip, other] = lengths[other, tip] = far + beside
            gathered |= own
        inside[node] = gathered
    return lengths


@pytest.mark.parametrize("name", ["woodmouse", "anoteropsis", "streptocephalus_mafft"])
@pytest.mark.parametrize("model", ["raw", "JC69", "K80"])
@pytest.mark.parametrize("deletion", ["pairwise", "complete"])
def test_path_lengths_are_those_of_ape(reference: Path, name: str, model: str, deletion: Any) -> None:
    folder = reference / "reference-numbers" / name
    fasta = read_fasta(folder / "input.fasta")
    codes = encode(np.array([read_sequence(text) for text in fasta.values()]))
    matrix = square(codes, Rule(model=MODELS[model], deletion=deletion))
    tree = neighbour_joining(matrix)
    text = (folder / f"nj_{model}_{deletion}.nwk").read_text(encoding="utf-8")
    tolerance = 1e-5 if len(set(fasta.values())) < len(fasta) or name != "woodmouse" else 1e-9
    expected = paths(text, list(fasta))
    assert np.abs(paths(newick(tree, list(fasta)), list(fasta)) - expected).max() < tolerance
    total = sum(node.length or 0 for node in TreeNode.read(StringIO(text)).traverse())
    assert sum(tree.length.values()) == pytest.approx(total, abs=1e-9)
    if (name, model, deletion) == ("woodmouse", "K80", "pairwise"):
        assert sum(tree.length.values()) == pytest.approx(WOODMOUSE_K80, abs=1e-12)


def matrix_of(values: list[float], size: int) -> np.ndarray:
    matrix = np.zeros((size, size))
    upper = np.triu_indices(size, 1)
    matrix[upper] = np.array(values[: upper[0].size]) / 10**6
    return matrix + matrix.T


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 14), st.integers(0, 2**32 - 1))
def test_trees_are_those_of_scikit_bio_and_biopython(size: int, seed: int) -> None:
    """Random numbers of many digits, so that no two pairs tie."""
    values = np.random.default_rng(seed).integers(1, 10**15, size * (size - 1) // 2)
    matrix = matrix_of((values / 10**9).tolist(), size)
    names = [f"t{n}" for n in range(size)]
    mine = of_tree(neighbour_joining(matrix.copy()))
    theirs = nj(DistanceMatrix(matrix, names), neg_as_zero=False)
    assert np.abs(mine - np.asarray(theirs.cophenet().filter(names).data)).max() < 1e-9
    rows = [[float(v) for v in matrix[n, : n + 1]] for n in range(size)]
    other = DistanceTreeConstructor().nj(BioMatrix(names, rows))
    assert sum(c.branch_length or 0 for c in other.find_clades()) == pytest.approx(
        sum(neighbour_joining(matrix.copy()).length.values()), abs=1e-9
    )


def test_an_additive_matrix_gives_its_tree_back() -> None:
    """Also where places are freed: more rows than are kept uncut."""
    random = np.random.default_rng(3)
    tree = neighbour_joining(matrix_of(random.integers(1, 10**6, 150 * 149 // 2).tolist(), 150))
    tree.length = {node: abs(length) + 0.01 for node, length in tree.length.items()}
    lengths = of_tree(tree)
    again = neighbour_joining(lengths.copy())
    assert np.abs(of_tree(again) - lengths).max() < 1e-9


def plainly(matrix: np.ndarray) -> float:
    """The total length by the formula, with every pair looked at."""
    total, matrix = 0.0, matrix.copy()
    while matrix.shape[0] > 3:
        m = matrix.shape[0]
        sums = matrix.sum(axis=0)
        q = (m - 2) * matrix - sums[:, None] - sums[None, :]
        np.fill_diagonal(q, np.inf)
        i, j = divmod(int(q.argmin()), m)
        total += matrix[i, j]
        new = (matrix[i] + matrix[j] - matrix[i, j]) / 2
        keep = [k for k in range(m) if k not in (i, j)]
        matrix = np.block(
            [[matrix[np.ix_(keep, keep)], new[keep][:, None]], [new[keep][None, :], np.zeros((1, 1))]]
        )
    return total + matrix.sum() / 4


def test_no_row_that_could_hold_the_smallest_value_is_passed_over() -> None:
    """Random distances, the worst case for bounds, and a set with one row far from all others."""
    random = np.random.default_rng(11)
    for size in (40, 130):
        matrix = matrix_of(random.permutation(10**5)[: size * (size - 1) // 2].tolist(), size)
        for far in (0.0, 5.0):
            changed = matrix.copy()
            changed[0, 1:] += far
            changed[1:, 0] += far
            found = sum(neighbour_joining(changed.copy()).length.values())
            assert found == pytest.approx(plainly(changed), abs=1e-9)


def test_identical_sequences_only_give_a_tree_of_length_zero() -> None:
    tree = neighbour_joining(np.zeros((9, 9)))
    assert set(tree.length.values()) == {0.0}
    assert sorted(tree.tip_order()) == list(range(9))
    assert drawn(tree).tips == 9


def test_missing_distances_and_too_few_rows_are_refused() -> None:
    for matrix in (np.zeros((2, 2)), np.full((4, 4), np.nan)):
        with pytest.raises(ValueError, match="neighbour joining needs"):
            neighbour_joining(matrix)


def four() -> Tree:
    return neighbour_joining(matrix_of([20_000, 90_000, 80_000, 91_000, 79_000, 30_000], 4))


def test_odd_labels_are_read_back_by_two_readers() -> None:
    labels = [ODD, "it's", "a_b", "plain-1|x.y"]
    text = newick(four(), labels)
    assert {tip.name for tip in TreeNode.read(StringIO(text), convert_underscores=False).tips()} == set(
        labels
    )
    read = Phylo.read(StringIO(text), "newick")
    assert {tip.name.replace("\\'", "'") for tip in read.get_terminals()} == set(labels)
    assert quoted("two\nlines\tand\x00") == "'two lines and '"
    assert quoted("plain-1|x.y") == "plain-1|x.y"


def test_nexus_is_read_back_with_its_names_and_lengths() -> None:
    labels = ["A one", "it's", "B_2", "c"]
    tree = four()
    read = Phylo.read(StringIO(nexus(tree, labels)), "nexus")
    assert len(read.get_terminals()) == 4
    assert read.total_branch_length() == pytest.approx(sum(tree.length.values()), abs=1e-9)


def test_a_drawn_tree_has_its_root_in_the_middle_and_the_same_path_lengths() -> None:
    random = np.random.default_rng(8)
    tree = neighbour_joining(matrix_of(random.integers(1, 10**6, 30 * 29 // 2).tolist(), 30))
    tree.length = {node: abs(length) + 0.001 for node, length in tree.length.items()}
    made = drawn(tree)
    assert np.abs(of_tree(made) - of_tree(tree)).max() < 1e-9
    assert sorted(made.tip_order()) == list(range(30))
    depth = {made.root: 0.0}
    for node in made.preorder():
        for child in made.children.get(node, ()):
            depth[child] = depth[node] + made.length[child]
    sides = [max(depth[tip] for tip in made.preorder(side) if tip < 30) for side in made.children[made.root]]
    assert sides[0] == pytest.approx(sides[1], abs=1e-9)
    assert max(sides) == pytest.approx(of_tree(tree).max() / 2, abs=1e-9)


def test_groups_that_are_one_branch_are_told_from_those_that_are_not() -> None:
    tree = drawn(four())
    order = tree.tip_order()
    assert together(tree, order, np.array([0, 0, 1, 1])).tolist() == [True, True]
    assert together(tree, order, np.array([0, 1, 0, 1])).tolist() == [False, False]
    assert together(tree, order, np.array([-1, 0, -1, -1])).tolist() == [True]
    assert together(tree, order, np.array([0, 0, -1, 0])).tolist() == [True]
