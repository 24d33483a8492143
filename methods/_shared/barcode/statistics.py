"""Summaries of very many weighted values that are never held at once, by group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EXACT_VALUES = 4_000_000  # beyond, quantiles come from a histogram of FINE-wide bins
FINE = 1e-5
LARGEST = 10.0


class GroupedSummary:
    """Count, minimum, mean, maximum and standard deviation of the values of each of `groups` groups.

    Sums are kept relative to a group's first value, so that equal values have a deviation of exactly 0.
    """

    def __init__(self, groups: int) -> None:
        self.count = np.zeros(groups, np.int64)
        self.shift, self.total, self.squares = np.zeros(groups), np.zeros(groups), np.zeros(groups)
        self.min, self.max = np.full(groups, np.nan), np.full(groups, np.nan)

    def add(self, group: Ints, values: Floats, weights: Ints) -> None:
        """Values none of which is NaN; a weight is how often its value counts."""
        if not values.size:
            return
        order = np.argsort(group, kind="stable")
        group, values, weights = group[order], values[order], weights[order]
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        found = group[starts]
        self.shift[found] = np.where(self.count[found] == 0, values[starts], self.shift[found])
        apart = values - self.shift[group]
        self.count[found] += np.add.reduceat(weights, starts)
        self.total[found] += np.add.reduceat(weights * apart, starts)
        self.squares[found] += np.add.reduceat(weights * apart * apart, starts)
        self.min[found] = np.fmin(self.min[found], np.minimum.reduceat(values, starts))
        self.max[found] = np.fmax(self.max[found], np.maximum.reduceat(values, starts))

    @property
    def mean(self) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = self.shift + self.total / self.count
        inside: Floats = np.fmin(np.fmax(mean, self.min), self.max)  # rounding must not lead out of them
        return inside

    @property
    def sd(self) -> Floats:
        """With n - 1; NaN for fewer than two values."""
        with np.errstate(invalid="ignore", divide="ignore"):
            variance = (self.squares - self.total**2 / self.count) / (self.count - 1)
        return np.sqrt(np.where(self.count > 1, np.maximum(variance, 0.0), np.nan))

    @property
    def se(self) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            error: Floats = self.sd / np.sqrt(self.count)
        return error


@dataclass(frozen=True, slots=True)
class Quartiles:
    q1: float
    median: float
    q3: float
    exact: bool


class Quantiles:
    """Quantiles (R's type 7) of weighted values: exact while they fit, else to the width of a fine bin."""

    def __init__(self, limit: int = EXACT_VALUES) -> None:
        self.limit, self.held = limit, 0
        self.parts: list[tuple[Floats, Ints]] = []
        self.bins: Ints | None = None

    def add(self, values: Floats, weights: Ints) -> None:
        if not values.size:
            return
        if self.bins is None:
            self.parts.append((values, weights))
            self.held += values.size
            if self.held <= self.limit:
                return
            self.bins = np.zeros(round(LARGEST / FINE) + 1, np.int64)
            held, self.parts = self.parts, []
            for part in held:
                self.add(*part)
            return
        place = np.minimum(values / FINE, self.bins.size - 1).astype(np.int64)
        self.bins += np.bincount(place, weights, self.bins.size).astype(np.int64)

    def quartiles(self) -> Quartiles | None:
        if self.bins is not None:
            filled = np.flatnonzero(self.bins)
            values: Floats = (filled + 0.5) * np.float64(FINE)
            weights = self.bins[filled]
        elif self.parts:
            values = np.concatenate([part[0] for part in self.parts])
            weights = np.concatenate([part[1] for part in self.parts])
        else:
            return None
        order = np.argsort(values, kind="stable")
        values, upto = values[order], np.cumsum(weights[order])
        q1, median, q3 = (quantile(values, upto, share) for share in (0.25, 0.5, 0.75))
        return Quartiles(q1, median, q3, exact=self.bins is None)


def quantile(values: Floats, upto: Ints, share: float) -> float:
    """Of sorted values, `upto` how many there are up to and with each."""
    place = (int(upto[-1]) - 1) * share
    below = int(place)
    low = float(values[np.searchsorted(upto, below, side="right")])
    above = int(np.searchsorted(upto, below + 1, side="right"))
    return low + (float(values[min(above, values.size - 1)]) - low) * (place - below)
