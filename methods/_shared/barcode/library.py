"""How well a library tells its own species apart: each record identified by the others (leave one out).

With a record's smallest distances to its own species (`within`) and to other species (`other`):
    nearest neighbour  correct where within < other, ambiguous where they are equal
    best close match   of the nearest records, if nearer than the threshold: correct, incorrect, or ambiguous
                       where they are of several species (Meier et al. 2006)
    threshold          of all records nearer than the threshold: correct where all are of its species,
                       ambiguous where some are, incorrect where none is
    best threshold     species with one record: true negative with nobody nearer than the threshold; others:
                       true positive with their own species only, false positive with nobody; false negative
                       with another species nearer than the threshold
These are the rules of spider's nearNeighbour, bestCloseMatch, threshID and threshOpt (Brown et al. 2012).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .distances import BLOCK, Indicators, Rule, common_columns, counts, evaluate
from .sequences import Bytes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
HAIR = 1e-12  # rounding between distances that are alike
THRESHOLDS = (0.001, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05)


@dataclass(frozen=True, kw_only=True, slots=True)
class Nearest:
    """For each record; NaN where there is none. `several`: the nearest others are of two species or more."""

    within_min: Floats
    within_max: Floats
    other_min: Floats
    several: NDArray[np.bool_]
    alone: NDArray[np.bool_]


def nearest(codes: Bytes, species: Ints, rule: Rule, progress: Callable[[int], None]) -> Nearest:
    """Row by row over all others, in blocks; `species` numbers each record's species."""
    codes = codes[:, common_columns(codes, rule.deletion)]
    total = codes.shape[0]
    within_min, within_max = np.full(total, np.nan), np.full(total, np.nan)
    other_min, several = np.full(total, np.nan), np.zeros(total, np.bool_)
    nearest_species = np.full(total, -1)
    for start in range(0, total, BLOCK):
        rows = slice(start, min(start + BLOCK, total))
        mine = Indicators(codes[rows])
        for other in range(0, total, BLOCK):
            columns = slice(other, min(other + BLOCK, total))
            theirs = mine if other == start else Indicators(codes[columns])
            distance, _ = evaluate(rule.model, *counts(mine, theirs), rule.min_overlap)
            if other == start:
                np.fill_diagonal(distance, np.nan)
            same = species[rows, None] == species[None, columns]
            conspecific, foreign = np.where(same, distance, np.nan), np.where(same, np.nan, distance)
            within_min[rows] = np.fmin(within_min[rows], least(conspecific))
            within_max[rows] = np.fmax(within_max[rows], -least(-conspecific))
            merge_others(foreign, species[columns], other_min[rows], nearest_species[rows], several[rows])
        progress(rows.stop)
    sizes = np.bincount(species)
    return Nearest(
        within_min=within_min,
        within_max=within_max,
        other_min=other_min,
        several=several,
        alone=sizes[species] == 1,
    )


def least(values: Floats) -> Floats:
    """Smallest of each row, NaN where all are."""
    found = np.where(np.isnan(values), np.inf, values).min(axis=1)
    return np.where(np.isinf(found), np.nan, found)


def merge_others(
    foreign: Floats, species: Ints, best: Floats, kind: Ints, several: NDArray[np.bool_]
) -> None:
    """Carry the smallest distance to another species, whose it is, and whether it is of several, in place."""
    found = least(foreign)
    tied = np.abs(foreign - found[:, None]) <= HAIR
    lowest = np.where(tied, species[None, :], np.iinfo(np.int64).max).min(axis=1)
    highest = np.where(tied, species[None, :], -1).max(axis=1)
    nearer = np.isnan(best) | (found < best - HAIR)
    equal = ~nearer & (np.abs(found - best) <= HAIR)
    nearer &= ~np.isnan(found)
    several[equal] |= (lowest[equal] != kind[equal]) | (lowest[equal] != highest[equal])
    several[nearer] = lowest[nearer] != highest[nearer]
    kind[nearer] = lowest[nearer]
    best[nearer] = found[nearer]


def near_neighbour(found: Nearest) -> list[str]:
    """ "correct", "incorrect", "ambiguous" (tied), or "no id" where there is no other record to compare."""
    return [verdict(w, o, s, np.inf) for w, o, s in rows_of(found)]


def best_close_match(found: Nearest, threshold: float) -> list[str]:
    return [verdict(w, o, s, threshold) for w, o, s in rows_of(found)]


def rows_of(found: Nearest) -> zip[tuple[float, float, bool]]:
    within = np.where(np.isnan(found.within_min), np.inf, found.within_min).tolist()
    other = np.where(np.isnan(found.other_min), np.inf, found.other_min).tolist()
    return zip(within, other, found.several.tolist(), strict=True)


def verdict(within: float, other: float, several: bool, threshold: float) -> str:
    if not min(within, other) < threshold:
        return "no id"
    if abs(within - other) <= HAIR:
        return "ambiguous"
    if within < other:
        return "correct"
    return "ambiguous" if several else "incorrect"


def threshold_match(found: Nearest, threshold: float) -> list[str]:
    names = []
    for within, other, _ in rows_of(found):
        mine, theirs = within < threshold, other < threshold
        found_as = {(True, True): "ambiguous", (True, False): "correct", (False, True): "incorrect"}
        names.append(found_as.get((mine, theirs), "no id"))
    return names


def errors(found: Nearest, threshold: float) -> dict[str, int]:
    """Counts of the optimal-threshold rule; `cumulative_error` is false negatives and positives together."""
    within, other = (np.nan_to_num(v, nan=np.inf) < threshold for v in (found.within_min, found.other_min))
    alone = found.alone
    counts = {
        "true_negative": int((alone & ~other).sum()),
        "true_positive": int((~alone & within & ~other).sum()),
        "false_negative": int((other).sum()),
        "false_positive": int((~alone & ~within & ~other).sum()),
    }
    return {**counts, "cumulative_error": counts["false_negative"] + counts["false_positive"]}
