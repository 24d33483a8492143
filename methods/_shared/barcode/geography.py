"""Distances over the earth, and their correlation with genetic ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EARTH_RADIUS_KM = 6371.0088  # mean radius, IUGG
FEW_PAIRS = 3
BATCH = 1_000_000  # permuted pairs at a time
FLAT = 1e-9  # differences smaller than this share of the largest value are rounding


def haversine_km(one: Floats, others: Floats) -> Floats:
    """Great-circle km from `one` to `others`, both ... x 2, latitude and longitude in degrees."""
    first, second = np.radians(one), np.radians(others)
    across = np.sin((second[..., 0] - first[..., 0]) / 2) ** 2
    along = np.sin((second[..., 1] - first[..., 1]) / 2) ** 2
    share = across + np.cos(first[..., 0]) * np.cos(second[..., 0]) * along
    km: Floats = 2 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(np.clip(share, 0, 1)))
    return km


def square_km(coordinates: Floats) -> Floats:
    return haversine_km(coordinates[:, None, :], coordinates[None, :, :])


def spanning_tree_km(coordinates: Floats) -> float:
    """Length of the minimum spanning tree of the sites (Prim 1957)."""
    sites = np.unique(coordinates, axis=0)
    nearest = np.full(sites.shape[0], np.inf)
    open_ones = np.ones(sites.shape[0], np.bool_)
    here, total = 0, 0.0
    for _ in range(sites.shape[0] - 1):
        open_ones[here] = False
        nearest = np.minimum(nearest, haversine_km(sites[here], sites))
        here = int(np.where(open_ones, nearest, np.inf).argmin())
        total += float(nearest[here])
    return total


@dataclass(frozen=True, kw_only=True, slots=True)
class Mantel:
    """`r` over `pairs` defined pairs; None with the reason in `why` where it does not exist.

    p-values by permutation, the observed order counted in: r, and |r|, at least as large.
    """

    pairs: int
    r: float | None
    p_greater: float | None
    p_two_sided: float | None
    why: str


def mantel(genetic: Floats, km: Floats, permutations: int, random: np.random.Generator) -> Mantel:
    """Both n x n; NaN in `genetic` is a pair without a distance. Rows and columns of `km` are permuted."""
    i, j = np.triu_indices(genetic.shape[0], 1)
    defined = ~np.isnan(genetic[i, j])
    i, j = i[defined].astype(np.int32), j[defined].astype(np.int32)
    values, apart = genetic[i, j], km[i, j]
    if why := undefined(values, apart):
        return Mantel(pairs=i.size, r=None, p_greater=None, p_two_sided=None, why=why)
    r = float(correlations(values, apart[None])[0])
    greater = two_sided = 0
    left = permutations
    each = max(1, BATCH // i.size)
    while left:
        rows = min(each, left)
        left -= rows
        orders = random.permuted(np.tile(np.arange(km.shape[0], dtype=np.int32), (rows, 1)), axis=1)
        drawn = correlations(values, km[orders[:, i], orders[:, j]])
        drawn = np.where(np.isnan(drawn), np.inf, drawn)  # an order without a correlation speaks against us
        greater += int((drawn >= r - 1e-12).sum())
        two_sided += int((np.abs(drawn) >= abs(r) - 1e-12).sum())
    return Mantel(
        pairs=i.size,
        r=r,
        p_greater=(greater + 1) / (permutations + 1),
        p_two_sided=(two_sided + 1) / (permutations + 1),
        why="",
    )


def undefined(values: Floats, apart: Floats) -> str:
    """Why two sets of values have no correlation; "" where they have."""
    if values.size < FEW_PAIRS:
        return "fewer than 3 pairs"
    if is_flat(apart):
        return "no geographic variance" if apart.max() else "one site"
    if is_flat(values):
        return "no genetic variance"
    return ""


def is_flat(values: Floats) -> bool:
    return float(np.ptp(values)) <= FLAT * float(np.abs(values).max())


def correlations(values: Floats, rows: Floats) -> Floats:
    """Pearson's r of `values` with each of `rows`; NaN for a row without variance."""
    centred = values - values.mean()
    apart = rows - rows.mean(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        r: Floats = apart @ centred / np.sqrt((apart**2).sum(axis=1) * (centred**2).sum())
    return np.clip(r, -1.0, 1.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Correlation:
    """Over groups: Pearson's r and its p by permutation; None with the reason in `why`."""

    groups: int
    r: float | None
    p_two_sided: float | None
    why: str


def correlation(
    values: Floats, others: Floats, permutations: int, random: np.random.Generator
) -> Correlation:
    if values.size < FEW_PAIRS:
        why = "fewer than 3 groups"
    elif is_flat(values) or is_flat(others):
        why = "no variance"
    else:
        r = float(correlations(values, others[None])[0])
        drawn = np.array(
            [correlations(values, random.permutation(others)[None])[0] for _ in range(permutations)]
        )
        extreme = int((np.abs(drawn) >= abs(r) - 1e-12).sum())
        p = (extreme + 1) / (permutations + 1)
        return Correlation(groups=values.size, r=r, p_two_sided=p, why="")
    return Correlation(groups=values.size, r=None, p_two_sided=None, why=why)
