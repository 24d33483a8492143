"""Codon positions of an alignment's columns, and the reading frame with the fewest stop codons."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .sequences import AMBIGUOUS, GAP, Bytes

Ints = NDArray[np.int64]

# Stop codons by NCBI's number of the genetic code (The Genetic Codes, version 4.6).
STOPS = {
    1: ("TAA", "TAG", "TGA"),
    2: ("TAA", "TAG", "AGA", "AGG"),
    4: ("TAA", "TAG"),
    5: ("TAA", "TAG"),
    9: ("TAA", "TAG"),
    11: ("TAA", "TAG", "TGA"),
    13: ("TAA", "TAG"),
}
NONE = 0  # the codon position of a column that is in no codon


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """`first` is the codon position of the first column; sequences with stop codons if it were so."""

    first: int
    stops: int
    sequences_with_stops: int


def backbone(codes: Bytes) -> NDArray[np.bool_]:
    """Columns that most of the sequences which reach over them have: others are single insertions."""
    there = codes != GAP
    started = np.maximum.accumulate(there, axis=1)
    ended = np.maximum.accumulate(there[:, ::-1], axis=1)[:, ::-1]
    reach = (started & ended).sum(axis=0)
    kept: NDArray[np.bool_] = 2 * there.sum(axis=0) >= np.maximum(reach, 1)
    return kept


def positions(kept: NDArray[np.bool_], first: int) -> Ints:
    """1, 2 or 3 for each column that is kept, counted from `first` for the first of them; else NONE."""
    found = (np.cumsum(kept) - 1 + first - 1) % 3 + 1
    return np.where(kept, found, NONE)


def frames(codes: Bytes, kept: NDArray[np.bool_], code: int) -> list[Frame]:
    """What each of the three frames would mean; codons with a gap or an unknown letter do not count."""
    columns = codes[:, kept]
    number = {base: place for place, base in enumerate("ACGT")}
    stops = [sum(number[base] * 4**power for power, base in enumerate(codon)) for codon in STOPS[code]]
    found = []
    for first in (1, 2, 3):
        start = (1 - first) % 3
        whole = (columns.shape[1] - start) // 3 * 3
        triplets = columns[:, start : start + whole].reshape(columns.shape[0], -1, 3).astype(np.int64)
        value = triplets @ np.array([1, 4, 16])
        is_stop = np.isin(value, stops) & (triplets < AMBIGUOUS).all(axis=2)
        of_row = is_stop.sum(axis=1)
        found.append(
            Frame(first=first, stops=int(of_row.sum()), sequences_with_stops=int((of_row > 0).sum()))
        )
    return found


def best(found: list[Frame]) -> Frame:
    """The frame with stops in the fewest sequences; of equal ones that with fewer stops, then the first."""
    return min(found, key=lambda frame: (frame.sequences_with_stops, frame.stops, frame.first))
