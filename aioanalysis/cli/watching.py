"""Commands that stay with a job: its progress until it has ended, and its output."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import aclosing
from typing import Annotated, Any, Final

import typer
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from aioanalysis.cli.completion import complete_job
from aioanalysis.cli.options import FrameNumber, Json
from aioanalysis.cli.output import print_json, progress
from aioanalysis.cli.session import LONG_PATIENCE_SECONDS, with_service
from aioanalysis.client import UNFINISHED, AnalysisClient, JobJson, Update

ERROR_LINES: Final = 20


def watch(
    job_id: Annotated[str, typer.Argument(metavar="JOB", autocompletion=complete_job)], as_json: Json = False
) -> None:
    """Wait for a job's end, showing progress; exits 1 if it does not complete."""
    job = with_service(
        lambda client: follow_job(client, job_id, show=not as_json),
        patience=LONG_PATIENCE_SECONDS,
        stopped=lambda: f"stopped waiting; the job goes on: aioanalysis watch {job_id}",
    )
    end(job, as_json)


def log(
    job_id: Annotated[str, typer.Argument(metavar="JOB", autocompletion=complete_job)],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="What is still to come, too.")] = False,
    frame: FrameNumber = None,
    as_json: Json = False,
) -> None:
    """Print a job's output."""

    async def work(client: AnalysisClient) -> None:
        if follow:
            async with aclosing(client.follow_log(job_id, frame=frame)) as pieces:
                async for piece in pieces:
                    _write(piece)
        elif as_json:
            text = (await client.log(job_id, frame=frame)).decode("utf-8", "replace")
            print_json({"job": job_id, "frame": frame, "log": text})
        else:
            _write(await client.log(job_id, frame=frame))

    with_service(work, patience=LONG_PATIENCE_SECONDS)


def _write(piece: bytes) -> None:
    """As it is where it goes to a file; on a terminal without what would steer it."""
    if sys.stdout.isatty():
        text = piece.decode("utf-8", "replace")
        print("".join(c for c in text if c.isprintable() or c in "\n\t"), end="", flush=True)
    else:
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()


async def follow_job(client: AnalysisClient, job_id: str, *, show: bool) -> JobJson:
    """Until the job has ended, with a bar of its stages, or of its frames, on a terminal's standard error."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[detail]}", markup=False),
        TimeElapsedColumn(),
    )
    with progress(*columns, show=show) as bar:
        task = bar.add_task(job_id, total=None, detail="")
        async with aclosing(client.watch(job_id)) as updates:
            async for update in updates:
                job = update.job
                _draw(bar, task, update)
    return job


def _draw(bar: Progress, task: TaskID, update: Update) -> None:
    job, frames = update.job, update.job["frames"]
    total: int | None = None
    done, detail = 0.0, job["why"]["text"] if job["why"] else ""
    if frames:
        total = frames["total"]
        done = sum(count for state, count in frames["by_state"].items() if state not in UNFINISHED)
        detail = f"{done:.0f} of {total} frames  {detail}"
    elif told := update.progress or next(iter(job["progress"]), None):
        total, done, detail = told["stages"], stages_done(told), stage_text(told)
    bar.update(task, description=f"{job['id']} {job['state']}", total=total, completed=done, detail=detail)


def stages_done(told: Mapping[str, Any]) -> float:
    """How many stages are over, with what is known of the one that runs."""
    return float(told["stage"] - 1 + (told["fraction"] or 0.0))


def stage_text(told: Mapping[str, Any]) -> str:
    """Where a run is, in words."""
    of_frame = f"frame {told['frame']}" if told["frame"] else ""
    place = f"stage {told['stage']} of {told['stages']}"
    return ", ".join(filter(None, (of_frame, place, told["message"] or told["name"])))


def end(job: JobJson, as_json: bool) -> None:
    """Print how the job ended; exit code 1 if it did not complete."""
    if as_json:
        print_json(job)
    else:
        print_end(job)
    if job["state"] != "complete":
        raise typer.Exit(1)


def print_end(job: JobJson) -> None:
    error = job["error"]
    print(f"{job['id']} {job['state']}")
    if error:
        place = f" in {error['script']}" if error["script"] else ""
        print(f"{error['reason']}: {error['message']}{place}")
        for line in (error["error"] or "").splitlines()[-ERROR_LINES:]:
            print(f"  {line}")
