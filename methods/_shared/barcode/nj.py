"""Neighbour joining (Saitou and Nei 1987, in the form of Studier and Keppler 1988), over a whole matrix.

With m nodes left, S_i the sum of the distances from i and u_i = S_i / (m - 2), the pair with the smallest
d_ij - u_i - u_j is joined by a new node k:
    length of i  (d_ij + u_i - u_j) / 2      d_kl = (d_il + d_jl - d_ij) / 2
and the last three nodes meet in one. Ties go to the pair found first in input order. Negative lengths are as
they come. Only rows that can hold the smallest value are looked at: for each row a lower bound of
min_j (d_ij - u_j) is kept, which falls by no more than the largest rise of any u_j.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CHUNK = 32


@dataclass(slots=True)
class Tree:
    """Nodes 0 to tips - 1 are the tips; `children[node]` of the others, `length[node]` to the one above."""

    tips: int
    root: int = 0
    children: dict[int, list[int]] = field(default_factory=dict)
    length: dict[int, float] = field(default_factory=dict)

    def preorder(self, start: int | None = None) -> list[int]:
        """Each node before what is below it, children in their order."""
        order, waiting = [], [self.root if start is None else start]
        while waiting:
            node = waiting.pop()
            order.append(node)
            waiting.extend(reversed(self.children.get(node, ())))
        return order

    def tip_order(self) -> list[int]:
        return [node for node in self.preorder() if node < self.tips]


def neighbour_joining(matrix: Floats, progress: Callable[[int, int], None] = lambda done, of: None) -> Tree:
    """The tree of three rows or more; `matrix` is used up. Raises ValueError where a distance is missing."""
    tips = matrix.shape[0]
    if tips < 3 or not np.isfinite(matrix).all():
        raise ValueError("neighbour joining needs three rows or more and every distance")
    state = Joining(matrix)
    while state.left > 3:
        state.step()
        progress(tips - state.left, tips)
    return state.end()


class Joining:
    """The nodes not yet joined: their distances, sums, and bounds; freed places are cut away now and then."""

    def __init__(self, matrix: Floats) -> None:
        self.distance = matrix
        self.tree = Tree(matrix.shape[0])
        self.node: Ints = np.arange(matrix.shape[0])
        self.alive = np.ones(matrix.shape[0], np.bool_)
        self.left = self.next = matrix.shape[0]
        np.fill_diagonal(matrix, 0.0)
        self.sums: Floats = matrix.sum(axis=1)
        np.fill_diagonal(matrix, np.inf)
        self.u = self.sums / max(self.left - 2, 1)
        self.low: Floats = np.empty(matrix.shape[0])
        for start in range(0, matrix.shape[0], 256):
            rows = slice(start, start + 256)
            self.low[rows] = (matrix[rows] - self.u).min(axis=1)

    def step(self) -> None:
        i, j = self.smallest()
        d = self.distance[i, j]
        half = (self.u[i] - self.u[j]) / 2
        self.tree.length[int(self.node[i])], self.tree.length[int(self.node[j])] = d / 2 + half, d / 2 - half
        self.tree.children[self.next] = [int(self.node[i]), int(self.node[j])]
        self.replace(i, j, d)
        self.next += 1
        if self.left < 0.6 * self.alive.size and self.left > 64:
            self.compact()

    def smallest(self) -> tuple[int, int]:
        """The pair with the smallest d - u_i - u_j, the earlier place first."""
        keys = np.where(self.alive, self.low - self.u, np.inf)
        first = int(keys.argmin())
        best, i, j = self.look(np.array([first]), keys)
        while True:
            able = np.flatnonzero(keys < best)
            if not able.size:
                return (i, j) if i < j else (j, i)
            if able.size > CHUNK:
                able = np.sort(able[np.argpartition(keys[able], CHUNK)[:CHUNK]])
            found, one, other = self.look(able, keys)
            if found < best:
                best, i, j = found, one, other

    def look(self, rows: Ints, keys: Floats) -> tuple[float, int, int]:
        """The smallest value of these rows, their bounds made exact; they are not looked at again."""
        values = self.distance[rows] - self.u
        at = values.argmin(axis=1)
        self.low[rows] = values[np.arange(rows.size), at]
        totals = self.low[rows] - self.u[rows]
        keys[rows] = np.inf
        place = int(totals.argmin())
        return float(totals[place]), int(rows[place]), int(at[place])

    def replace(self, i: int, j: int, d: float) -> None:
        """The new node takes the place of i; j is gone."""
        one, other = self.distance[i], self.distance[j]
        new = (one + other - d) / 2
        new[[i, j]] = np.inf
        self.alive[j] = False
        live = self.alive.copy()
        live[i] = False
        self.sums[live] += new[live] - one[live] - other[live]
        self.sums[i] = new[live].sum()
        self.distance[i] = self.distance[:, i] = new
        self.distance[j] = self.distance[:, j] = np.inf
        self.node[i] = self.next
        self.left -= 1
        before = self.u
        self.u = np.where(self.alive, self.sums / max(self.left - 2, 1), 0.0)
        rise = float((self.u[live] - before[live]).max(initial=-np.inf))
        self.low -= rise + 1e-15
        self.low = np.minimum(self.low, new - self.u[i])
        self.low[i] = (new[live] - self.u[live]).min()

    def compact(self) -> None:
        kept = np.flatnonzero(self.alive)
        self.distance = self.distance[np.ix_(kept, kept)]
        self.node, self.low, self.alive = self.node[kept], self.low[kept], self.alive[kept]
        self.sums = np.where(np.isinf(self.distance), 0.0, self.distance).sum(axis=1)
        self.u = self.sums / max(self.left - 2, 1)
        self.low -= 1e-12  # the sums are counted anew

    def end(self) -> Tree:
        i, j, k = (int(place) for place in np.flatnonzero(self.alive))
        d = self.distance
        for one, two, three in ((i, j, k), (j, i, k), (k, i, j)):
            self.tree.length[int(self.node[one])] = (d[one, two] + d[one, three] - d[two, three]) / 2
        self.tree.children[self.next] = [int(self.node[place]) for place in (i, j, k)]
        self.tree.root = self.next
        return self.tree
