"""Accumulation of kinds (species, BINs ...) over samples: exact expectation, random orders, Chao1.

With N samples of which N_i are of kind i, q_i(k) = C(N - N_i, k) / C(N, k) is the chance that kind i is in
none of k samples drawn without return, and q_ij(k) = C(N - N_i - N_j, k) / C(N, k) that neither i nor j is:
    E[S(k)]   = sum over i of 1 - q_i
    Var[S(k)] = sum over i of q_i (1 - q_i) + sum over i <> j of (q_ij - q_i q_j)
(Hurlbert 1971; Heck, van Belle and Simberloff 1975). Chao1 = S + f1^2 / (2 f2), or S + f1 (f1 - 1) / 2 where
f2 = 0 (Chao 1984), f1 and f2 being the kinds with one and with two samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    mean: Floats
    sd: Floats


def expected(kinds: Ints, points: Ints) -> Expected:
    """Mean and standard deviation at `points`, ascending sample counts; `kinds` has each kind's samples.

    Kept in extended precision: the variance is a small difference of large sums.
    """
    total = int(kinds.sum())
    sizes, of_size = np.unique(kinds, return_counts=True)
    pair_sums, pairs = ordered_pairs(sizes, of_size)
    every = np.union1d(sizes, pair_sums)
    absent = np.ones(every.size, np.longdouble)  # q for kinds of each size, carried from k to k + 1
    single, double = np.searchsorted(every, sizes), np.searchsorted(every, pair_sums)
    means, variances = np.zeros(points.size), np.zeros(points.size)
    wanted = dict(zip(points.tolist(), range(points.size), strict=True))
    for k in range(int(points[-1]) if points.size else 0):
        absent *= np.maximum(total - every - k, 0).astype(np.longdouble) / np.longdouble(total - k)
        at = wanted.get(k + 1)
        if at is not None:
            missing = (of_size * absent[single]).sum()
            means[at] = float(kinds.size - missing)
            variances[at] = float(missing + (pairs * absent[double]).sum() - missing**2)
    noise = 1e-12 * kinds.size
    return Expected(mean=means, sd=np.sqrt(np.where(variances > noise, variances, 0.0)))


def ordered_pairs(sizes: Ints, of_size: Ints) -> tuple[Ints, Ints]:
    """Sums of the sizes of two different kinds, and how many ordered pairs have each."""
    couples = np.multiply.outer(of_size, of_size)
    couples[np.diag_indices(sizes.size)] -= of_size
    sums, where = np.unique(np.add.outer(sizes, sizes).ravel(), return_inverse=True)
    counts = np.zeros(sums.size, np.int64)
    np.add.at(counts, where.ravel(), couples.ravel())
    return sums, counts


def collected(order: Ints, points: Ints) -> Ints:
    """How many kinds are among the first k of `order` (a kind's number for each sample), for each point k."""
    first = np.unique(order, return_index=True)[1]
    return np.searchsorted(np.sort(first), points, side="left")


def simulated(
    samples: Ints, points: Ints, iterations: int, seed: int | list[int], progress: Callable[[int], None]
) -> NDArray[np.int32]:
    """iterations x points: kinds found along so many random orders."""
    random = np.random.default_rng(seed)
    found = np.zeros((iterations, points.size), np.int32)
    for number in range(iterations):
        found[number] = collected(random.permutation(samples), points)
        progress(number + 1)
    return found


def chao1(kinds: Ints) -> float:
    once, twice = int((kinds == 1).sum()), int((kinds == 2).sum())
    unseen = once**2 / (2 * twice) if twice else once * (once - 1) / 2
    return kinds.size + unseen


def grid(total: int, most: int) -> Ints:
    """1 to `total`, or `most` of these evenly chosen with both ends."""
    if total <= most:
        return np.arange(1, total + 1)
    return np.unique(np.linspace(1, total, most).round().astype(np.int64))
