"""The goals that are measured, in the order in which they are: each a function that gives findings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final

from tests.bench import (
    answers,
    archives,
    distances,
    downloads,
    fleet,
    jobs,
    oneloop,
    passes,
    startup,
)
from tests.bench.measuring import Bench, Finding

GOALS: Final[dict[str, Callable[[Bench], AsyncIterator[Finding]]]] = {
    "P1": jobs.latency_in_dev,
    "P2": jobs.latency_in_processes,
    "P3": jobs.throughput,
    "P4": downloads.download,
    "P5": downloads.report,
    "P6": passes.measure,
    "P7": archives.packaging,
    "P8": archives.result_zip,
    "P9": answers.measure,
    "P10": jobs.idle_and_sampling,
    "P11": startup.measure,
    "P12": distances.measure,
    "P13": oneloop.measure,
    "SCALE": fleet.claims,
}
