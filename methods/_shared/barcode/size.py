"""What a job will need, told before it starts, and refused with numbers where it cannot fit."""

from __future__ import annotations

from pathlib import Path

from .job import Job, RefusalError

MEMORY_FILES = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def memory_allowed(job: Job) -> int:
    """The method's limit, or the container's where that is lower."""
    allowed = int(job.method["limits"]["memory_bytes"])
    for path in MEMORY_FILES:
        try:
            allowed = min(allowed, int(path.read_text(encoding="ascii")))
        except (OSError, ValueError):
            continue
    return allowed


def must_fit(job: Job, what: str, *, memory_bytes: float, seconds: float) -> dict[str, int]:
    """`what` is the job in numbers, as in "5,000 records and 100 orders"; the estimates are returned."""
    memory, most = memory_allowed(job), float(job.method["limits"]["run_seconds"])
    print(f"{what}: about {memory_bytes / 2**20:,.0f} MiB and {max(seconds, 1):,.0f} s needed")
    if memory_bytes > memory:
        raise RefusalError(
            f"{what} need about {memory_bytes / 2**30:,.1f} GiB of memory, "
            f"the method may use {memory / 2**30:,.1f} GiB. Use fewer records."
        )
    if seconds > most:
        raise RefusalError(
            f"{what} need about {seconds / 3600:,.1f} hours, "
            f"the method may run {most / 3600:,.1f} hours. Use fewer records."
        )
    return {"memory_bytes": round(memory_bytes), "seconds": round(max(seconds, 1))}
