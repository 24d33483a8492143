"""P12: all distances among many sequences, held to R ape's `dist.dna`."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from tests.bench.measuring import Bench, Finding, NotMeasured

SHARED = Path(__file__).parents[2] / "methods" / "_shared"
ROWS, COLUMNS = 1_593, 657

OURS = """
import sys, time
import numpy as np
from barcode.distances import Rule, all_pairs
from barcode.sequences import encode
lines = [line.strip() for line in open(sys.argv[1]) if not line.startswith(">")]
letters = np.frombuffer("".join(lines).encode(), np.uint8).reshape(len(lines), -1)
for _ in range(int(sys.argv[2]) + 1):
    began = time.perf_counter()
    codes = encode(letters)
    total = sum(np.nansum(pairs.distance) for pairs in all_pairs(codes, Rule(model="k2p")))
    print(time.perf_counter() - began, total)
"""
APE = """
suppressMessages(library(ape))
found <- commandArgs(trailingOnly = TRUE)
alignment <- read.dna(found[1], format = "fasta")
for (i in 0:as.integer(found[2])) {
  began <- proc.time()[["elapsed"]]
  total <- sum(dist.dna(alignment, model = "K80", pairwise.deletion = TRUE))
  cat(proc.time()[["elapsed"]] - began, format(total, digits = 12), "\\n")
}
"""


async def measure(bench: Bench) -> AsyncIterator[Finding]:
    program = shutil.which("Rscript")
    if program is None:
        raise NotMeasured("R is not here; try: apt-get install r-base-core r-cran-ape")
    folder = bench.new_folder("distances")
    alignment = folder / "alignment.fasta"
    alignment.write_text(_alignment())
    (folder / "ours.py").write_text(OURS)
    (folder / "ape.R").write_text(APE)
    arguments = (str(alignment), str(bench.rounds))
    ours, total = await _timed(sys.executable, str(folder / "ours.py"), *arguments)
    limit, expected = await _timed(program, str(folder / "ape.R"), *arguments)
    if abs(total - expected) > 1e-6 * expected:
        raise RuntimeError(f"the distances differ: {total} and ape's {expected}")
    yield Finding(
        goal="P12",
        what=f"{ROWS:,} x {COLUMNS} sites, all pairs, K2P, pairwise deletion, to ape's dist.dna",
        unit="s",
        ours=ours,
        limit=limit,
        most=3,
        note="the same sum",
    )


async def _timed(*command: str) -> tuple[list[float], float]:
    """Seconds of each round but the first, and the sum of the distances."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, "PYTHONPATH": str(SHARED)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, problems = await process.communicate()
    if process.returncode:
        raise NotMeasured(f"{Path(command[1]).name}: {problems.decode()[-200:].strip()}")
    rows = [line.split() for line in out.decode().splitlines()]
    return [float(row[0]) for row in rows[1:]], float(rows[-1][1])


def _alignment() -> str:
    """Sequences like those of one family: up to a tenth of the sites differ, a few are not known."""
    source = random.Random(1)
    ancestor = source.choices("ACGT", k=COLUMNS)
    lines = []
    for number in range(ROWS):
        row = list(ancestor)
        for at in source.sample(range(COLUMNS), source.randrange(COLUMNS // 10)):
            row[at] = source.choice("ACGTN")
        lines += [f">s{number}", "".join(row)]
    return "\n".join(lines) + "\n"
