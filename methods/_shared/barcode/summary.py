"""One pass over all pairs: comparisons within species, genus and family, of each taxon, and extreme pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .distances import BLOCK, DEFINED, REASONS, Pairs, Rule, all_pairs, common_columns, evaluate, group_rows
from .levels import RANKS, Taxa
from .sequences import AMBIGUOUS, Bytes
from .statistics import GroupedSummary, Quantiles

Ints = NDArray[np.int64]
ALL = 3  # beside the three ranks: every pair, whatever its names


class Extremes:
    """The pairs with the largest (or smallest) distances, as many as `keep`; ties go to the earlier pair."""

    def __init__(self, keep: int, *, largest: bool) -> None:
        self.keep, self.sign = keep, -1.0 if largest else 1.0
        self.rows = np.zeros((0, 6))

    def add(self, pairs: Pairs, mask: NDArray[np.bool_]) -> None:
        if not self.keep or not mask.any():
            return
        fields = (pairs.distance, pairs.i, pairs.j, pairs.sites, pairs.transitions, pairs.transversions)
        new = np.stack([field[mask].astype(np.float64) for field in fields], axis=1)
        if self.rows.shape[0] == self.keep:
            new = new[self.sign * new[:, 0] <= self.sign * self.rows[-1, 0]]
        rows = np.concatenate([self.rows, new])
        order = np.lexsort((rows[:, 2], rows[:, 1], self.sign * rows[:, 0]))
        self.rows = rows[order[: self.keep]]


class DistanceSummary:
    """Rows that are alike in sequence and names are compared once and counted as often as they occur."""

    def __init__(self, codes: Bytes, taxa: Taxa, rule: Rule, *, bin_percent: float, extremes: int) -> None:
        self.taxa, self.rule, self.bin = taxa, rule, bin_percent / 100
        self.codes = codes[:, common_columns(codes, rule.deletion)]
        self.columns = self.codes.shape[1]
        labels = list(zip(*(taxa.ids[rank].tolist() for rank in reversed(RANKS)), strict=True))
        first, self.member = group_rows(self.codes, labels)
        order = sorted(
            range(first.size), key=lambda g: (labels[first[g]], first[g])
        )  # relatives side by side
        self.first = first[order]
        place = np.empty(first.size, np.int64)
        place[order] = np.arange(first.size)
        self.member = place[self.member]
        self.weight = np.bincount(self.member, minlength=first.size).astype(np.int64)
        self.ids = {rank: taxa.ids[rank][self.first] for rank in RANKS}
        self.levels, self.quantiles = GroupedSummary(4), [Quantiles() for _ in range(4)]
        self.undefined = np.zeros((4, len(REASONS)), np.int64)
        self.by_taxon = {rank: GroupedSummary(len(taxa.names[rank])) for rank in RANKS}
        self.undefined_by_taxon = {rank: np.zeros(len(taxa.names[rank]), np.int64) for rank in RANKS}
        self.bins = int(np.ceil(1 / self.bin)) + 1
        self.histogram = np.zeros((4, self.bins), np.int64)
        self.by_species: Counter[tuple[int, int]] = Counter()
        self.farthest = Extremes(extremes, largest=True)
        self.nearest = {rank: Extremes(extremes, largest=False) for rank in RANKS[1:]}

    def run(self, progress: Callable[[int, int], None]) -> None:
        codes = self.codes[self.first]
        self.add(self.within_groups(codes), same=True)
        for pairs in all_pairs(codes, self.rule):
            self.add(pairs, same=False)
            progress(int(self.weight[: pairs.i.max(initial=0) + 1].sum()), int(self.weight.sum()))

    def within_groups(self, codes: Bytes) -> Pairs:
        """The pairs of records that are alike."""
        i = np.flatnonzero(self.weight > 1)
        sites = np.count_nonzero(codes[i] < AMBIGUOUS, axis=1).astype(np.int64)
        none = np.zeros(i.size, np.int64)
        distance, reason = evaluate(self.rule.model, sites, none, none, self.rule.min_overlap)
        return Pairs(
            i=i, j=i, sites=sites, transitions=none, transversions=none, distance=distance, reason=reason
        )

    def add(self, pairs: Pairs, *, same: bool) -> None:
        if not pairs.i.size:
            return
        weight = self.weight[pairs.i]
        weight = weight * (weight - 1) // 2 if same else weight * self.weight[pairs.j]
        defined = pairs.reason == DEFINED
        self.count(ALL, pairs, weight, defined, np.ones_like(defined))
        if not self.related(pairs):
            return
        level = self.level(pairs)
        for number, rank in enumerate(RANKS):
            mask = level == number
            if not mask.any():
                continue
            self.count(number, pairs, weight, defined, mask)
            taxon, good = self.ids[rank][pairs.i], mask & defined
            self.by_taxon[rank].add(taxon[good], pairs.distance[good], weight[good])
            bad = mask & ~defined
            np.add.at(self.undefined_by_taxon[rank], taxon[bad], weight[bad])
            (self.nearest[rank] if number else self.farthest).add(pairs, good)
            if number == 0:
                self.count_species(taxon[good], pairs.distance[good], weight[good])

    def count(
        self, group: int, pairs: Pairs, weight: Ints, defined: NDArray[np.bool_], mask: NDArray[np.bool_]
    ) -> None:
        good = mask & defined
        values, weights = pairs.distance[good], weight[good]
        self.levels.add(np.full(values.shape, group, np.int64), values, weights)
        self.quantiles[group].add(values, weights)
        self.histogram[group] += np.bincount(self.bin_of(values), weights, self.bins).astype(np.int64)
        bad = mask & ~defined
        self.undefined[group] += np.bincount(pairs.reason[bad], weight[bad], len(REASONS)).astype(np.int64)

    def count_species(self, species: Ints, values: NDArray[np.float64], weights: Ints) -> None:
        """How many comparisons of each species are in each bin, one species after the other."""
        if not species.size:
            return
        order = np.argsort(species, kind="stable")
        species, places, weights = species[order], self.bin_of(values)[order], weights[order]
        starts = np.flatnonzero(np.diff(species, prepend=-1))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), species.size], strict=True):
            totals = np.bincount(places[start:stop], weights[start:stop])
            for place in np.flatnonzero(totals).tolist():
                self.by_species[int(species[start]), place] += int(totals[place])

    def bin_of(self, values: NDArray[np.float64]) -> Ints:
        """A bin holds its lower bound; the last one all from 100 % on. A hair of rounding is forgiven."""
        return np.minimum(values / self.bin + 1e-9, self.bins - 1).astype(np.int64)

    def related(self, pairs: Pairs) -> bool:
        """Whether any two rows of this block share a name, so that most blocks need no look at each pair."""
        rows, columns = slice(pairs.i.min(), pairs.i.max() + 1), slice(pairs.j.min(), pairs.j.max() + 1)
        return any((np.intersect1d(ids[rows], ids[columns]) >= 0).any() for ids in self.ids.values())

    def level(self, pairs: Pairs) -> NDArray[np.int8]:
        return self.taxa.level(self.first[pairs.i], self.first[pairs.j])

    def normalised(self) -> NDArray[np.float64]:
        """Share of comparisons in each bin, of each species by itself, averaged over the species."""
        shares = np.zeros(self.bins)
        of_species = self.by_taxon["species"].count
        for (species, place), total in self.by_species.items():
            shares[place] += total / of_species[species]
        species = int(np.count_nonzero(of_species))
        return shares / species if species else shares

    def records_of(self) -> list[Ints]:
        """The records of each group, in input order."""
        order = np.argsort(self.member, kind="stable")
        return np.split(order, np.cumsum(self.weight)[:-1])


def estimated_bytes(rows: int, columns: int) -> int:
    """About what a run holds at its peak: the alignment twice, indicators of two blocks, pairs of one."""
    return 2 * rows * columns + 2 * BLOCK * columns * 4 * 4 + BLOCK * BLOCK * 200
