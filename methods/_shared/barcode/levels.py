"""Comparisons within species, within genus and within family, as a Distance Summary counts them.

Within species: the same species. Within genus: the same genus, different species. Within family: the same
family, different genus. A pair with a missing name at a rank it needs is at no level.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .taxa import Names

Ints = NDArray[np.int64]
Levels = NDArray[np.int8]

RANKS = ("species", "genus", "family")
SPECIES, GENUS, FAMILY, NO_LEVEL = range(4)
LABELS = {"species": "Within Species", "genus": "Within Genus", "family": "Within Family"}


class Taxa:
    """Names as numbers, -1 where missing: `ids[rank][record]`, `names[rank][number]` by appearance."""

    def __init__(self, names: Sequence[Names]) -> None:
        self.ids: dict[str, Ints] = {}
        self.names: dict[str, list[str]] = {}
        for rank in RANKS:
            known: dict[str, int] = {}
            of_rank = [getattr(name, rank) for name in names]
            self.ids[rank] = np.array(
                [-1 if n is None else known.setdefault(n, len(known)) for n in of_rank], np.int64
            )
            self.names[rank] = list(known)

    def level(self, i: Ints, j: Ints) -> Levels:
        """The level of each pair of records."""
        level = np.full(i.shape, NO_LEVEL, np.int8)
        same, both = {}, {}
        for rank in RANKS:
            one, other = self.ids[rank][i], self.ids[rank][j]
            both[rank] = (one >= 0) & (other >= 0)
            same[rank] = both[rank] & (one == other)
        level[same["family"] & both["genus"] & ~same["genus"]] = FAMILY
        level[same["genus"] & both["species"]] = GENUS
        level[same["species"]] = SPECIES
        return level

    def members(self, rank: str) -> Ints:
        """How many records bear each name of the rank."""
        ids = self.ids[rank]
        return np.bincount(ids[ids >= 0], minlength=len(self.names[rank]))

    def compared(self, rank: str) -> NDArray[np.bool_]:
        """Which records take part in at least one pair of the level."""
        ids = self.ids[rank]
        part: NDArray[np.bool_] = ids >= 0
        several = self.members(rank)
        if rank != "species":
            below = self.ids[RANKS[RANKS.index(rank) - 1]]
            part &= below >= 0
            couples = np.unique(np.stack([ids[part], below[part]], 1), axis=0)
            several = np.bincount(couples[:, 0], minlength=len(self.names[rank]))
        part[part] = several[ids[part]] > 1
        return part
