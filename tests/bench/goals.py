"""The goals that are measured, in the order in which they are: each a function that gives findings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final

from tests.bench import answers, archives, downloads, passes, startup
from tests.bench.measuring import Bench, Finding

GOALS: Final[dict[str, Callable[[Bench], AsyncIterator[Finding]]]] = {
    "P6": passes.measure,
    "P9": answers.measure,
    "P11": startup.measure,
    "P8": archives.result_zip,
    "P7": archives.packaging,
    "P4": downloads.download,
    "P5": downloads.report,
}
