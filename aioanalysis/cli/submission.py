"""The command that submits a job."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated, Any

import typer

from aioanalysis.cli import runs
from aioanalysis.cli.completion import complete_method
from aioanalysis.cli.options import Json
from aioanalysis.cli.output import print_json
from aioanalysis.cli.parameters import parameters
from aioanalysis.cli.results import open_report
from aioanalysis.cli.session import LONG_PATIENCE_SECONDS, with_service
from aioanalysis.cli.watching import end, follow_job
from aioanalysis.client import AnalysisClient, ApiProblem, JobJson


def submit(
    title: Annotated[
        str,
        typer.Argument(
            help="The method, as `aioanalysis methods list` shows it.", autocompletion=complete_method
        ),
    ],
    recordset: Annotated[str | None, typer.Option(help="Code of the records.")] = None,
    set_token: Annotated[str | None, typer.Option(help="Token of a set of records.")] = None,
    file: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Records to attach: JSON Lines, plain or gzip."),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            "--param",
            "-p",
            help="NAME=VALUE, once a parameter, as `aioanalysis methods show` lists them.",
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
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Wait for its end, showing progress.")] = False,
    open_: Annotated[bool, typer.Option("--open", help="Wait, then open the report in the browser.")] = False,
    as_json: Json = False,
) -> None:
    """Submit a job and print its id; with --wait exits 1 if it does not complete."""
    if sum(source is not None for source in (recordset, set_token, file)) != 1:
        raise typer.BadParameter("which records? Give one of --recordset, --set-token and --file")
    fields: dict[str, Any] = {
        "recordset": recordset,
        "set_token": set_token,
        "file": file,
        "tags": tag or (),
        "frames": [runs.json_object(text, "--frame") for text in frame] if frame else None,
        "split": runs.split(split_records, split_by),
        "after": [runs.dependency(text) for text in after or ()],
        "hold": hold,
        "retries": retries,
    }
    submitted: list[str] = []

    async def work(client: AnalysisClient) -> JobJson:
        schema = await _schema(client, title) if param else None
        job = await client.submit(title, params=parameters(param or [], params, schema), **fields)
        submitted.append(job["id"])
        if not (wait or open_):
            return job
        job = await follow_job(client, job["id"], show=not as_json)
        if open_ and job["state"] == "complete":
            await open_report(client, job)
        return job

    def stopped() -> str:
        if submitted:
            return f"stopped waiting; the job goes on: aioanalysis watch {submitted[0]}"
        return "stopped; `aioanalysis jobs` tells whether the job was submitted all the same"

    patience = {"patience": LONG_PATIENCE_SECONDS} if wait or open_ else {}
    job = with_service(work, stopped=stopped, **patience)
    if wait or open_:
        end(job, as_json)
    elif as_json:
        print_json(job)
    else:
        print(job["id"])


async def _schema(client: AnalysisClient, title: str) -> dict[str, Any] | None:
    """Of the method's parameters; None if the service keeps no methods of its own."""
    try:
        return (await client.method(title))["parameters"]
    except ApiProblem as problem:
        if problem.status != 404:
            raise
    known = [method["title"] for method in await client.methods()]
    if not known:
        return None
    near = difflib.get_close_matches(title, known, n=1)
    hint = f"did you mean {near[0]}?" if near else "see `aioanalysis methods list`"
    raise typer.BadParameter(f"there is no method {title}; {hint}")
