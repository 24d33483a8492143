"""What several methods must say of distances: undefined pairs, columns that complete deletion leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .distances import REASONS
from .job import Job, RefusalError
from .sequences import AMBIGUOUS, Bytes

FEW_SITES = 100


def note_undefined(job: Job, counts: NDArray[np.int64], what: str = "pairs") -> dict[str, int]:
    """Counts by reason, those that are not 0; `what` are the pairs counted."""
    undefined = {REASONS[n]: int(count) for n, count in enumerate(counts) if n and count}
    if undefined:
        told = ", ".join(f"{name} {count:,}" for name, count in undefined.items())
        job.note("warning", f"Without a distance, and so in no other figure, are {what}: {told}.")
    return undefined


def refuse_no_columns(
    kept: Bytes, codes: Bytes, records: Sequence[Mapping[str, Any]], deletion: str, job: Job | None = None
) -> None:
    """Complete deletion can leave no site at all; say whose sequences cost most. Few sites are noted."""
    if kept.shape[1]:
        if job and deletion == "complete" and kept.shape[1] < FEW_SITES:
            told = f"Complete deletion leaves {kept.shape[1]} sites only; the distances are coarse."
            job.note("warning", told)
        return
    if deletion == "pairwise":
        raise RefusalError("No sequence has a known base in any column.")
    unknown = (codes >= AMBIGUOUS).sum(axis=1)
    worst = np.argsort(-unknown, kind="stable")[:5]
    told = ", ".join(f"{records[n]['record_id']} ({unknown[n]} of {codes.shape[1]})" for n in worst)
    raise RefusalError(
        "Complete deletion leaves no site: in every column at least one sequence has no known base. "
        f"Most unknown columns: {told}. Leave those records out, or choose deletion: pairwise."
    )
