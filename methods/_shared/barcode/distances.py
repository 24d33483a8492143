"""Distances between aligned sequences: p, Jukes-Cantor (1969) and Kimura's two parameters (1980).

Known bases are A, C, G, T. With n sites where both are known, P transitions/n, Q transversions/n, p = P + Q:
    p     p
    jc69  -3/4 ln(1 - 4p/3)                        undefined where p >= 3/4
    k2p   -1/2 ln(1 - 2P - Q) - 1/4 ln(1 - 2Q)     undefined where either argument is <= 0
These are the formulas and the rule for missing bases of ape's dist.dna. Undefined is NaN with
a reason, never 0.

Counts come from products of indicator matrices in float32, exact up to 2**24 sites. With u = 1 for a known
base, v = +1 for A or G and -1 for C or T, w = +1 for A and -1 for G, in further columns +1 for C, -1 for T:
    n = u.u    transversions = (n - v.v) / 2    transitions = ((n - transversions) - w.w) / 2
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .sequences import AMBIGUOUS, Bytes

Model = Literal["p", "jc69", "k2p"]
Deletion = Literal["pairwise", "complete"]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BLOCK = 1024
DEFINED, NO_OVERLAP, MIN_OVERLAP, SATURATED = range(4)
REASONS = ("defined", "no_overlap", "min_overlap", "saturated")
MODEL_NAMES = {"p": "p-distance", "jc69": "Jukes-Cantor 1969", "k2p": "Kimura 2-parameter"}

_U = np.array([1, 1, 1, 1, 0, 0], np.float32)
_V = np.array([1, -1, 1, -1, 0, 0], np.float32)
_PURINE = np.array([1, 0, -1, 0, 0, 0], np.float32)
_PYRIMIDINE = np.array([0, 1, 0, -1, 0, 0], np.float32)


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """How distances are counted; pairs with fewer than `min_overlap` common sites are undefined."""

    model: Model = "k2p"
    deletion: Deletion = "pairwise"
    min_overlap: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Pairs:
    """Pairs i < j of rows, all arrays of one length; `distance` is NaN where `reason` is not DEFINED."""

    i: Ints
    j: Ints
    sites: Ints
    transitions: Ints
    transversions: Ints
    distance: Floats
    reason: NDArray[np.uint8]


class Indicators:
    """The indicator columns of some rows."""

    def __init__(self, codes: Bytes) -> None:
        self.u, self.v = _U[codes], _V[codes]
        self.w = np.concatenate([_PURINE[codes], _PYRIMIDINE[codes]], axis=1)


def common_columns(codes: Bytes, deletion: Deletion) -> NDArray[np.bool_]:
    """The columns that count at all: known in every row (complete deletion), else known in at least one."""
    known = codes < AMBIGUOUS
    kept: NDArray[np.bool_] = np.all(known, axis=0) if deletion == "complete" else np.any(known, axis=0)
    return kept


def evaluate(
    model: Model, sites: Ints, transitions: Ints, transversions: Ints, min_overlap: int
) -> tuple[Floats, Bytes]:
    """Distances and reasons from counts. Whether a logarithm exists is decided on whole numbers."""
    differences = transitions + transversions
    reason = np.zeros(sites.shape, np.uint8)
    with np.errstate(divide="ignore", invalid="ignore"):
        if model == "p":
            distance = differences / sites
        elif model == "jc69":
            argument = 3 * sites - 4 * differences
            distance = -0.75 * np.log(argument / (3 * sites))
            reason[argument <= 0] = SATURATED
        else:
            first, second = sites - 2 * transitions - transversions, sites - 2 * transversions
            distance = -0.5 * np.log(first / sites) - 0.25 * np.log(second / sites)
            reason[(first <= 0) | (second <= 0)] = SATURATED
    reason[sites < min_overlap] = MIN_OVERLAP
    reason[sites == 0] = NO_OVERLAP
    distance = distance + 0.0  # identical pairs would print as -0
    distance[reason != DEFINED] = np.nan
    return distance, reason


def counts(one: Indicators, other: Indicators) -> tuple[Ints, Ints, Ints]:
    """Common sites, transitions and transversions of every row of one with every row of the other."""
    sites = one.u @ other.u.T
    transversions = (sites - one.v @ other.v.T) / 2
    transitions = (sites - transversions - one.w @ other.w.T) / 2
    return sites.astype(np.int64), transitions.astype(np.int64), transversions.astype(np.int64)


def all_pairs(codes: Bytes, rule: Rule, *, block: int = BLOCK) -> Iterator[Pairs]:
    """Every pair of rows once, in blocks of at most block x block, so that memory does not grow with n**2.

    `codes` is n x columns as `sequences.encode` gives it.
    """
    codes = codes[:, common_columns(codes, rule.deletion)]
    if codes.shape[1] >= 1 << 24:
        raise ValueError("more than 2**24 columns cannot be counted exactly")
    starts = range(0, codes.shape[0], block)
    for start in starts:
        rows = Indicators(codes[start : start + block])
        for other in starts[start // block :]:
            columns = rows if other == start else Indicators(codes[other : other + block])
            yield pairs_of(counts(rows, columns), rule, start, other)


def pairs_of(found: tuple[Ints, Ints, Ints], rule: Rule, start: int, other: int) -> Pairs:
    height, width = found[0].shape
    if start == other:
        upper = np.triu_indices(height, 1)
        i, j = upper[0].astype(np.int64), upper[1].astype(np.int64)
        sites, transitions, transversions = (array[upper] for array in found)
    else:
        i, j = np.repeat(np.arange(height), width), np.tile(np.arange(width), height)
        sites, transitions, transversions = (array.ravel() for array in found)
    distance, reason = evaluate(rule.model, sites, transitions, transversions, rule.min_overlap)
    return Pairs(
        i=i + start,
        j=j + other,
        sites=sites,
        transitions=transitions,
        transversions=transversions,
        distance=distance,
        reason=reason,
    )


def square(codes: Bytes, rule: Rule) -> Floats:
    """The n x n matrix of distances, for small n: zeros on the diagonal, NaN where undefined."""
    matrix = np.zeros((codes.shape[0],) * 2)
    for pairs in all_pairs(codes, rule):
        matrix[pairs.i, pairs.j] = matrix[pairs.j, pairs.i] = pairs.distance
    return matrix


def median_p(codes: Bytes, *, sample: int = 1000) -> Floats:
    """Each row's median p-distance to the others, or to `sample` of them, evenly chosen, of more."""
    total = codes.shape[0]
    chosen = np.unique(np.linspace(0, total - 1, min(total, sample)).astype(np.int64))
    others = Indicators(codes[chosen])
    medians = np.full(total, np.nan)
    for start in range(0, total, BLOCK):
        rows = Indicators(codes[start : start + BLOCK])
        sites, transitions, transversions = counts(rows, others)
        p, _ = evaluate("p", sites, transitions, transversions, 1)
        p[(np.arange(start, start + p.shape[0])[:, None]) == chosen[None, :]] = np.nan
        some = ~np.isnan(p).all(axis=1)
        medians[start : start + BLOCK][some] = np.nanmedian(p[some], axis=1)
    return medians


def group_rows(codes: Bytes, labels: Sequence[object]) -> tuple[Ints, Ints]:
    """Rows alike in known bases and label made one: each group's first row, and the group of each row.

    What is not A, C, G or T does not tell rows apart: a group's rows have the same distances to all others.
    """
    merged = np.minimum(codes, AMBIGUOUS)
    groups: dict[tuple[bytes, object], int] = {}
    first: list[int] = []
    member = np.empty(codes.shape[0], np.int64)
    for number, (row, label) in enumerate(zip(merged, labels, strict=True)):
        group = groups.setdefault((row.tobytes(), label), len(groups))
        if group == len(first):
            first.append(number)
        member[number] = group
    return np.array(first, np.int64), member
