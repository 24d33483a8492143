"""What comparing all pairs needs of memory and time, told before it starts."""

from __future__ import annotations

from .distances import BLOCK
from .job import Job
from .size import must_fit

PAIRS_PER_SECOND = 1.5e6  # of 658 columns, on one slow core
BASE_BYTES = 96 << 20  # the interpreter with numpy


def check(job: Job, what: str, needed_bytes: float, needed_seconds: float) -> dict[str, int]:
    """Prints the estimate of `what` and returns it; refuses what does not fit into memory or time."""
    return must_fit(job, what, memory_bytes=needed_bytes + BASE_BYTES, seconds=needed_seconds)


def pairs_bytes(rows: int, columns: int) -> int:
    """The alignment twice, indicators of two blocks, pairs of one block."""
    return 2 * rows * columns + 2 * BLOCK * columns * 4 * 4 + BLOCK * BLOCK * 200


def pairs_seconds(rows: int, columns: int) -> float:
    return rows * (rows - 1) / 2 / PAIRS_PER_SECOND * max(columns, 200) / 658
