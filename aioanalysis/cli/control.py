"""Commands that steer jobs, and the list of a job's frames."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Final

import typer

from aioanalysis.cli.columns import Column, print_columns, state_cell
from aioanalysis.cli.completion import complete_action, complete_job
from aioanalysis.cli.options import Json
from aioanalysis.cli.output import print_json
from aioanalysis.cli.runs import json_object
from aioanalysis.cli.session import with_service
from aioanalysis.client import AnalysisClient, ApiProblem, JobJson

COLUMNS: Final = (
    Column("frame", keep=9, right=True),
    Column("state", keep=8),
    Column("of", keep=6, flexible=True),
    Column("records", keep=4, right=True),
    Column("attempt", keep=3, right=True),
    Column("why", keep=7, flexible=True),
)


def action(
    name: Annotated[
        str,
        typer.Argument(
            help="block, unblock, interrupt, suspend, kill, retry or resubmit.",
            metavar="ACTION",
            autocompletion=complete_action,
        ),
    ],
    job_ids: Annotated[
        list[str],
        typer.Argument(help="One job or more.", metavar="JOB...", autocompletion=complete_job),
    ],
    now: Annotated[bool, typer.Option("--now", help="block: end what runs, too.")] = False,
    every: Annotated[bool, typer.Option("--all", help="retry: complete frames, too.")] = False,
    change: Annotated[
        str, typer.Option(help="resubmit: fields of the new job that differ, as a JSON object.")
    ] = "{}",
    as_json: Json = False,
) -> None:
    """Steer jobs; of a resubmission prints the new job's id.

    Of several jobs those that refuse are named, the others are acted on, and the exit code is 1.
    """
    changes = json_object(change, "--change")

    jobs: list[JobJson] = []
    refused = 0

    async def act(client: AnalysisClient, job_id: str) -> JobJson:
        if name == "resubmit":
            return await client.resubmit(job_id, **changes)
        return await client.action(job_id, name, now=now, all_frames=every)

    async def work(client: AnalysisClient) -> None:
        nonlocal refused
        for job_id in job_ids:
            try:
                jobs.append(await act(client, job_id))
            except ApiProblem as problem:
                if len(job_ids) == 1:
                    raise
                print(f"aioanalysis: {job_id}: {problem}", file=sys.stderr)
                refused += 1
            else:
                if not as_json:
                    print(jobs[-1]["id"], jobs[-1]["state"])

    with_service(work)
    if as_json:
        print_json(jobs)
    if refused:
        raise typer.Exit(1)


def frames(
    job_id: Annotated[str, typer.Argument(metavar="JOB", autocompletion=complete_job)],
    state: Annotated[list[str] | None, typer.Option(help="A state; may be given again.")] = None,
    as_json: Json = False,
) -> None:
    """List a job's frames."""
    found = with_service(lambda client: client.frames(job_id, states=state or ()))
    if as_json:
        print_json(found)
        return
    rows = [
        (
            str(frame["number"]),
            state_cell(frame["state"]),
            frame["value"] or json.dumps(frame["params"]),
            str(frame["packaged_count"] or frame["records"] or ""),
            str(frame["attempt"]),
            f"{frame['error']['reason']}: {frame['error']['message']}" if frame["error"] else "",
        )
        for frame in found
    ]
    print_columns(COLUMNS, rows)
