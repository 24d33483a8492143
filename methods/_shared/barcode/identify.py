"""From hits to names: match, ambiguous or no match, and the best guess at a higher rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

RANKS = ("species", "genus", "subfamily", "family", "order", "class", "phylum")
# Identity (%) from which a hit speaks for a rank, where it is too far for a match (BOLDigger's thresholds).
SUGGESTED = {"species": 97.0, "genus": 95.0, "family": 90.0, "order": 85.0, "class": 75.0, "phylum": 50.0}
STATUSES = ("match", "ambiguous", "no match", "no sequence", "too short")
Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """A record of the library, `row`, that the query was compared with; `reverse`: on its other strand."""

    row: Row
    sites: int
    differences: int
    reverse: bool

    @property
    def identity(self) -> float:
        return 100.0 * (self.sites - self.differences) / self.sites


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """`names` counts the names at `rank` among the hits within the threshold."""

    status: str
    rank: str | None
    names: Counter[str]
    within: int
    suggestion: tuple[str, str] | None


def order(hit: Hit) -> tuple[float, int, str]:
    """Identity, then overlap, then the id: ties have one order, whatever found them."""
    return -round(hit.identity, 9), -hit.sites, str(hit.row["record_id"])


def judge(hits: Sequence[Hit], threshold: float) -> Verdict:
    """`hits` in order. The lowest rank at which any hit within the threshold has a name decides.

    A hit without a name there neither agrees nor disagrees; a library with incomplete taxonomy still answers.
    """
    within = [hit for hit in hits if hit.identity >= threshold - 1e-9]
    for rank in RANKS:
        names = Counter(str(name) for hit in within if (name := hit.row.get(rank)))
        if names:
            status = "match" if len(names) == 1 else "ambiguous"
            return Verdict(status=status, rank=rank, names=names, within=len(within), suggestion=None)
    return Verdict(
        status="no match", rank=None, names=Counter(), within=len(within), suggestion=suggest(hits)
    )


def suggest(hits: Sequence[Hit]) -> tuple[str, str] | None:
    """The lowest rank that the hits are near enough for, and the name that most of those have there."""
    for rank, least in SUGGESTED.items():
        near = [hit for hit in hits if hit.identity >= least - 1e-9]
        names = Counter(str(name) for hit in near if (name := hit.row.get(rank)))
        if names:
            return rank, min(names, key=lambda name: (-names[name], name))
    return None


def best(hits: Sequence[Hit]) -> list[Hit]:
    """All that share the highest identity."""
    return [hit for hit in hits if hit.identity >= hits[0].identity - 1e-9] if hits else []
