"""P11: how long `dev` takes until it takes a job, and the import of the package."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from tests.bench.measuring import Bench, Finding

HOME = Path(__file__).parents[2]
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
    environment: Mapping[str, str] = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AIOANALYSIS_")},
        "AIOANALYSIS_DATA_DIR": str(folder),
        "AIOANALYSIS_METHODS_DIR": str(HOME / "methods"),
        "AIOANALYSIS_PORT": "0",
    }
    announced = folder / "dev.json"
    announced.unlink(missing_ok=True)
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "aioanalysis", "dev"],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(HOME)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        while not announced.exists():
            if process.poll() is not None or time.perf_counter() - began > READY_WITHIN:
                raise RuntimeError("dev does not start")
            time.sleep(0.005)
        return time.perf_counter() - began
    finally:
        process.terminate()
        process.wait(30)
