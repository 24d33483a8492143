"""The barcode gap of each group, and the error of a distance threshold over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .groups import HIGHER, common
from .linkage import ROUNDING
from .nearest import NearestGroups

OUTCOMES = ("true_negative", "true_positive", "false_negative", "false_positive")
THRESHOLDS = tuple(round(0.1 * step, 1) for step in range(1, 51))  # per cent


def rows_of(
    found: NearestGroups, records: Sequence[Mapping[str, Any]], threshold: float
) -> list[dict[str, Any]]:
    """One for each group, by name; distances are proportions, None where there is none."""
    within, mean = found.within, found.within.mean
    names = found.groups.names
    rows = []
    for n, (members, nearest) in enumerate(zip(found.groups.members(), found.nearest_rows(), strict=True)):
        compared = int(within.count[n])
        largest = float(within.max[n]) if compared else None
        distance = None if np.isnan(found.nearest[n]) else float(found.nearest[n])
        own = [records[r] for r in members]
        rows.append(
            {
                "name": names[n],
                **{rank: common(own, rank) for rank in HIGHER},
                "sequences": int(members.size),
                "comparisons": compared,
                "undefined_within": int(found.undefined_within[n]),
                "undefined_between": int(found.undefined_between[n]),
                "mean_within": float(mean[n]) if compared else None,
                "max_within": largest,
                "nearest_groups": sorted({names[found.groups.of[r]] for r in nearest}),
                "nearest_records": sorted(str(records[r]["record_id"]) for r in nearest),
                "nearest": distance,
                **judged(largest, distance, threshold),
            }
        )
    return rows


def judged(largest: float | None, nearest: float | None, threshold: float) -> dict[str, Any]:
    """The gap, and what is marked; None where it cannot be told."""
    both = largest is not None and nearest is not None
    return {
        "gap": nearest - largest if largest is not None and nearest is not None else None,
        "has_gap": (nearest or 0.0) > (largest or 0.0) if both else None,
        "near": None if nearest is None else nearest < threshold,
        "wide": None if largest is None else largest > threshold,
    }


def error_rates(found: NearestGroups) -> list[dict[str, Any]]:
    """How many records each threshold would judge rightly and wrongly, in the terms of spider's threshOpt.

    False negative: a record of another group is within the threshold. Else true positive: one of its own is.
    Else false positive: it has others of its own, none within. Else true negative: it is alone in its group.
    """
    named = found.groups.of >= 0
    nearest = np.where(np.isnan(found.record_nearest), np.inf, found.record_nearest)[named]
    own = np.where(np.isnan(found.record_min_within), np.inf, found.record_min_within)[named]
    single = found.groups.sizes[found.groups.of[named]] == 1 if named.any() else np.zeros(0, np.bool_)
    rows = []
    for limit in THRESHOLDS:
        false_negative = nearest < limit / 100 - ROUNDING
        true_positive = ~false_negative & (own < limit / 100 - ROUNDING)
        rest = ~false_negative & ~true_positive
        counts = (rest & single, true_positive, false_negative, rest & ~single)
        named_counts = {key: int(mask.sum()) for key, mask in zip(OUTCOMES, counts, strict=True)}
        rows.append({"threshold_percent": limit, **named_counts})
    return rows


def cumulative_error(row: Mapping[str, Any]) -> int:
    return int(row["false_negative"] + row["false_positive"])


def percent(value: float | None) -> float | None:
    return None if value is None else 100 * value
