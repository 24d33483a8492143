"""What the shipped methods share: records, selection, alignment, distances, tables, reports; numpy only."""

import os


def _usable_cpus() -> int:
    """Cores that this process may use, a container's quota counted."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for quota_file, period_file in (
        ("/sys/fs/cgroup/cpu.max", None),
        ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us"),
    ):
        try:
            with open(quota_file, encoding="ascii") as file:  # noqa: PTH123 - before anything else is imported
                numbers = file.read().split()
            if period_file:
                with open(period_file, encoding="ascii") as file:  # noqa: PTH123
                    numbers += file.read().split()
            quota, period = int(numbers[0]), int(numbers[1])
        except (OSError, ValueError, IndexError):
            continue
        if quota > 0 and period > 0:
            return max(1, min(cores, -(-quota // period)))
    return cores


# Before numpy is imported: a linear-algebra library starts a thread for each core of the host otherwise.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, str(_usable_cpus()))
