"""Commands that get what a job leaves: its package, its report, its files."""

from __future__ import annotations

import sys
import tempfile
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn

from aioanalysis.aio import in_thread
from aioanalysis.cli.columns import Column, print_columns
from aioanalysis.cli.completion import complete_job
from aioanalysis.cli.files import written
from aioanalysis.cli.options import FrameNumber, Json
from aioanalysis.cli.output import print_json, progress
from aioanalysis.cli.session import LONG_PATIENCE_SECONDS, with_service
from aioanalysis.client import AnalysisClient, Downloaded, JobJson
from aioanalysis.client.downloads import OnProgress
from aioanalysis.client.packages import Target
from aioanalysis.errors import NotFound

Job = Annotated[str, typer.Argument(metavar="JOB", autocompletion=complete_job)]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="File to write, or a folder for it.")]
STDOUT = Path("-")


def result(
    job_id: Job,
    output: Output = None,
    failed: Annotated[bool, typer.Option("--failed", help="The failed package.")] = False,
    frame: Annotated[int | None, typer.Option(help="That of one frame; else all in one zip.", min=1)] = None,
    attempt: Annotated[
        int | None, typer.Option(help="The package that was kept of an earlier attempt.", min=1)
    ] = None,
    as_json: Json = False,
) -> None:
    """Download a result package, going on where a cut download ended, and verify its checksum."""

    async def earlier(client: AnalysisClient) -> Downloaded:
        kept = [one for one in await client.attempts(job_id, frame=frame) if one["attempt"] == attempt]
        if not kept:
            raise NotFound(f"no package of attempt {attempt} was kept")
        name = kept[-1]["name"]
        target = place(output, name.rpartition("/")[2])
        with _bar(target, show=not as_json) as tell:
            return await client.package("results", name, target, on_progress=tell)

    async def work(client: AnalysisClient) -> Downloaded:
        if attempt is not None:
            return await earlier(client)
        job = await client.job(job_id)
        target = place(output, f"{_stem(job, frame)}{'.failed' if failed else ''}.zip")
        with _bar(target, show=not as_json) as tell:
            return await client.result(job_id, target, failed=failed, frame=frame, on_progress=tell)

    _print(with_service(work, patience=LONG_PATIENCE_SECONDS, stopped=_stopped), as_json)


def report(
    job_id: Job,
    output: Output = None,
    frame: FrameNumber = None,
    open_: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    as_json: Json = False,
) -> None:
    """Save a job's report, or open it in the browser."""

    async def work(client: AnalysisClient) -> Path:
        job = await client.job(job_id)
        if open_ and output is None:
            return await open_report(client, job, frame=frame)
        target = place(output, f"{_stem(job, frame)}.html")
        await in_thread(_save, target, await client.report(job_id, frame=frame))
        if open_:
            webbrowser.open(target.resolve().as_uri())
        return target

    path = with_service(work)
    if as_json:
        print_json({"path": str(path)})
    elif path != STDOUT:
        print(path)


def files(
    job_id: Job,
    name: Annotated[str | None, typer.Argument(metavar="[FILE]", help="The one to get.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write, or a folder for it; - is the terminal."),
    ] = None,
    frame: FrameNumber = None,
    as_json: Json = False,
) -> None:
    """List the files in a job's package, or get one of them, going on where a cut download ended."""
    if name is None:
        found = with_service(lambda client: client.files(job_id, frame=frame))
        if as_json:
            print_json(found)
        else:
            columns = (
                Column("file", keep=9, flexible=True),
                Column("bytes", keep=6, right=True),
                Column("type", keep=3),
            )
            print_columns(columns, [(one["path"], str(one["size"]), one["media_type"]) for one in found])
        return

    async def show(client: AnalysisClient) -> None:
        with tempfile.TemporaryDirectory() as folder:
            saved = await client.file(job_id, name, Path(folder) / "file", frame=frame)
            await in_thread(_copy_out, saved.path)

    async def work(client: AnalysisClient) -> Downloaded:
        target = place(output, name.rpartition("/")[2])
        with _bar(target, show=not as_json) as tell:
            return await client.file(job_id, name, target, frame=frame, on_progress=tell)

    if output == STDOUT:
        with_service(show)
    else:
        _print(with_service(work, patience=LONG_PATIENCE_SECONDS, stopped=_stopped), as_json)


def link(
    job_id: Job,
    name: Annotated[str | None, typer.Argument(metavar="[FILE]", help="One of the package's files.")] = None,
    to: Annotated[
        Literal["result", "failed-result", "report", "metadata", "log"],
        typer.Option(help="What else it leads to."),
    ] = "result",
    frame: FrameNumber = None,
    seconds: Annotated[int, typer.Option(help="How long it holds.", min=1)] = 300,
    as_json: Json = False,
) -> None:
    """Print an address that needs no key for a short time, for a browser or curl."""
    target: Target = to if name is None else "file"
    made = with_service(lambda client: client.link(job_id, target, path=name, frame=frame, seconds=seconds))
    if as_json:
        print_json(made)
    else:
        print(made["link"])


async def open_report(client: AnalysisClient, job: JobJson, *, frame: int | None = None) -> Path:
    """Save the report where the system keeps what may go, and open it in the browser."""
    data = await client.report(job["id"], frame=frame)
    target = Path(tempfile.gettempdir()) / f"{_stem(job, frame)}.html"
    await in_thread(_save, target, data)
    if not await in_thread(webbrowser.open, target.as_uri()):
        print(f"aioanalysis: no browser to open it in: {target}", file=sys.stderr)
    return target


def place(output: Path | None, name: str) -> Path:
    """Where a file goes: into the folder `output`, or under that very name. Raises `BadParameter`."""
    target = Path(name) if output is None else output / name if output.is_dir() else output
    if not target.parent.is_dir():
        raise typer.BadParameter(f"{target.parent} is no folder")
    return target


def _stopped() -> str:
    return "stopped; what has come is kept, the same command goes on with it"


def _stem(job: JobJson, frame: int | None) -> str:
    return f"{job['title']}.{job['id']}{f'-{frame}' if frame else ''}"


def _save(target: Path, data: bytes) -> None:
    if target == STDOUT:
        sys.stdout.buffer.write(data)
        return
    with written(target) as file:
        file.write(data)


def _copy_out(path: Path) -> None:
    with path.open("rb") as file:
        while piece := file.read(1024 * 1024):
            sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


@contextmanager
def _bar(target: Path, *, show: bool) -> Iterator[OnProgress]:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    )
    with progress(*columns, show=show) as bar:
        task = bar.add_task(target.name, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _print(saved: Downloaded, as_json: bool) -> None:
    if as_json:
        told: dict[str, Any] = asdict(saved)
        print_json({**told, "path": str(saved.path)})
    else:
        notes = ["verified" if saved.verified else "not verified: the service knows no checksum of it"]
        notes += [f"went on at {saved.resumed_at}"] if saved.resumed_at else []
        print(f"{saved.path}  {saved.size} bytes  sha256 {saved.sha256}  {', '.join(notes)}".rstrip())
