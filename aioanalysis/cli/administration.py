"""Commands for administrators of a service: figures over all jobs, files of no job."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from aioanalysis.cli.columns import Column, print_columns
from aioanalysis.cli.options import Json
from aioanalysis.cli.output import print_json
from aioanalysis.cli.session import with_service
from aioanalysis.client import OrphansJson, StatisticsJson, SweepJson

FAILURES: Final = (
    Column("method", keep=9),
    Column("reason", keep=8),
    Column("runs", keep=7, right=True),
    Column("jobs", keep=5, right=True),
    Column("last", keep=4),
    Column("job", keep=6),
)
LOADS: Final = (
    Column("user", keep=9),
    Column("unfinished", keep=8, right=True),
    Column("ended", keep=7, right=True),
    Column("failed", keep=6, right=True),
    Column("CPU hours", keep=5, right=True),
    Column("run hours", keep=4, right=True),
    Column("results MiB", keep=3, right=True),
)
REASONS: Final = (
    Column("orphans", keep=9),
    Column("files", keep=8, right=True),
    Column("bytes", keep=7, right=True),
    Column("swept", keep=6),
)
FILES: Final = (
    Column("container", keep=6),
    Column("file", keep=9, flexible=True),
    Column("bytes", keep=5, right=True),
    Column("reason", keep=8),
    Column("modified", keep=4),
)


def statistics(as_json: Json = False) -> None:
    """Show figures over everybody's jobs of the last 7 days (administrators)."""
    found = with_service(lambda client: client.statistics())
    if as_json:
        print_json(found)
    else:
        _print_statistics(found)


def _print_statistics(found: StatisticsJson) -> None:
    states = ", ".join(f"{count} {state}" for state, count in found["states"].items() if count)
    print(f"jobs     {found['jobs']}{f': {states}' if states else ''}")
    if waiting := found["waiting"]:
        print(
            f"waiting  {waiting['median']:g} s before the first run; 95 of 100 at most {waiting['p95']:g} s"
        )
    for held in found["held_methods"]:
        print(f"held     {held['title']} since {held['since']}: {held['evidence']}")
    if found["failures"]:
        print()
        print_columns(
            FAILURES,
            [
                (
                    one["title"],
                    one["reason"],
                    str(one["runs"]),
                    str(one["jobs"]),
                    one["last_at"],
                    one["last_job"],
                )
                for one in found["failures"]
            ],
        )
    if found["submitters"]:
        print()
        print_columns(
            LOADS,
            [
                (
                    one["submitter"],
                    *(str(one[name]) for name in ("unfinished", "ended", "failed")),
                    f"{one['cpu_seconds'] / 3600:.2f}",
                    f"{one['run_seconds'] / 3600:.2f}",
                    f"{one['result_bytes'] / 2**20:.1f}",
                )
                for one in found["submitters"]
            ],
        )


def orphans(
    sweep: Annotated[bool, typer.Option("--sweep", help="Remove them.")] = False,
    reason: Annotated[
        list[str] | None, typer.Option(help="Remove those for this reason; may be given again.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the files in storage that belong to no job, or remove them (administrators)."""
    if reason and not sweep:
        raise typer.BadParameter("--reason is of --sweep only")
    found: Any = with_service(lambda client: client.sweep(reason or ()) if sweep else client.orphans())
    if as_json:
        print_json(found)
    elif sweep:
        _print_sweep(found)
    else:
        _print_orphans(found)


def _print_orphans(found: OrphansJson) -> None:
    rows = [
        (one["reason"], str(one["files"]), str(one["bytes"]), _swept(one["removable"], one["sure"]))
        for one in found["reasons"]
    ]
    print_columns(REASONS, rows)
    if found["files"]:
        print()
        print_columns(
            FILES,
            [
                (one["container"], one["name"], str(one["size"]), one["reason"], one["modified_at"])
                for one in found["files"]
            ],
        )


def _swept(removable: bool, sure: bool) -> str:
    return "yes" if sure else "when named" if removable else "never"


def _print_sweep(swept: SweepJson) -> None:
    print(f"removed  {swept['removed_files']} files, {swept['removed_bytes']} bytes")
    for name in swept["changed"]:
        print(f"changed  {name} has been written or taken meanwhile")
    for name, why in swept["failed"].items():
        print(f"failed   {name}: {why}")
    if swept["more"]:
        print("there are more: sweep again")
