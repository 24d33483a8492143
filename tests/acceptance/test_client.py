"""The client and the command line against `serve` and a worker: from submission to an opened result."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from aioanalysis.client import Event, JobFailed, Update
from tests.support.deployment import Deployment
from tests.support.terminal import command, terminal
from tests.support.waiting import eventually

END = 90.0


async def test_a_run_is_watched_and_its_result_opened(quick: Deployment) -> None:
    quick.serve()
    quick.worker(sample_interval=1)
    updates: list[Update] = []
    events: list[Event] = []
    async with quick.client() as client:

        async def listen() -> None:
            async with aclosing(client.events()) as stream:
                async for event in stream:
                    events.append(event)

        listening = asyncio.create_task(listen())
        records = [{"record_id": "A", "processid": "A"}, {"record_id": "B", "processid": "B"}]
        result = await client.run(
            "slow", records=records, params={"seconds": 4}, on_update=updates.append, timeout=END
        )
        with result:
            assert "analysis_report.html" in result.files
            assert result.report.read_text()
            assert result.job["packaged_count"] == 2
            folder = result.package.parent
        assert not folder.exists()
        await eventually(lambda: [event for event in events if event.data.get("state") == "complete"])
        seen = {event.job for event in events}
        with pytest.raises(JobFailed, match=r"stage: container exited with code 3") as failed:
            await client.run("fail_stage3", records="DS-TWO", timeout=END)
        assert failed.value.job["state"] == "failed"
        listening.cancel()
        await asyncio.wait([listening])
    states = list(dict.fromkeys(update.job["state"] for update in updates))
    assert (states[0], states[-2:]) == ("waiting", ["running", "complete"])
    stages = [update.progress["stage"] for update in updates if update.progress]
    assert stages
    assert stages == sorted(stages)
    assert seen == {result.job["id"]}
    assert "progress" in {event.name for event in events}


async def test_a_person_waits_for_a_job_with_its_stages_in_sight(quick: Deployment) -> None:
    quick.serve()
    quick.worker(sample_interval=1)
    settings = {"AIOANALYSIS_SERVER": quick.server, "AIOANALYSIS_KEY": quick.keys["ada"]}
    submit = ("submit", "slow", "--recordset", "DS-TWO", "-p", "seconds=4", "--wait")
    async with terminal(*submit, settings=settings, folder=quick.folder) as running:
        assert await running.end() == 0
    assert " of 5" in running.text
    assert running.text.rstrip().endswith(" complete")
    failed = await command(
        "submit", "fail_stage3", "--recordset", "DS-TWO", "--wait", settings=settings, folder=quick.folder
    )
    assert failed.code == 1
    assert "stage: container exited with code 3 in 3_analyse.sh" in failed.out
    assert "no two sequences overlap" in failed.out
    job = failed.out.split()[0]
    followed = await command("log", job, "--follow", settings=settings, folder=quick.folder)
    assert (followed.code, "no two sequences overlap" in followed.out) == (0, True)
    acted = await command("action", "kill", job, job, settings=settings, folder=quick.folder)
    assert (acted.code, len(acted.err.splitlines())) == (1, 2)
