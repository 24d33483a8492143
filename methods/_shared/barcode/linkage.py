"""Clusters of sequences: single linkage by a spanning forest, average and complete linkage within its parts.

A pair without a distance links nothing. Single linkage at a threshold is the connected components of the
pairs whose distance is at most the threshold (R's hclust "single", cut at that height). A cluster of average
or complete linkage lies within one of single linkage, so only those parts need a matrix.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .distances import DEFINED, Rule, all_pairs, common_columns, group_rows, square
from .sequences import AMBIGUOUS, Bytes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_EDGES = 1 << 20  # held before they are thinned to a forest
ROUNDING = 1e-12  # a distance of 0.022 is within 2.2 %, whatever binary fractions make of both


class Forest:
    """The lightest edges that connect what is connected: from it the components at any threshold follow."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.i, self.j, self.d = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
        self.waiting: list[tuple[Ints, Ints, Floats]] = []
        self.held = 0

    def add(self, i: Ints, j: Ints, distance: Floats) -> None:
        if not i.size:
            return
        self.waiting.append((i, j, distance))
        self.held += i.size
        if self.held > MOST_EDGES:
            self.thin()

    def thin(self) -> None:
        """Boruvka's algorithm over all edges held; equal distances in the order of i, then j."""
        i, j, d = (
            np.concatenate([mine, *(part[n] for part in self.waiting)])
            for n, mine in enumerate((self.i, self.j, self.d))
        )
        order = np.lexsort((j, i, d))
        i, j, d = i[order], j[order], d[order]
        kept = np.zeros(i.size, np.bool_)
        label = np.arange(self.nodes)
        edges = np.arange(i.size)
        while edges.size:
            a, b = label[i[edges]], label[j[edges]]
            edges, a, b = edges[a != b], a[a != b], b[a != b]
            if not edges.size:
                break
            lightest = np.full(self.nodes, i.size)
            np.minimum.at(lightest, a, edges)
            np.minimum.at(lightest, b, edges)
            chosen = np.unique(lightest[lightest < i.size])
            kept[chosen] = True
            label = joined(label, label[i[chosen]], label[j[chosen]])
        self.i, self.j, self.d = i[kept], j[kept], d[kept]
        self.waiting, self.held = [], 0

    def components(self, threshold: float) -> Ints:
        """A number for each node, the same for those connected by distances of at most `threshold`."""
        if self.waiting:
            self.thin()
        near = self.d <= threshold + ROUNDING
        return joined(np.arange(self.nodes), self.i[near], self.j[near])

    def clusters_at(self, threshold: float) -> int:
        """How many components there are; every edge of a forest joins two."""
        if self.waiting:
            self.thin()
        return self.nodes - int(np.count_nonzero(self.d <= threshold + ROUNDING))


def joined(label: Ints, a: Ints, b: Ints) -> Ints:
    """Labels after the labels a and b have been made one, pair by pair: the smallest of each set."""
    parent = np.arange(label.max(initial=-1) + 1)
    while True:
        one, other = parent[a], parent[b]
        apart = one != other
        if not apart.any():
            break
        low, high = np.minimum(one, other)[apart], np.maximum(one, other)[apart]
        np.minimum.at(parent, high, low)
        while True:
            above = parent[parent]
            if np.array_equal(above, parent):
                break
            parent = above
    return parent[label]


class Linkage:
    """Clusters of rows at a threshold; rows alike in their known bases are compared once."""

    def __init__(self, codes: Bytes, rule: Rule) -> None:
        self.rule = rule
        self.codes = codes[:, common_columns(codes, rule.deletion)]
        known = np.count_nonzero(self.codes < AMBIGUOUS, axis=1)
        apart = known < max(rule.min_overlap, 1)  # such rows have no distance to one another though alike
        labels = np.where(apart, np.arange(codes.shape[0]), -1).tolist()
        self.first, self.member = group_rows(self.codes, labels)
        self.forest = Forest(self.first.size)

    def run(self, most: float, progress: Callable[[int, int], None]) -> None:
        """Look at all pairs; distances beyond `most` are of no interest."""
        codes, total = self.codes[self.first], self.first.size
        for pairs in all_pairs(codes, self.rule):
            near = (pairs.reason == DEFINED) & (pairs.distance <= most + ROUNDING)
            self.forest.add(pairs.i[near], pairs.j[near], pairs.distance[near])
            progress(int(pairs.i.max(initial=0)) + 1, total)

    def largest_part(self, threshold: float) -> int:
        return int(np.bincount(self.forest.components(threshold)).max(initial=0))

    def clusters(self, threshold: float, linkage: str) -> Ints:
        """A number for each record."""
        part = self.forest.components(threshold)
        if linkage != "single":
            weights = np.bincount(self.member, minlength=self.first.size)
            for number in np.flatnonzero(np.bincount(part) > 2).tolist():
                rows = np.flatnonzero(part == number)
                matrix = square(self.codes[self.first[rows]], self.rule)
                inner = agglomerate(matrix, weights[rows], threshold, average=linkage == "average")
                part[rows] = rows[inner]
        found: Ints = part[self.member]
        return found


def agglomerate(matrix: Floats, weights: Ints, threshold: float, *, average: bool) -> Ints:
    """For each row the first row of its cluster: merged while the nearest are at most `threshold` apart.

    The nearest-neighbour chain (Benzecri 1982), exact for average (UPGMA, rows
    weighted) and complete linkage. A missing distance is infinite: such clusters never merge.
    """
    distance = np.where(np.isnan(matrix), np.inf, matrix)
    np.fill_diagonal(distance, np.inf)
    size = weights.astype(np.float64)
    cluster = np.arange(size.size)
    active = np.ones(size.size, np.bool_)
    chain: list[int] = []
    while active.any():
        if not chain:
            chain.append(int(active.argmax()))
        top = chain[-1]
        nearest = int(distance[top].argmin())
        if len(chain) > 1 and distance[top, chain[-2]] <= distance[top, nearest]:
            nearest = chain[-2]
        if distance[top, nearest] > threshold + ROUNDING:  # no later merge of this cluster can be closer
            active[top] = False
            distance[top] = distance[:, top] = np.inf
            chain.pop()
        elif len(chain) > 1 and nearest == chain[-2]:
            merge(distance, size, min(top, nearest), max(top, nearest), average=average)
            cluster[cluster == max(top, nearest)] = min(top, nearest)
            active[max(top, nearest)] = False
            del chain[-2:]
        else:
            chain.append(nearest)
    return cluster


def merge(distance: Floats, size: Floats, kept: int, gone: int, *, average: bool) -> None:
    one, other = distance[kept], distance[gone]
    new = (
        (size[kept] * one + size[gone] * other) / (size[kept] + size[gone])
        if average
        else np.maximum(one, other)
    )
    new[[kept, gone]] = np.inf
    distance[kept] = distance[:, kept] = new
    distance[gone] = distance[:, gone] = np.inf
    size[kept] += size[gone]
