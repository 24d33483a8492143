"""The command that checks every part that the settings name, and says how to mend what is wrong."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from typing import Annotated, Final

import typer

from aioanalysis import logs
from aioanalysis.cli.diagnosis import Process, diagnose
from aioanalysis.cli.findings import Finding, Status
from aioanalysis.cli.output import console, print_json
from aioanalysis.errors import Misconfigured
from aioanalysis.settings import PREFIX, Settings, load

MARKS: Final = {
    Status.OK: ("ok", "green"),
    Status.ABSENT: ("-", "dim"),
    Status.WARNING: ("warning", "yellow"),
    Status.WRONG: ("wrong", "red"),
}


def doctor(
    process: Annotated[
        Process | None, typer.Argument(help="Only what this process needs, and all of that.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check every part that the settings name, and say what is wrong and how to mend it; exits 1 then.

    It changes nothing: one small blob, named doctor/..., is written, copied and deleted again.
    """
    logs.configure(level="error", form="console")
    try:
        findings = asyncio.run(_findings(load(), process, quiet=as_json))
    except Misconfigured as error:
        findings = [
            Finding("settings", Status.WRONG, text) for text in re.split(f"; (?={PREFIX})", str(error))
        ]
        for finding in [] if as_json else findings:
            _print(finding)
    counts = Counter(finding.status for finding in findings)
    well = not counts[Status.WRONG]
    if as_json:
        print_json({"well": well, "findings": [finding.to_json() for finding in findings]})
    else:
        what = f"{counts[Status.WRONG]} wrong, {counts[Status.WARNING]} warnings"
        console.print(f"{'all is well' if well else 'not well'}: {what}", highlight=False)
    if not well:
        raise typer.Exit(1)


async def _findings(settings: Settings, process: Process | None, *, quiet: bool) -> list[Finding]:
    found = []
    async for finding in diagnose(settings, process):
        found.append(finding)
        if not quiet:
            _print(finding)
    return found


def _print(finding: Finding) -> None:
    mark, colour = MARKS[finding.status]
    console.print(f"[{colour}]{mark:8}[/] {finding.part:13}", end="", highlight=False)
    console.print(finding.text, markup=False, highlight=False, soft_wrap=True)
    if finding.mend:
        console.print(f"{'':22}→ {finding.mend}", markup=False, highlight=False, soft_wrap=True)
