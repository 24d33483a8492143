"""Measures each goal of performance against its limit in the same run. Usage: scripts/bench [OPTIONS]

It starts its own Redis and Azurite, uses the Docker engine that answers, and leaves nothing. It measures and
prints, and ends with 0 whatever the figures: on a busy machine only ratios mean something, and not much.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from aioanalysis import logs
from tests.bench.goals import GOALS
from tests.bench.measuring import Bench, Finding, NotMeasured

console = Console(width=150 if not sys.stdout.isatty() else None, highlight=False)


async def main(options: argparse.Namespace) -> int:
    wanted = [name.strip() for name in options.only.split(",")] if options.only else list(GOALS)
    if unknown := set(wanted) - GOALS.keys():
        sys.exit(f"scripts/bench: no goal {', '.join(sorted(unknown))}; there are {', '.join(GOALS)}")
    logs.configure(level="error", form="json")
    began = time.monotonic()
    findings: list[Finding] = []
    missed: list[tuple[str, str]] = []
    durations: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="aa-bench-") as folder:
        # Modules are compiled once, as those of what is installed are, whatever the environment says.
        os.environ["PYTHONPYCACHEPREFIX"] = f"{folder}/compiled"
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        async with AsyncExitStack() as stack:
            bench = Bench(folder=Path(folder), quick=options.quick, stack=stack)
            for name in wanted:
                start = time.monotonic()
                console.print(f"{name} ...", style="dim")
                try:
                    async for finding in GOALS[name](bench):
                        findings.append(finding)
                        console.print(f"  {finding.what}: {finding.result:.3g}", style="dim", markup=False)
                except NotMeasured as reason:
                    missed.append((name, str(reason)))
                except Exception as error:
                    console.print_exception()
                    missed.append((name, f"it broke: {error!r}"))
                durations[name] = time.monotonic() - start
                if options.json:  # after each: a run that is broken off has lost nothing
                    report = report_of(findings, missed, durations, options)
                    await asyncio.to_thread(Path(options.json).write_text, json.dumps(report, indent=1))
    console.print(table_of(findings))
    for name, why in missed:
        console.print(f"{name} not measured: {why}", markup=False)
    console.print(
        f"{time.monotonic() - began:.0f} s ({', '.join(f'{n} {s:.0f}' for n, s in durations.items())}); "
        f"load of the machine now {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    return 0


def table_of(findings: list[Finding]) -> Table:
    table = Table("goal", "what", "ours", "limit", "result", "of rounds", "held to", "", box=None)
    for one in findings:
        ours, limit = _median(one.ours), _median(one.limit)
        suffix = "x" if one.by == "ratio" else f" {one.unit}"
        bounds = [f"<= {one.most:g}{suffix}"] if one.most is not None else []
        bounds += [f">= {one.least:g}{suffix}"] if one.least is not None else []
        low, high = one.spread
        table.add_row(
            one.goal,
            one.what + (f" ({one.note})" if one.note else ""),
            f"{ours} {one.unit}",
            f"{limit} {one.unit}" if one.limit else "",
            f"{one.result:.3g}{suffix}",
            f"{low:.3g}-{high:.3g}",
            ", ".join(bounds),
            {True: "yes", False: "NO", None: ""}[one.reached],
        )
    return table


def report_of(
    findings: list[Finding],
    missed: list[tuple[str, str]],
    durations: dict[str, float],
    options: argparse.Namespace,
) -> dict[str, Any]:
    return {
        "quick": options.quick,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "seconds": durations,
        "findings": [one.to_json() for one in findings],
        "not_measured": dict(missed),
    }


def _median(figures: Sequence[float]) -> str:
    return f"{median(figures):.4g}" if figures else ""


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="smaller and fewer rounds, under three minutes")
    parser.add_argument("--only", metavar="GOALS", help=f"some of {', '.join(GOALS)}, comma separated")
    parser.add_argument("--json", metavar="FILE", help="write all figures there, too")
    sys.exit(asyncio.run(main(parser.parse_args())))
