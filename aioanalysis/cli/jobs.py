"""Commands that speak to the service as a client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.progress import BarColumn, DownloadColumn, SpinnerColumn, TextColumn, TimeElapsedColumn

from aioanalysis.cli import runs
from aioanalysis.cli.output import console, print_json, print_table, progress
from aioanalysis.client import AnalysisClient, JobJson, open_client
from aioanalysis.errors import Invalid, Misconfigured
from aioanalysis.settings import PREFIX, Settings, load

T = TypeVar("T")
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
CONNECTION_FILE = "dev.json"
ERROR_LINES = 20


def submit(
    title: Annotated[str, typer.Argument(help="The method, as `aioanalysis methods list` shows it.")],
    recordset: Annotated[str | None, typer.Option(help="Code of the records.")] = None,
    set_token: Annotated[str | None, typer.Option(help="Token of a set of records.")] = None,
    file: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Records to attach: JSON Lines, plain or gzip."),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param", "-p", help="NAME=VALUE, once a parameter; a value that is JSON is taken as such."
        ),
    ] = None,
    params: Annotated[str | None, typer.Option(help="All parameters as a JSON object, or @FILE.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="A tag; may be given again.")] = None,
    frame: Annotated[
        list[str] | None,
        typer.Option(help="A run of its own: what differs from the parameters, as JSON; may be given again."),
    ] = None,
    split_records: Annotated[int | None, typer.Option(help="A run for each so many records.")] = None,
    split_by: Annotated[str | None, typer.Option(help="A run for each value of this field.")] = None,
    after: Annotated[
        list[str] | None,
        typer.Option(help="JOB[:failed|killed|finished][:each] to wait for; may be given again."),
    ] = None,
    hold: Annotated[bool, typer.Option("--hold", help="Start it when it is unblocked.")] = False,
    retries: Annotated[int, typer.Option(help="Put a failed run back so often.")] = 0,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end, showing progress.")] = False,
    as_json: Json = False,
) -> None:
    """Submit a job; with --wait exits 1 if it does not complete."""
    given = parameters(param or [], params)
    frames = [runs.json_object(text, "--frame") for text in frame] if frame else None
    parts = runs.split(split_records, split_by)

    async def work(client: AnalysisClient) -> JobJson:
        job = await client.submit(
            title,
            recordset=recordset,
            set_token=set_token,
            params=given,
            tags=tag or (),
            file=file,
            frames=frames,
            split=parts,
            after=[runs.dependency(text) for text in after or ()],
            hold=hold,
            retries=retries,
        )
        if not wait:
            return job
        if as_json:
            return await client.wait(job["id"])
        return await _watch(client, job)

    job = with_service(work)
    if wait:
        _end(job, as_json)
    elif as_json:
        print_json(job)
    else:
        print(job["id"])


def jobs(
    state: Annotated[list[str] | None, typer.Option(help="A state; may be given again.")] = None,
    title: Annotated[str | None, typer.Option(help="Only of this method.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1)] = 50,
    as_json: Json = False,
) -> None:
    """List your jobs, newest first."""
    filters: dict[str, Any] = {"state": state or []} | ({"title": title} if title else {})
    found = with_service(lambda client: client.jobs(limit=limit, **filters))
    if as_json:
        print_json(found)
        return
    rows = [
        (
            job["id"],
            job["title"],
            job["state"],
            _count(job),
            job["submitted_at"],
            job["submitter"],
            _reason(job),
        )
        for job in found
    ]
    print_table(("id", "title", "state", "records", "submitted", "by", "why"), rows)


def show(job_id: str, as_json: Json = False) -> None:
    """Show one job."""
    job = with_service(lambda client: client.job(job_id))
    if as_json:
        print_json(job)
        return
    for name, value in job.items():
        if name not in {"history", "error", "usage", "frames", "attempts"} and value not in (None, [], {}):
            console.print(f"{name:17}", str(value), markup=False, highlight=False)
    runs.print_runs(job)
    for event in job.get("history") or ():
        console.print(f"  {event['at']}  {event['event']}: {event['from']} → {event['to']}", markup=False)
    if job.get("error"):
        _print_end(job)


def watch(job_id: str, as_json: Json = False) -> None:
    """Wait for a job's end, showing progress; exits 1 if it does not complete."""

    async def work(client: AnalysisClient) -> JobJson:
        return await (client.wait(job_id) if as_json else _watch(client, await client.job(job_id)))

    _end(with_service(work), as_json)


def result(
    job_id: str,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write.")] = None,
    failed: Annotated[bool, typer.Option(help="The failed package.")] = False,
    frame: Annotated[int | None, typer.Option(help="That of one frame; else all in one zip.")] = None,
    as_json: Json = False,
) -> None:
    """Download a result package and verify its checksum."""

    async def work(client: AnalysisClient) -> Any:
        job = await client.job(job_id)
        name = f"{job['title']}.{job_id}{f'-{frame}' if frame else ''}{'.failed' if failed else ''}.zip"
        target = output or Path(name)
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
        with progress(*columns, show=not as_json) as bar:
            task = bar.add_task(target.name, total=None)
            return await client.result(
                job_id,
                target,
                failed=failed,
                frame=frame,
                on_progress=lambda done, total: bar.update(task, completed=done, total=total),
            )

    saved = with_service(work)
    if as_json:
        print_json(
            {"path": str(saved.path), "size": saved.size, "sha256": saved.sha256, "verified": saved.verified}
        )
    else:
        print(
            f"{saved.path}  {saved.size} bytes  sha256 {saved.sha256}{'  verified' if saved.verified else ''}"
        )


def rm(
    job_id: str, force: Annotated[bool, typer.Option(help="In any state (administrators).")] = False
) -> None:
    """Remove a job with all its files."""
    with_service(lambda client: client.remove(job_id, force=force))


# --- shared ---


def with_service(work: Callable[[AnalysisClient], Awaitable[T]]) -> T:
    """Do `work` with a client of the service that the settings name."""

    async def main() -> T:
        async with _client(load()) as client:
            return await work(client)

    return asyncio.run(main())


@asynccontextmanager
async def _client(settings: Settings) -> AsyncIterator[AnalysisClient]:
    """A client of the service in the settings, else of the `aioanalysis dev` of this folder."""
    server = settings.server
    key = settings.key.get_secret_value() if settings.key else None
    connection = settings.data_dir / CONNECTION_FILE
    if server is None and connection.exists():
        dev = json.loads(connection.read_text())
        server, key = dev["server"], key or dev["key"]
    if server is None or key is None:
        raise Misconfigured(
            f"set {PREFIX}SERVER and {PREFIX}KEY, or start `aioanalysis dev` in this folder first"
        )
    async with open_client(server, key) as client:
        yield client


def parameters(pairs: list[str], text: str | None) -> dict[str, Any]:
    """A method's parameters as options give them: NAME=VALUE pairs over a JSON object or @FILE."""
    try:
        whole = Path(text[1:]).read_text() if text and text.startswith("@") else text
        values = json.loads(whole) if whole else {}
    except (OSError, ValueError) as error:
        raise Invalid(f"--params is not a JSON object: {error}") from None
    if not isinstance(values, dict):
        raise Invalid("--params must be a JSON object")
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise Invalid(f"-p {pair}: write NAME=VALUE")
        try:
            values[name] = json.loads(value)
        except ValueError:
            values[name] = value
    return values


async def _watch(client: AnalysisClient, job: JobJson) -> JobJson:
    with progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()) as bar:
        task = bar.add_task(f"{job['id']} {job['state']}", total=None)

        def changed(now: JobJson) -> None:
            why = now.get("why") or {}
            bar.update(task, description=f"{now['id']} {now['state']}  {why.get('text') or ''}")

        return await client.wait(job["id"], on_change=changed)


def _end(job: JobJson, as_json: bool) -> None:
    if as_json:
        print_json(job)
    else:
        _print_end(job)
    if job["state"] != "complete":
        raise typer.Exit(1)


def _print_end(job: JobJson) -> None:
    error = job.get("error")
    print(f"{job['id']} {job['state']}")
    if error:
        print(
            f"{error['reason']}: {error['message']}"
            + (f" in {error['script']}" if error.get("script") else "")
        )
        for line in (error.get("error") or "").splitlines()[-ERROR_LINES:]:
            print(f"  {line}")


def _count(job: JobJson) -> str:
    count = job.get("packaged_count")
    count = job.get("record_count") if count is None else count
    return "" if count is None else str(count)


def _reason(job: JobJson) -> str:
    error, why = job.get("error"), job.get("why")
    if error:
        return f"{error['reason']}: {error['message']}"
    return str(why.get("text") or "") if why else ""
