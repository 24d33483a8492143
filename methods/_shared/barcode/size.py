"""What a job will need, told before it starts, and refused with numbers where it cannot fit."""

from __future__ import annotations

from .job import Job, RefusalError


def must_fit(job: Job, what: str, *, memory_bytes: float, seconds: float) -> None:
    """`what` describes the job in numbers, as in "5,000 records and 100 orders"; both needs are estimates."""
    limits = job.method["limits"]
    memory, most = float(limits["memory_bytes"]), float(limits["run_seconds"])
    print(f"{what}: about {memory_bytes / 2**20:,.0f} MiB and {max(seconds, 1):,.0f} s needed")
    if memory_bytes > memory:
        raise RefusalError(
            f"{what} need about {memory_bytes / 2**30:,.1f} GiB, "
            f"the method may use {memory / 2**30:,.1f} GiB."
        )
    if seconds > most:
        raise RefusalError(
            f"{what} need about {seconds / 3600:,.1f} hours, the method may run {most / 3600:,.1f}."
        )
