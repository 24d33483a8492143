"""Control as users have it: frames, dependencies, retries and actions, over HTTP and real parts."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.deployment import Deployment
from tests.support.waiting import eventually

QUICK = {"watch_interval": 0.5, "pass_interval": 2}


class Api:
    """The HTTP API as a user calls it."""

    def __init__(self, session: aiohttp.ClientSession, server: str) -> None:
        self._session, self._server = session, server

    async def call(self, method: str, path: str, body: Any = None, *, expect: int = 200) -> Any:
        async with self._session.request(method, self._server + path, json=body) as response:
            text = await response.text()
            assert response.status == expect, text
            return json.loads(text) if text else None

    async def submit(self, title: str, **fields: Any) -> dict[str, Any]:
        body = {"title": title, "recordset": "DS-TWO", **fields}
        job: dict[str, Any] = await self.call("POST", "/v1/jobs", body, expect=201)
        return job

    async def job(self, job_id: str) -> dict[str, Any]:
        job: dict[str, Any] = await self.call("GET", f"/v1/jobs/{job_id}")
        return job

    async def act(self, job: dict[str, Any], action: str, *, query: str = "", expect: int = 200) -> Any:
        return await self.call("POST", f"/v1/jobs/{job['id']}/actions/{action}{query}", expect=expect)

    async def until(self, job: dict[str, Any], *states: str, within: float = 40) -> dict[str, Any]:
        async def reached() -> dict[str, Any] | None:
            now = await self.job(job["id"])
            return now if now["state"] in states else None

        found = await eventually(reached, within=within, every=0.1, what=f"{job['id']} is {states}")
        assert found is not None
        return found


@pytest.fixture
async def ada(quick: Deployment) -> AsyncIterator[Api]:
    quick.serve(**QUICK)
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {quick.keys['ada']}"}) as session:
        yield Api(session, quick.server)


def worker(quick: Deployment, name: str = "w1", **settings: Any) -> Any:
    return quick.worker(name, sample_interval=1, **settings)


async def test_frames_of_parameters_run_side_by_side_and_make_one_job(ada: Api, quick: Deployment) -> None:
    job = await ada.submit("noop", frames=[{}, {}, {}])
    worker(quick, jobs=3)
    done = await ada.until(job, "complete")
    assert done["frames"]["by_state"] == {"complete": 3}
    results = quick.folder / "storage" / "results"
    assert sorted(path.name for path in results.glob("*.zip")) == [
        f"noop.{job['id']}-{n}.zip" for n in (1, 2, 3)
    ]


async def test_a_split_cuts_the_records_once_into_a_frame_a_part(ada: Api, quick: Deployment) -> None:
    quick.add_records(
        "DS-FIVE", "".join(f'{{"processid": "A-{n}", "genus": "G{n % 2}"}}\n' for n in range(5))
    )
    chunks = await ada.submit("noop", recordset="DS-FIVE", split={"records": 2})
    genera = await ada.submit("noop", recordset="DS-FIVE", split={"by": "genus"})
    worker(quick, jobs=4)
    for job, counts in ((chunks, [2, 2, 1]), (genera, [3, 2])):
        done = await ada.until(job, "complete")
        assert done["packaged_count"] == 5
        frames = (await ada.call("GET", f"/v1/jobs/{job['id']}/frames"))["frames"]
        assert [frame["packaged_count"] for frame in frames] == counts
    snapshots = quick.folder / "storage" / "results" / "snapshots"
    assert len(list(snapshots.iterdir())) == 2
    await ada.call("DELETE", f"/v1/jobs/{chunks['id']}", expect=204)
    await eventually(lambda: len(list(snapshots.iterdir())) == 1, within=10)


async def test_a_job_waits_for_the_one_it_depends_on(ada: Api, quick: Deployment) -> None:
    first = await ada.submit("slow", params={"seconds": 1})
    second = await ada.submit("noop", after=[first["id"]])
    third = await ada.submit("noop", after=[{"job": first["id"], "when": "failed"}])
    assert second["state"] == "blocked"
    worker(quick, worker_jobs=2)
    await ada.until(second, "complete")
    assert (await ada.job(first["id"]))["state"] == "complete"
    held = await ada.job(third["id"])
    assert held["state"] == "blocked"
    assert first["id"] in held["why"]["text"]
    await ada.act(third, "unblock")
    await ada.until(third, "complete")


async def test_a_failed_run_is_retried_with_its_attempts_kept(ada: Api, quick: Deployment) -> None:
    job = await ada.submit("fail_stage3", retries=2)
    worker(quick)
    done = await ada.until(job, "failed")
    assert [(a["attempt"], a["ending"], a["exit_code"]) for a in done["attempts"]] == [
        (1, "failed", 3),
        (2, "failed", 3),
        (3, "failed", 3),
    ]
    kept = quick.folder / "storage" / "results" / "attempts"
    assert sorted(p.name for p in kept.glob("*.zip")) == [
        f"fail_stage3.{job['id']}.{k}.failed.zip" for k in (1, 2)
    ]
    await eventually(lambda: not _left(quick), within=15, what="claims and control blobs are gone")


def _left(quick: Deployment) -> list[Path]:
    results = quick.folder / "storage" / "results"
    folders = [results / name for name in ("claimed", "control", "progress")]
    return [path for folder in folders if folder.exists() for path in folder.rglob("*") if path.is_file()]


async def test_a_running_job_is_killed_within_seconds_and_stays_killed(ada: Api, quick: Deployment) -> None:
    job = await ada.submit("slow", params={"seconds": 60})
    worker(quick)
    await ada.until(job, "running")
    assert (await ada.act(job, "kill"))["state"] == "killed"
    await eventually(lambda: not _left(quick), within=20, what="the run has ended and is cleaned up")
    results = quick.folder / "storage" / "results"
    assert not list(results.glob(f"slow.{job['id']}*"))
    assert list((results / "attempts").glob(f"slow.{job['id']}.1.killed.zip"))
    assert (await ada.job(job["id"]))["state"] == "killed"
    refused = await ada.act(job, "interrupt", expect=409)
    assert refused["allowed"] == ["retry", "resubmit", "remove", "force", "override"]
    again = await ada.act(job, "retry")
    assert (again["state"], again["attempt"]) == ("waiting", 2)
    await ada.until(job, "running")
    await ada.act(job, "kill")


async def test_an_interrupted_run_goes_back_and_runs_again(ada: Api, quick: Deployment) -> None:
    job = await ada.submit("slow", params={"seconds": 4})
    worker(quick)
    await ada.until(job, "running")
    assert (await ada.act(job, "interrupt"))["state"] == "waiting"
    done = await ada.until(job, "complete", within=60)
    assert done["attempt"] == 2
    assert [attempt["ending"] for attempt in done["attempts"]] == ["interrupted", "complete"]


async def test_a_held_job_waits_for_its_user(ada: Api, quick: Deployment) -> None:
    job = await ada.submit("noop", hold=True)
    queued = await ada.submit("noop")
    await ada.until(queued, "queued")
    assert (await ada.act(queued, "block"))["state"] == "blocked"
    queue = quick.folder / "storage" / "queue"
    await eventually(lambda: not list(queue.glob("*.tar")), within=10, what="the package is withdrawn")
    for held in (job, queued):
        await ada.act(held, "unblock")
    worker(quick)
    for held in (job, queued):
        await ada.until(held, "complete")


async def test_a_resubmitted_job_is_another_with_what_was_changed(ada: Api, quick: Deployment) -> None:
    job = await ada.submit("slow", params={"seconds": 1}, tags=["x"])
    body = {"params": {"seconds": 0}}
    path = f"/v1/jobs/{job['id']}/actions/resubmit"
    again = await ada.call("POST", path, body, expect=201)
    assert again["id"] != job["id"]
    assert again["resubmitted_from"] == job["id"]
    assert (again["params"], again["tags"]) == ({"seconds": 0}, ["x"])


async def test_frames_that_fail_in_a_row_hold_the_rest(ada: Api, quick: Deployment) -> None:
    job = await ada.submit("fail_stage3", frames=[{}] * 30)
    worker(quick)
    held = await ada.until(job, "blocked")
    assert held["frames"]["by_state"]["failed"] >= 5
    assert held["frames"]["by_state"]["blocked"] > 0
    assert "in a row" in held["why"]["text"]


async def test_a_method_whose_image_fails_on_two_workers_is_held_until_it_changes(
    whole: Deployment,
) -> None:
    methods = Path(whole.environment["AIOANALYSIS_METHODS_DIR"])
    whole.serve(wrangle_failures=4, **QUICK)
    workers = [worker(whole, name) for name in ("w1", "w2")]
    headers = {"Authorization": f"Bearer {whole.keys['ada']}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        ada = Api(session, whole.server)
        first = [await ada.submit("bad_image") for _ in range(8)]
        for job in first:
            await ada.until(job, "failed", "blocked", within=60)
        await eventually(lambda: _is_held(ada), within=60, every=1, what="new jobs of the method are held")
        held = await ada.submit("bad_image")
        assert held["state"] == "blocked"
        assert "bad_image failed in a row" in held["why"]["text"]
        await ada.act(held, "unblock", expect=403)
        shutil.copyfile(methods / "noop" / "Dockerfile", methods / "bad_image" / "Dockerfile")
        await ada.until(held, "complete", within=60)
    assert all(each.process.poll() is None for each in workers)


async def _is_held(ada: Api) -> bool:
    return bool((await ada.submit("bad_image"))["state"] == "blocked")
