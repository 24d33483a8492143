"""P11: how long `dev` takes until it takes a job, and the import of the package."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

from tests.bench.deployments import HOME, running_dev
from tests.bench.measuring import Bench, Finding

READY_WITHIN = 60.0


async def measure(bench: Bench) -> AsyncIterator[Finding]:
    found: dict[str, list[float]] = {"pass": [], "import": [], "help": [], "dev": []}
    folder = bench.new_folder("dev")
    for _ in range(bench.rounds + 1):  # the first of each warms the caches
        found["pass"].append(await _run("-c", "pass"))
        found["import"].append(await _run("-c", "import aioanalysis.client, aioanalysis.cli"))
        found["help"].append(await _run("-m", "aioanalysis", "jobs", "--help"))
        found["dev"].append(await asyncio.to_thread(_dev, folder))
    found = {name: times[1:] for name, times in found.items()}
    yield Finding(
        goal="P11",
        what="import of client and command line, beyond python -c pass",
        unit="s",
        ours=found["import"],
        limit=found["pass"],
        by="difference",
        most=0.4,
    )
    yield Finding(
        goal="P11", what="aioanalysis jobs --help", unit="s", ours=found["help"], limit=found["pass"]
    )
    yield Finding(
        goal="P11",
        what="dev, from its start until it takes a job",
        unit="s",
        ours=found["dev"],
        by="value",
        most=2,
        note="a data folder used before",
    )


async def _run(*arguments: str) -> float:
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, cwd=HOME, stdout=subprocess.DEVNULL
    )
    if await process.wait():
        raise RuntimeError(f"python {' '.join(arguments)} ended with {process.returncode}")
    return time.perf_counter() - began


def _dev(folder: Path) -> float:
    """Seconds until `dev` says where it is, which it does once it listens."""
    announced = folder / "dev.json"
    began = time.perf_counter()
    with running_dev(folder, HOME / "methods") as process:
        while not announced.exists():
            if process.poll() is not None or time.perf_counter() - began > READY_WITHIN:
                raise RuntimeError(f"dev does not start: {(folder / 'log').read_text()[-500:]}")
            time.sleep(0.005)
        return time.perf_counter() - began
