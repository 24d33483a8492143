"""Samples summarised: every figure right, and one not known null, never 0."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta

import pytest

from aioanalysis.domain.usage import LIVE_POINTS, SERIES_POINTS, Sample, Usage, summarise

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float, cpu: float | None = None, memory: int | None = None, **more: int) -> Sample:
    return Sample(at=START + timedelta(seconds=seconds), cpu_seconds=cpu, memory_bytes=memory, **more)


def summary(samples: list[Sample], wall: float | None = None, **more: object) -> Usage:
    return summarise(
        samples,
        started_at=START if wall is not None else None,
        finished_at=START + timedelta(seconds=wall) if wall is not None else None,
        interval_seconds=10,
        **more,  # type: ignore[arg-type]
    )


def test_a_run_is_summarised():
    usage = summary(
        [
            at(0, 0.0, 100, network_bytes=5, block_bytes=1),
            at(10, 5.0, 300, network_bytes=7, block_bytes=2),
            at(20, 20.0, 200, network_bytes=9, block_bytes=3),
        ],
        wall=25,
        memory_limit_bytes=1000,
    )
    assert usage.to_json() == {
        "started_at": "2026-01-01T00:00:00+00:00",
        "finished_at": "2026-01-01T00:00:25+00:00",
        "wall_seconds": 25,
        "samples": 3,
        "interval_seconds": 10,
        "cpu_percent": {"mean": 80.0, "max": 150.0},
        "memory_bytes": {"mean": 200, "max": 300, "limit": 1000},
        "cpu_seconds": 20.0,
        "network_bytes": 9,
        "block_bytes": 3,
        "series": (
            {"at": "2026-01-01T00:00:00+00:00", "cpu_percent": None, "memory_bytes": 100},
            {"at": "2026-01-01T00:00:10+00:00", "cpu_percent": 50.0, "memory_bytes": 300},
            {"at": "2026-01-01T00:00:20+00:00", "cpu_percent": 150.0, "memory_bytes": 200},
        ),
    }


def test_of_a_run_that_never_began_nothing_is_known():
    usage = summary([])
    assert (usage.started_at, usage.finished_at, usage.wall_seconds, usage.samples) == (None, None, None, 0)
    assert usage.cpu_percent == {"mean": None, "max": None}
    assert usage.memory_bytes == {"mean": None, "max": None, "limit": None}
    assert (usage.cpu_seconds, usage.network_bytes, usage.block_bytes, usage.series) == (None, None, None, ())


def test_a_run_shorter_than_a_sample_is_known_by_its_rusage():
    usage = summary([], wall=0.5, rusage_cpu_seconds=0.25, rusage_memory_bytes=4096)
    assert usage.cpu_percent == {"mean": 50.0, "max": 50.0}
    assert usage.memory_bytes == {"mean": None, "max": 4096, "limit": None}
    assert (usage.samples, usage.cpu_seconds) == (0, 0.25)


def test_a_peak_between_samples_is_known_by_its_rusage_and_a_lower_one_changes_nothing():
    samples = [at(0, 0, 100), at(10, 1, 200)]
    assert summary(samples, wall=10, rusage_memory_bytes=900).memory_bytes["max"] == 900
    assert summary(samples, wall=10, rusage_memory_bytes=150).memory_bytes["max"] == 200
    assert summary(samples, wall=10, rusage_cpu_seconds=0.5).cpu_seconds == 1


def test_no_maximum_is_below_its_mean():
    usage = summary([at(0, 0), at(10, 1)], wall=12, rusage_cpu_seconds=6)
    assert usage.cpu_percent == {"mean": 50.0, "max": 50.0}


def test_without_a_wall_time_the_mean_is_that_of_the_samples():
    assert summary([at(0, 0), at(10, 5), at(20, 20)]).cpu_percent == {"mean": 100.0, "max": 150.0}


def test_readings_without_figures_are_passed_over():
    usage = summary([at(0), at(10, 1.0, 100, network_bytes=3), at(20), at(30, 2.0)], wall=40)
    assert usage.samples == 4
    assert usage.memory_bytes["mean"] == usage.memory_bytes["max"] == 100
    assert (usage.cpu_seconds, usage.network_bytes, usage.block_bytes) == (2.0, 3, None)
    assert usage.cpu_percent == {"mean": 5.0, "max": 5.0}
    assert [point["cpu_percent"] for point in usage.series] == [None] * 4


def test_two_readings_of_one_moment_and_a_counter_that_went_back_do_no_harm():
    usage = summary([at(0, 1.0), at(0, 2.0), at(10, 0.5)])
    assert usage.cpu_percent == {"mean": 0.0, "max": 0.0}


def test_a_run_of_no_time_has_no_percentage():
    assert summary([at(0, 1.0)], wall=0).cpu_percent == {"mean": None, "max": None}


@pytest.mark.parametrize("count", [SERIES_POINTS, SERIES_POINTS + 1, 3 * SERIES_POINTS, 12_345])
def test_a_series_is_thinned_evenly_and_keeps_both_ends(count: int):
    samples = [at(10 * n, float(n), n) for n in range(count)]
    series = summary(samples).series
    kept = [point["memory_bytes"] for point in series]
    assert len(kept) == SERIES_POINTS
    assert (kept[0], kept[-1]) == (0, count - 1)
    steps = {b - a for a, b in itertools.pairwise(kept)}
    assert min(steps) >= 1
    assert max(steps) - min(steps) <= 1
    assert all(point["cpu_percent"] == 10.0 for point in series[1:])


def test_the_series_of_a_run_under_way_is_shorter():
    samples = [at(10 * n, float(n), n) for n in range(5000)]
    kept = [point["memory_bytes"] for point in summary(samples, points=LIVE_POINTS).series]
    assert (len(kept), kept[0], kept[-1]) == (LIVE_POINTS, 0, 4999)


def test_a_summary_comes_back_from_its_json():
    usage = summary([at(0, 0.0, 100), at(10, 5.5, 300)], wall=12.5, memory_limit_bytes=1000)
    assert Usage.from_json(json.loads(json.dumps(usage.to_json()))) == usage


def test_what_an_older_worker_left_out_is_unknown():
    usage = Usage.from_json({})
    assert usage.wall_seconds is None
    assert usage.cpu_percent == {"mean": None, "max": None}
    assert usage.memory_bytes == {"mean": None, "max": None, "limit": None}
    assert (usage.samples, usage.interval_seconds, usage.series) == (0, 0.0, ())


def test_what_it_wrote_otherwise_is_unknown_too():
    usage = Usage.from_json(
        {
            "started_at": 5,
            "wall_seconds": "12",
            "samples": True,
            "cpu_percent": [1, 2],
            "memory_bytes": {"mean": "x", "max": 10.4, "limit": float("inf")},
            "cpu_seconds": float("nan"),
            "network_bytes": 10**400,
            "series": [{"at": 1, "cpu_percent": 5, "other": 1}, "x"],
        }
    )
    assert (usage.started_at, usage.wall_seconds, usage.samples) == (None, None, 0)
    assert usage.cpu_percent == {"mean": None, "max": None}
    assert usage.memory_bytes == {"mean": None, "max": 10, "limit": None}
    assert (usage.cpu_seconds, usage.network_bytes) == (None, None)
    assert usage.series == ({"at": None, "cpu_percent": 5, "memory_bytes": None},)
    assert Usage.from_json({"series": 5}).series == ()
