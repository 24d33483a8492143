"""What a run used: samples of CPU and memory, and their summary in sidecar and `resource_stats.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

from aioanalysis.domain import foreign

SERIES_POINTS: Final = 1000
LIVE_POINTS: Final = 200  # of a run under way, told anew with every sample


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One reading of a running container or process tree; a figure not known is None, never 0.

    `cpu_seconds`, `network_bytes` and `block_bytes` are totals since the start of the run.
    `memory_bytes` leaves out the page cache, as `docker stats` does.
    """

    at: datetime
    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    network_bytes: int | None = None
    block_bytes: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """The summary of a run's samples; units are in the names, times RFC 3339 UTC."""

    started_at: str | None
    finished_at: str | None
    wall_seconds: float | None
    samples: int
    interval_seconds: float
    cpu_percent: Mapping[str, float | None]  # mean, max; 100 = one core
    memory_bytes: Mapping[str, int | None]  # mean, max, limit
    cpu_seconds: float | None
    network_bytes: int | None
    block_bytes: int | None
    series: Sequence[Mapping[str, Any]] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Usage:
        """Read a sidecar's `usage`; whatever an older worker left out or wrote otherwise is unknown."""
        cpu, memory = foreign.mapping(value.get("cpu_percent")), foreign.mapping(value.get("memory_bytes"))
        series = value.get("series")
        return cls(
            started_at=foreign.text(value.get("started_at")),
            finished_at=foreign.text(value.get("finished_at")),
            wall_seconds=foreign.number(value.get("wall_seconds")),
            samples=_whole(value.get("samples")) or 0,
            interval_seconds=foreign.number(value.get("interval_seconds")) or 0.0,
            cpu_percent={key: foreign.number(cpu.get(key)) for key in ("mean", "max")},
            memory_bytes={key: _whole(memory.get(key)) for key in ("mean", "max", "limit")},
            cpu_seconds=foreign.number(value.get("cpu_seconds")),
            network_bytes=_whole(value.get("network_bytes")),
            block_bytes=_whole(value.get("block_bytes")),
            series=tuple(_point(point) for point in series if isinstance(point, Mapping))[:SERIES_POINTS]
            if isinstance(series, Sequence)
            else (),
        )


def _whole(value: object) -> int | None:
    number = foreign.number(value)
    return None if number is None else round(number)


def _point(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "at": foreign.text(value.get("at")),
        "cpu_percent": foreign.number(value.get("cpu_percent")),
        "memory_bytes": _whole(value.get("memory_bytes")),
    }


def summarise(
    samples: Sequence[Sample],
    *,
    started_at: datetime | None,
    finished_at: datetime | None,
    interval_seconds: float,
    memory_limit_bytes: int | None = None,
    rusage_cpu_seconds: float | None = None,
    rusage_memory_bytes: int | None = None,
    points: int = SERIES_POINTS,
) -> Usage:
    """Summarise `samples`, in order of time; the series has at most so many `points`, thinned evenly.

    The orchestrator's rusage (its children's CPU seconds and peak memory) fills in for runs shorter than a
    sample and raises the peak that sampling missed. No maximum is below its mean.
    """
    percents = _percents(samples)
    memory = [s.memory_bytes for s in samples if s.memory_bytes is not None]
    peak = max([*memory, *([rusage_memory_bytes] if rusage_memory_bytes is not None else [])], default=None)
    cpu_totals = [s.cpu_seconds for s in samples if s.cpu_seconds is not None]
    cpu = max([*cpu_totals, *([rusage_cpu_seconds] if rusage_cpu_seconds is not None else [])], default=None)
    wall = (finished_at - started_at).total_seconds() if started_at and finished_at else None
    if wall is not None and wall > 0 and cpu is not None:
        mean_percent: float | None = round(100 * cpu / wall, 2)
    else:
        mean_percent = round(sum(percents) / len(percents), 2) if percents else None
    if mean_percent is not None:
        percents.append(mean_percent)
    return Usage(
        started_at=started_at.isoformat() if started_at else None,
        finished_at=finished_at.isoformat() if finished_at else None,
        wall_seconds=round(wall, 3) if wall is not None else None,
        samples=len(samples),
        interval_seconds=interval_seconds,
        cpu_percent={"mean": mean_percent, "max": round(max(percents), 2) if percents else None},
        memory_bytes={
            "mean": round(sum(memory) / len(memory)) if memory else None,
            "max": peak,
            "limit": memory_limit_bytes,
        },
        cpu_seconds=round(cpu, 3) if cpu is not None else None,
        network_bytes=_last([s.network_bytes for s in samples]),
        block_bytes=_last([s.block_bytes for s in samples]),
        series=_series(samples, points),
    )


def _percents(samples: Sequence[Sample]) -> list[float]:
    percents = []
    for before, now in pairwise(samples):
        seconds = (now.at - before.at).total_seconds()
        if before.cpu_seconds is not None and now.cpu_seconds is not None and seconds > 0:
            percents.append(max(0.0, 100 * (now.cpu_seconds - before.cpu_seconds) / seconds))
    return percents


def _last(values: Sequence[int | None]) -> int | None:
    return next((value for value in reversed(values) if value is not None), None)


def _series(samples: Sequence[Sample], most: int) -> tuple[dict[str, Any], ...]:
    last = len(samples) - 1
    picked = samples if last < most else [samples[round(i * last / (most - 1))] for i in range(most)]
    points = []
    before: Sample | None = None
    for sample in picked:
        percent = _percents([before, sample]) if before else []
        points.append(
            {
                "at": sample.at.isoformat(),
                "cpu_percent": round(percent[0], 2) if percent else None,
                "memory_bytes": sample.memory_bytes,
            }
        )
        before = sample
    return tuple(points)
