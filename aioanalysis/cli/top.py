"""The command that shows what the service is at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from aioanalysis.cli import live
from aioanalysis.cli.columns import STYLES, Cell, Column, state_cell, table_lines
from aioanalysis.cli.jobs import age, reason
from aioanalysis.cli.options import Json
from aioanalysis.cli.output import console, print_json
from aioanalysis.cli.session import LONG_PATIENCE_SECONDS, with_service
from aioanalysis.cli.watching import stages_done
from aioanalysis.client import UNFINISHED, AnalysisClient, JobSummaryJson, WorkerJson

UNFINISHED_MAX: Final = 500
ENDED_MAX: Final = 20
BAR_CELLS: Final = 10
COLUMNS: Final = (
    Column("id", keep=9),
    Column("method", keep=7),
    Column("state", keep=8),
    Column("progress", keep=6),
    Column("age", keep=5, right=True),
    Column("by", keep=3),
    Column("", keep=4, flexible=True),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Board:
    """What is drawn; `server` is whose it is. `workers` are null but for administrators."""

    server: str
    unfinished: Sequence[JobSummaryJson]
    ended: Sequence[JobSummaryJson]
    workers: Sequence[WorkerJson] | None = None


def top(
    once: Annotated[bool, typer.Option("--once", help="Print it once.")] = False, as_json: Json = False
) -> None:
    """Show what the service is at, live."""
    if as_json:
        board = with_service(_board)
        print_json(asdict(board))
    elif once:
        for line in draw(with_service(_board), {}, console.width, datetime.now(UTC)):
            console.print(line, no_wrap=True, crop=True)
    else:
        live.require_terminal()
        with_service(
            lambda client: live.show(
                client,
                lambda: _board(client),
                lambda board, told: draw(board, told, console.width, datetime.now(UTC)),
            ),
            patience=LONG_PATIENCE_SECONDS,
        )


async def _board(client: AnalysisClient) -> Board:
    unfinished = await client.jobs(limit=UNFINISHED_MAX, state=sorted(UNFINISHED))
    ended = await client.jobs(limit=ENDED_MAX, state=["complete", "failed", "killed"])
    sees_all = (await client.who())["role"] != "user"
    workers = await client.workers() if sees_all else None
    return Board(server=client.server, unfinished=unfinished, ended=ended, workers=workers)


def draw(board: Board, told: live.Progress, width: int, now: datetime) -> list[Text]:
    """What runs first, then what waits, then what has ended; no line wider than `width` cells."""
    order = {state: place for place, state in enumerate(("running", "failing", "retrying", "queued"))}
    jobs = sorted(board.unfinished, key=lambda job: order.get(job["state"], len(order)))
    rows = [_row(job, told.get(job["id"]), now) for job in (*jobs, *board.ended)]
    head = Text("aioanalysis ", style="bold").append(board.server, style="dim")
    counts = Text("  ").join(_counts(board.unfinished)) if board.unfinished else Text("nothing to do")
    lines = [head, counts, *([_workers(board.workers)] if board.workers is not None else [])]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return [*lines, Text(""), *table_lines(COLUMNS, rows, width)]


def _workers(workers: Sequence[WorkerJson]) -> Text:
    alive = [worker for worker in workers if worker["alive"]]
    busy, slots = sum(len(one["running"]) for one in alive), sum(one["slots"] or 0 for one in alive)
    count = f"{len(alive)} worker{'s' if len(alive) > 1 else ''}"
    text = f"{count}, {busy} of {slots} places taken" if alive else "no worker is alive"
    return Text(text, style="" if alive else "red")


def _counts(jobs: Sequence[JobSummaryJson]) -> Iterable[Text]:
    for state, count in sorted(Counter(job["state"] for job in jobs).items()):
        more = "+" if len(jobs) == UNFINISHED_MAX else ""
        yield Text(f"{count}{more} {state}", style=STYLES.get(state, ""))


def _row(job: JobSummaryJson, told: Mapping[str, Any] | None, now: datetime) -> list[Cell]:
    return [
        job["id"],
        job["title"],
        state_cell(job["state"]),
        _bar(job, told),
        age(job["submitted_at"], now),
        job["submitter"],
        reason(job, told),
    ]


def _bar(job: JobSummaryJson, told: Mapping[str, Any] | None) -> str:
    """Stages or frames that are over."""
    if job["state"] not in UNFINISHED:
        return ""
    if job["frames"]:
        total = job["frames"]["total"]
        done = sum(count for state, count in job["frames"]["by_state"].items() if state not in UNFINISHED)
        return f"{bar(done / total)} {done}/{total}"
    if told := told or next(iter(job["progress"]), None):
        return f"{bar(stages_done(told) / told['stages'])} {told['stage']}/{told['stages']}"
    return ""


def bar(part: float) -> str:
    """A bar of ten cells, `part` (0 to 1) of it filled."""
    filled = round(min(1.0, max(0.0, part)) * BAR_CELLS)
    return "█" * filled + "░" * (BAR_CELLS - filled)
