"""Computes each curve: exact expectation and deviation, random orders, order of submission, Chao1."""

import zlib
from typing import Any

import numpy as np
from barcode.accumulation import chao1, collected, expected, grid, simulated
from barcode.job import Job, run_stage

POINTS = 1000
PLURALS = {"species": "species", "genus": "genera", "subfamily": "subfamilies", "bin_uri": "BINs"}


def stage(job: Job) -> None:
    curves, chosen = job.load("curves"), job.parameters
    total = sum(len(one["samples"]) for one in curves)
    done = 0
    results = []
    for one in curves:
        if not one["samples"]:
            continue
        samples, before = np.array(one["samples"], np.int64), done
        points = grid(samples.size, POINTS)
        kinds = np.bincount(samples)
        exact = expected(kinds, points)

        def progress(orders: int, size: int = samples.size, before: int = before) -> None:
            job.progress(before + size * orders // chosen["iterations"], total, "drawing random orders")

        found = simulated(samples, points, chosen["iterations"], seed_of(chosen["seed"], one), progress)
        done += samples.size
        spread = 1.959963984540054 * exact.sd
        results.append(
            {
                "label": label_of(one, chosen["extra_info_field"]),
                "unit": one["unit"],
                "group": one["group"],
                "samples": samples.size,
                "kinds": kinds.size,
                "once": int((kinds == 1).sum()),
                "twice": int((kinds == 2).sum()),
                "chao1": chao1(kinds),
                "without": one["without"],
                "x": points,
                "expected": exact.mean,
                "sd": exact.sd,
                "low": np.clip(exact.mean - spread, 0, kinds.size),
                "high": np.clip(exact.mean + spread, 0, kinds.size),
                "simulated_mean": found.mean(axis=0),
                "simulated_sd": found.std(axis=0, ddof=1) if found.shape[0] > 1 else [None] * points.size,
                "simulated_low": np.percentile(found, 2.5, axis=0),
                "simulated_high": np.percentile(found, 97.5, axis=0),
                "submission": collected(samples, points),
            }
        )
        print(f"{results[-1]['label']}: {kinds.size:,} found with {samples.size:,} samples")
    notes(job, results)
    job.save("results", results)


def label_of(one: dict[str, Any], extra: str) -> str:
    return " · ".join(filter(None, (one["group"], PLURALS.get(one["unit"], extra))))


def seed_of(seed: int, one: dict[str, Any]) -> list[int]:
    """A curve's own stream, the same whichever other curves there are."""
    return [seed, zlib.crc32(f"{one['unit']}\0{one['group']}".encode())]


def notes(job: Job, results: list[dict[str, Any]]) -> None:
    for one in results:
        if one["kinds"] == 1:
            job.note("note", f"{one['label']}: all samples are of one kind; the curve is flat.")
        elif one["once"] == one["kinds"]:
            job.note(
                "warning",
                f"{one['label']}: every kind was found once only, so the curve is a straight line and Chao1 "
                "says no more than that most are still unknown.",
            )


if __name__ == "__main__":
    run_stage(stage)
