"""Records by a label: species, BIN, genus, country and whatever else `group_by` may name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Row = Mapping[str, Any]

# What group_by may be, and how the report calls it.
FIELDS = {
    "species": ("species", "species"),
    "bin_uri": ("BIN", "BINs"),
    "genus": ("genus", "genera"),
    "family": ("family", "families"),
    "order": ("order", "orders"),
    "identification": ("identification", "identifications"),
    "country/ocean": ("country", "countries"),
    "province/state": ("province", "provinces"),
}
HIGHER = ("phylum", "class", "order", "family", "genus")


class Groups:
    """`of[record]` is the number of its group, -1 where it has no label; groups are sorted by name."""

    def __init__(self, labels: Sequence[str | None]) -> None:
        self.names = sorted({label for label in labels if label})
        number = {name: place for place, name in enumerate(self.names)}
        self.of: Ints = np.array([number[label] if label else -1 for label in labels], np.int64)
        self.sizes: Ints = np.bincount(self.of[self.of >= 0], minlength=len(self.names)).astype(np.int64)

    @classmethod
    def by(cls, records: Sequence[Row], field: str) -> Groups:
        return cls([record.get(field) for record in records])

    @property
    def unnamed(self) -> int:
        return int(np.count_nonzero(self.of < 0))

    def members(self) -> list[Ints]:
        """The records of each group, in input order."""
        order = np.argsort(self.of, kind="stable")
        ends = np.searchsorted(self.of[order], np.arange(len(self.names) + 1))
        return [order[ends[n] : ends[n + 1]] for n in range(len(self.names))]


def common(records: Sequence[Row], field: str) -> str | None:
    """The value that most records have; of equally frequent ones the first in the alphabet."""
    counts = Counter(record[field] for record in records if record.get(field))
    return min(counts, key=lambda value: (-counts[value], value)) if counts else None


def counted(records: Sequence[Row], field: str) -> str:
    """All values with how often each occurs, the most frequent first: `Aus bus (3), Aus cus (1)`."""
    counts = Counter(record[field] for record in records if record.get(field))
    ordered = sorted(counts, key=lambda value: (-counts[value], value))
    return ", ".join(f"{value} ({counts[value]})" for value in ordered)
