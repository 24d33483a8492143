"""Commands that steer jobs, and the list of a job's frames."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from aioanalysis.cli.jobs import Json, with_service
from aioanalysis.cli.output import print_json, print_table
from aioanalysis.cli.runs import json_object
from aioanalysis.client import AnalysisClient, JobJson


def action(
    name: Annotated[
        str,
        typer.Argument(help="block, unblock, interrupt, suspend, kill, retry or resubmit.", metavar="ACTION"),
    ],
    job_ids: Annotated[list[str], typer.Argument(help="One job or more.", metavar="JOB...")],
    now: Annotated[bool, typer.Option("--now", help="block: end what runs, too.")] = False,
    every: Annotated[bool, typer.Option("--all", help="retry: complete frames, too.")] = False,
    change: Annotated[
        str, typer.Option(help="resubmit: fields of the new job that differ, as a JSON object.")
    ] = "{}",
    as_json: Json = False,
) -> None:
    """Steer jobs; of a resubmission prints the new job's id."""
    changes = json_object(change, "--change")

    async def work(client: AnalysisClient) -> list[JobJson]:
        if name == "resubmit":
            return [await client.resubmit(job_id, **changes) for job_id in job_ids]
        return [await client.action(job_id, name, now=now, all_frames=every) for job_id in job_ids]

    jobs = with_service(work)
    if as_json:
        print_json(jobs)
    else:
        for job in jobs:
            print(job["id"], job["state"])


def frames(
    job_id: str,
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
            frame["state"],
            frame["value"] or json.dumps(frame["params"]),
            str(frame["packaged_count"] or frame["records"] or ""),
            str(frame["attempt"]),
            f"{frame['error']['reason']}: {frame['error']['message']}" if frame["error"] else "",
        )
        for frame in found
    ]
    print_table(("frame", "state", "of", "records", "attempt", "why"), rows)
