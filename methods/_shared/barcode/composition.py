"""Base composition of sequences: counts of A, C, G, T, N, gaps and other letters, GC by codon position."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .sequences import GAP, A, Bytes, C, G, T

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

COUNTS = ("A", "C", "G", "T", "N", "gap", "other")
FIGURES = ("G", "C", "A", "T", "GC", "GC1", "GC2", "GC3")  # per cent of A + C + G + T


def counts(letters: Bytes, codes: Bytes) -> Ints:
    """For each row how many of COUNTS."""
    unknown = letters == ord("N")
    bases = [(codes == base).sum(axis=1) for base in (A, C, G, T)]
    gaps, n = (codes == GAP).sum(axis=1), unknown.sum(axis=1)
    other = letters.shape[1] - sum(bases) - gaps - n
    return np.stack([*bases, n, gaps, other], axis=1).astype(np.int64)


def gc(found: Ints) -> Floats:
    """GC in per cent of A + C + G + T, NaN where there are none of them."""
    known = found[..., :4].sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        percent: Floats = 100 * (found[..., 1] + found[..., 2]) / known
    return percent


def of_positions(codes: Bytes, positions: Ints) -> Ints:
    """For each row and codon position 1, 2, 3 how many A, C, G, T."""
    parts = []
    for position in (1, 2, 3):
        columns = codes[:, positions == position]
        parts.append(np.stack([(columns == base).sum(axis=1) for base in (A, C, G, T)], axis=1))
    return np.stack(parts, axis=1).astype(np.int64)


def figures(whole: Ints, by_position: Ints | None) -> Floats:
    """For each row FIGURES; NaN where there is no base to count, or no codon position."""
    known = whole[:, :4].sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        single = [100 * whole[:, base] / known for base in (G, C, A, T)]
    thirds = (
        [np.full(known.shape, np.nan)] * 3
        if by_position is None
        else [gc(by_position[:, position]) for position in range(3)]
    )
    return np.stack([*single, gc(whole), *thirds], axis=1)


def summary(values: Floats) -> dict[str, Any]:
    """Minimum, mean, maximum, SE and SD (n - 1) of the values that are there; None where too few are."""
    values = values[~np.isnan(values)]
    if not values.size:
        return {"n": 0, "min": None, "mean": None, "max": None, "se": None, "sd": None}
    low, high = float(values.min()), float(values.max())
    sd = float(np.std(values, ddof=1)) if values.size > 1 and low < high else 0.0
    several = values.size > 1
    return {
        "n": int(values.size),
        "min": low,
        "mean": min(max(float(values.mean()), low), high),
        "max": high,
        "se": sd / values.size**0.5 if several else None,
        "sd": sd if several else None,
    }
