"""Control through the client and the command line, against the API over a real Redis."""

from __future__ import annotations

import asyncio
import json
import zipfile
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from aioanalysis.cli import app
from aioanalysis.cli.output import console
from aioanalysis.client import ApiProblem, open_client
from aioanalysis.domain.exchange import Container, RunMark
from aioanalysis.domain.frames import Attempt, Frame
from aioanalysis.domain.outcomes import JobError, Reason
from aioanalysis.domain.states import State
from aioanalysis.errors import AnalysisError
from tests.support.apiserver import Api


async def cli(*words: str) -> tuple[int, str]:
    """The command's exit code and what it printed, or the error that it would say."""
    with capture_logs():  # the service's, which is in this very process
        ended = await asyncio.to_thread(CliRunner().invoke, app, words)
    if isinstance(ended.exception, AnalysisError):
        return 1, str(ended.exception)
    return ended.exit_code, ended.output


async def test_a_client_steers_jobs(api: Api) -> None:
    async with open_client(api.url, api.keys["ann"]) as client:
        first = await client.submit("slow", recordset="DS-ONE", hold=True)
        job = await client.submit(
            "slow",
            recordset="DS-ONE",
            frames=[{"seconds": 1}, {"seconds": 2}],
            after=[{"job": first["id"], "when": "finished"}],
            retries=2,
        )
        assert (job["state"], job["retries"]) == ("blocked", 2)
        assert [frame["params"] for frame in await client.frames(job["id"])] == [
            {"seconds": 1},
            {"seconds": 2},
        ]
        assert await client.frames(job["id"], states=["failed"]) == []
        assert (await client.frame(job["id"], 2))["number"] == 2
        assert (await client.action(first["id"], "unblock"))["state"] == "waiting"
        assert (await client.action(first["id"], "block", now=True))["state"] == "blocked"
        with pytest.raises(ApiProblem) as caught:
            await client.action(first["id"], "retry", all_frames=True)
        assert (caught.value.status, caught.value.problem["state"]) == (409, "blocked")
        twin = await client.resubmit(job["id"], tags=["again"], split={"records": 9})
        assert (twin["resubmitted_from"], twin["tags"], twin["frames"]) == (job["id"], ["again"], None)
        outcomes = await client.act_on("kill", state=["all"], limit=2)
        assert {one["id"] for one in outcomes} == {first["id"], job["id"], twin["id"]}
        assert {one["state"] for one in outcomes} == {"killed"}


async def test_a_client_downloads_one_frame_or_all(api: Api, tmp_path: Path) -> None:
    frames = tuple(Frame(number=n, phase=State.COMPLETE) for n in (1, 2))
    job = await api.add_job(title="slow", frames=frames, state=State.COMPLETE)
    for number, crc in ((1, "352441c2"), (2, "352441c2")):  # CRC-32 of abc
        mark = RunMark(uid=job.uid, attempt=1, crc32=crc)
        name = f"{job.name}-{number}.zip"
        await api.storage.write(Container.RESULTS, name, b"abc", metadata=mark.to_metadata())
    async with open_client(api.url, api.keys["ann"]) as client:
        one = await client.result(job.id, tmp_path / "one", frame=2)
        assert one.path.read_bytes() == b"abc"
        whole = await client.result(job.id, tmp_path / "all.zip")
    with zipfile.ZipFile(whole.path) as package:
        assert {name: package.read(name) for name in package.namelist()} == {
            f"{job.name}-{n}.zip": b"abc" for n in (1, 2)
        }


async def test_the_command_line_steers_jobs(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOANALYSIS_SERVER", api.url)
    monkeypatch.setenv("AIOANALYSIS_KEY", api.keys["ann"])
    monkeypatch.setattr(console, "_width", 200)
    error = JobError(reason=Reason.STAGE, message="container exited with code 3")
    over = Attempt(number=1, ending="failed", host="lab", exit_code=3, error=error)
    parent = await api.add_job(title="slow", params={}, attempts=(over,), attempt=2)
    words = ["submit", "slow", "--recordset", "DS-ONE", "--retries", "3", "--hold", "--json"]
    code, printed = await cli(
        *words, "--frame", '{"seconds": 1}', "--frame", "{}", "--after", f"{parent.id}:failed:each"
    )
    job = json.loads(printed)
    assert (code, job["frames"]["total"], job["retries"], job["holds"]) == (0, 2, 3, ["dependencies", "user"])
    assert job["after"] == [{"job": parent.id, "when": "failed", "each": True, "seen": None}]
    assert await cli("action", "kill", job["id"]) == (0, f"{job['id']} killed\n")
    code, printed = await cli("action", "suspend", job["id"])
    assert code == 1
    assert "what does: retry, resubmit, remove" in printed
    assert "frames            2: 2 killed" in (await cli("show", job["id"]))[1]
    assert "submitted: new → blocked" in (await cli("show", job["id"]))[1]
    shown = (await cli("show", parent.id))[1]
    assert "block --now" in shown
    assert "attempt 1         failed on lab exit 3 (stage: container exited with code 3)" in shown
    code, printed = await cli("frames", job["id"])
    assert [line.split()[:2] for line in printed.splitlines()[1:]] == [["1", "killed"], ["2", "killed"]]
    change = ["--change", '{"frames": null, "split": {"by": "species"}}']
    code, printed = await cli("action", "resubmit", job["id"], *change)
    assert (code, printed.split()[1]) == (0, "waiting")
    code, printed = await cli(*words[:4], "--split-by", "x", "--split-records", "1")
    assert (code, "not both" in printed) == (2, True)
