"""Labels of records made from their fields, the process id first, no two alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from .tables import CONTROL

# What a table in tree order shows beside the label.
FIELDS = ("phylum", "class", "order", "subfamily", "tribe", "country/ocean", "province/state")
LETTERS = 300


def wanted(text: str) -> list[str]:
    """The fields that a parameter names, separated by commas, each once."""
    return list(dict.fromkeys(name for name in (part.strip() for part in text.split(",")) if name))


def labels_of(records: Sequence[Mapping[str, Any]], fields: Sequence[str]) -> list[str]:
    """Joined by |; the record id in the place of the process id where labels would be alike."""
    others = [field for field in fields if field != "processid"]
    made = [label(record, record["processid"] or record["record_id"], others) for record in records]
    counts = Counter(made)
    return [
        one if counts[one] == 1 else label(record, record["record_id"], others)
        for one, record in zip(made, records, strict=True)
    ]


def label(record: Mapping[str, Any], first: object, fields: Sequence[str]) -> str:
    parts = [str(first), *(str(record[field]) for field in fields if record.get(field))]
    text = " ".join(CONTROL.sub(" ", "|".join(parts)).split())
    return text if len(text) <= LETTERS else f"{text[: LETTERS - 1]}…"
