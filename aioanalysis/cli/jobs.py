"""Commands that list, show and remove jobs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from aioanalysis.cli import live, runs
from aioanalysis.cli.columns import Cell, Column, print_columns, state_cell, table_lines
from aioanalysis.cli.completion import complete_job
from aioanalysis.cli.options import Json
from aioanalysis.cli.output import console, print_json
from aioanalysis.cli.session import LONG_PATIENCE_SECONDS, with_service
from aioanalysis.cli.watching import print_end, stage_text
from aioanalysis.client import AnalysisClient, JobSummaryJson

COLUMNS: Final = (
    Column("id", keep=9),
    Column("method", keep=7),
    Column("state", keep=8),
    Column("records", keep=4, right=True),
    Column("age", keep=5, right=True),
    Column("by", keep=3),
    Column("why", keep=6, flexible=True),
)
EVENTS: Final = {
    "submit": "submitted",
    "split": "records parted",
    "queue": "packaged",
    "claim": "taken by a worker",
    "gone": "left the queue",
    "result": "result came",
    "fail": "failed",
    "fail_r": "failed, put back",
    "deadline": "time limit passed",
    "lease": "worker lost, put back",
    "lease_x": "workers lost too often",
    "dep_t": "what it waited for has ended",
    "aggregate": "worked out from its runs",
    "wrangle": "held after failures in a row",
    "release": "method released",
    "rebuild": "made again from storage",
    "override": "state set by hand",
    "block_now": "block --now",
}
"""What a history tells, where its word is not one for people; actions are called as they are typed."""

AGO: Final = re.compile(r"(\d+)([mhd])")
UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}


def jobs(
    state: Annotated[
        list[str] | None, typer.Option("--state", "-s", help="A state; may be given again.")
    ] = None,
    title: Annotated[str | None, typer.Option("--title", "--method", help="Only of this method.")] = None,
    recordset: Annotated[str | None, typer.Option(help="Only on this recordset.")] = None,
    submitter: Annotated[str | None, typer.Option(help="Only of this user (administrators).")] = None,
    since: Annotated[
        str | None, typer.Option(help="Submitted since: 30m, 12h, 2d, or a time as 2026-01-31T12:00:00Z.")
    ] = None,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1)] = 50,
    watch: Annotated[bool, typer.Option("--watch", help="Keep the table up to date until Ctrl-C.")] = False,
    as_json: Json = False,
) -> None:
    """List your jobs, newest first."""
    wanted = {"title": title, "recordset": recordset, "submitter": submitter, "since": moment(since)}
    filters: dict[str, Any] = {"state": state or []} | {n: v for n, v in wanted.items() if v is not None}

    async def find(client: AnalysisClient) -> list[JobSummaryJson]:
        return await client.jobs(limit=limit, **filters)

    if watch:
        _watch(find, as_json)
        return
    found = with_service(find)
    if as_json:
        print_json(found)
    else:
        columns, rows = job_table(found, now=datetime.now(UTC))
        print_columns(columns, rows)


def _watch(find: Any, as_json: bool) -> None:
    if as_json:
        with_service(live.print_changes, patience=LONG_PATIENCE_SECONDS)
        return
    live.require_terminal()

    def draw(found: list[JobSummaryJson], progress: Mapping[str, Any]) -> Sequence[Text]:
        columns, rows = job_table(found, now=datetime.now(UTC), progress=progress)
        return table_lines(columns, rows, console.width)

    with_service(lambda client: live.show(client, lambda: find(client), draw), patience=LONG_PATIENCE_SECONDS)


def job_table(
    found: Sequence[JobSummaryJson], *, now: datetime, progress: Mapping[str, Any] | None = None
) -> tuple[list[Column], list[list[Cell]]]:
    """A line a job. Who has submitted them is left out where it is always the same."""
    rows: list[list[Cell]] = [
        [
            job["id"],
            job["title"],
            state_cell(job["state"]),
            _count(job),
            age(job["submitted_at"], now),
            job["submitter"],
            reason(job, (progress or {}).get(job["id"])),
        ]
        for job in found
    ]
    columns = list(COLUMNS)
    if len({job["submitter"] for job in found}) == 1:
        place = [column.name for column in columns].index("by")
        del columns[place]
        rows = [[*row[:place], *row[place + 1 :]] for row in rows]
    return columns, rows


def show(
    job_id: Annotated[str, typer.Argument(metavar="JOB", autocompletion=complete_job)], as_json: Json = False
) -> None:
    """Show one job."""
    job = with_service(lambda client: client.job(job_id))
    if as_json:
        print_json(job)
        return
    hidden = {"history", "error", "usage", "frames", "attempts", "links", "why", "progress", "actions"}
    for name, value in job.items():
        if name not in hidden and value not in (None, [], {}, False):
            runs.print_field(name, _plain(value))
    runs.print_field("actions", ", ".join(EVENTS.get(action, action) for action in job["actions"]))
    if job["why"]:
        runs.print_field("why", _why(job["why"]))
    runs.print_runs(job)
    for event in job["history"]:
        change = f"{event['from'] or 'new'} → {event['to']}"
        text = f"  {event['at']}  {EVENTS.get(event['event'], event['event'])}: {change}"
        console.print(text, markup=False, soft_wrap=True)
    if job["error"]:
        print_end(job)


def rm(
    job_ids: Annotated[list[str], typer.Argument(metavar="JOB...", autocompletion=complete_job)],
    force: Annotated[bool, typer.Option("--force", help="In any state (administrators).")] = False,
    as_json: Json = False,
) -> None:
    """Remove jobs with all their files."""

    async def work(client: AnalysisClient) -> None:
        for job_id in job_ids:
            await client.remove(job_id, force=force)

    with_service(work)
    if as_json:
        print_json({"removed": job_ids})


def moment(text: str | None) -> str | None:
    """A time as the service takes it, of one that may count back from now. Raises `BadParameter`."""
    if text is None:
        return None
    if match := AGO.fullmatch(text):
        try:
            then = datetime.now(UTC) - timedelta(**{UNITS[match[2]]: int(match[1])})
        except OverflowError:
            raise typer.BadParameter(f"--since {text} is too long ago") from None
        return then.isoformat(timespec="seconds").replace("+00:00", "Z")
    try:
        then = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"--since {text}: write 30m, 12h, 2d, or a time as 2026-01-31T12:00:00Z"
        ) from None
    return then.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def age(text: str, now: datetime) -> str:
    """How long ago, in one unit: 12s, 5m, 3h, 2d."""
    seconds = max(0, int((now - datetime.fromisoformat(text)).total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def reason(job: JobSummaryJson, progress: Mapping[str, Any] | None = None) -> str:
    """Why a job has failed, or is not finished; what it is at, while that is known."""
    if job["error"]:
        return f"{job['error']['reason']}: {job['error']['message']}"
    if told := progress or next(iter(job["progress"]), None):
        return stage_text(told)
    return job["why"]["text"] if job["why"] else ""


def _count(job: JobSummaryJson) -> str:
    count = job["record_count"] if job["packaged_count"] is None else job["packaged_count"]
    return "" if count is None else str(count)


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)


def _why(why: Mapping[str, Any]) -> str:
    expected = [
        f"{name} expected {why[key]}"
        for name, key in (("start", "expected_start"), ("end", "expected_finish"))
        if why[key]
    ]
    return "; ".join([why["text"], *expected])
