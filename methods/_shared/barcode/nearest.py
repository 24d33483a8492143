"""Distances within groups, and from each group and each record to the nearest record of another group."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .distances import DEFINED, REASONS, Pairs, Rule, all_pairs, common_columns, evaluate
from .distances import group_rows as alike
from .groups import Groups
from .sequences import AMBIGUOUS, Bytes
from .statistics import GroupedSummary

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_TIES = 50  # pairs kept for a group whose nearest distance is shared by more


class NearestGroups:
    """One pass over all pairs of records; rows alike in sequence and group are compared once.

    By group: `within` (a GroupedSummary of its comparisons), `undefined_within`, `undefined_between`,
    `nearest` (distance to the nearest record of another group, NaN where there is none) and `ties`.
    By record, after `run`: `record_nearest`, `record_min_within`, `record_max_within`, NaN where none.
    Distances are equal when they are the same number: they come from whole counts.
    """

    def __init__(self, codes: Bytes, groups: Groups, rule: Rule) -> None:
        self.groups, self.rule = groups, rule
        self.codes = codes[:, common_columns(codes, rule.deletion)]
        self.columns = int(self.codes.shape[1])
        labels = groups.of.tolist()
        first, self.member = alike(self.codes, labels)
        self.first, self.group = first, groups.of[first]
        self.weight = np.bincount(self.member, minlength=first.size).astype(np.int64)
        count = len(groups.names)
        self.within = GroupedSummary(count)
        self.undefined_within, self.undefined_between = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.undefined = np.zeros(len(REASONS), np.int64)
        self.nearest = np.full(count, np.inf)
        self.ties: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        self.room = np.full(count, MOST_TIES, np.int64)
        self.row_nearest = np.full(first.size, np.inf)
        self.row_min, self.row_max = np.full(first.size, np.inf), np.full(first.size, -np.inf)

    def run(self, progress: Callable[[int, int], None]) -> None:
        codes = self.codes[self.first]
        self.add_alike(codes)
        for pairs in all_pairs(codes, self.rule):
            self.add(pairs)
            progress(int(self.weight[: pairs.i.max(initial=0) + 1].sum()), int(self.weight.sum()))
        self.nearest[np.isinf(self.nearest)] = np.nan
        for array in (self.row_nearest, self.row_min, self.row_max):
            array[np.isinf(array)] = np.nan

    @property
    def distinct(self) -> int:
        """How many different sequences there are."""
        return int(alike(self.codes, [0] * self.codes.shape[0])[0].size)

    @property
    def record_nearest(self) -> Floats:
        found: Floats = self.row_nearest[self.member]
        return found

    @property
    def record_min_within(self) -> Floats:
        found: Floats = self.row_min[self.member]
        return found

    @property
    def record_max_within(self) -> Floats:
        found: Floats = self.row_max[self.member]
        return found

    def nearest_rows(self) -> list[list[int]]:
        """For each group the records of others at its nearest distance, in input order, at most MOST_TIES."""
        order = np.argsort(self.member, kind="stable")
        members = np.split(order, np.cumsum(self.weight)[:-1])
        found = []
        for pairs in self.ties:
            others = sorted({j for _, j in pairs})
            found.append(sorted({b for j in others for b in members[j][:MOST_TIES].tolist()})[:MOST_TIES])
        return found

    def add_alike(self, codes: Bytes) -> None:
        """The pairs of records that are alike in sequence and group."""
        i = np.flatnonzero((self.weight > 1) & (self.group >= 0))
        sites = np.count_nonzero(codes[i] < AMBIGUOUS, axis=1).astype(np.int64)
        none = np.zeros(i.size, np.int64)
        distance, reason = evaluate(self.rule.model, sites, none, none, self.rule.min_overlap)
        weight = self.weight[i] * (self.weight[i] - 1) // 2
        good = reason == DEFINED
        self.within.add(self.group[i[good]], distance[good], weight[good])
        np.add.at(self.undefined_within, self.group[i[~good]], weight[~good])
        np.add.at(self.undefined, reason[~good], weight[~good])
        self.extend(i[good], distance[good])

    def extend(self, rows: Ints, distance: Floats) -> None:
        np.minimum.at(self.row_min, rows, distance)
        np.maximum.at(self.row_max, rows, distance)

    def add(self, pairs: Pairs) -> None:
        one, other = self.group[pairs.i], self.group[pairs.j]
        weight = self.weight[pairs.i] * self.weight[pairs.j]
        named, defined = (one >= 0) & (other >= 0), pairs.reason == DEFINED
        same = named & (one == other)
        inside, good = same & defined, named & ~same & defined
        if same.any():
            self.within.add(one[inside], pairs.distance[inside], weight[inside])
            np.add.at(self.undefined_within, one[same & ~defined], weight[same & ~defined])
            self.extend(pairs.i[inside], pairs.distance[inside])
            self.extend(pairs.j[inside], pairs.distance[inside])
        if not defined.all():
            bad = named & ~same & ~defined
            np.add.at(self.undefined_between, one[bad], weight[bad])
            np.add.at(self.undefined_between, other[bad], weight[bad])
            missing = named & ~defined
            np.add.at(self.undefined, pairs.reason[missing], weight[missing])
        self.approach(pairs.i[good], pairs.j[good], pairs.distance[good])
        self.approach(pairs.j[good], pairs.i[good], pairs.distance[good])

    def approach(self, rows: Ints, others: Ints, distance: Floats) -> None:
        """Of pairs between groups: keep those as near as anything seen so far."""
        near = distance <= self.nearest[self.group[rows]]
        np.minimum.at(self.row_nearest, rows, distance)
        rows, others, distance = rows[near], others[near], distance[near]
        if not rows.size:
            return
        groups, before = self.group[rows], self.nearest.copy()
        np.minimum.at(self.nearest, groups, distance)
        for group in np.flatnonzero(self.nearest < before).tolist():
            self.ties[group].clear()
            self.room[group] = MOST_TIES
        kept = (distance == self.nearest[groups]) & (self.room[groups] > 0)
        self.keep(groups[kept], rows[kept], others[kept])

    def keep(self, groups: Ints, rows: Ints, others: Ints) -> None:
        """The first pairs of each group, as many as it has room for."""
        order = np.argsort(groups, kind="stable")
        groups, rows, others = groups[order], rows[order], others[order]
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        lengths = np.diff(starts, append=groups.size)
        place = np.arange(groups.size) - np.repeat(starts, lengths)
        first = place < self.room[groups]
        for group, row, other in zip(
            groups[first].tolist(), rows[first].tolist(), others[first].tolist(), strict=True
        ):
            self.ties[group].append((row, other))
            self.room[group] -= 1
