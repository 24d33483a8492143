"""The main job as operators run it: processes over real parts, spoken to by HTTP only."""

from __future__ import annotations

import asyncio
import json
import shutil
import zipfile
from pathlib import Path

import pytest

from aioanalysis.client import ApiProblem, JobJson
from tests.support.deployment import Deployment, Running
from tests.support.waiting import eventually

END = 90.0


async def test_thirty_jobs_on_two_workers_run_exactly_once_though_one_worker_dies(whole: Deployment) -> None:
    whole.serve()
    workers = {name: whole.worker(name, worker_jobs=2, sample_interval=1) for name in ("w1", "w2")}
    async with whole.client() as client:
        slow = await client.submit("slow", recordset="DS-TWO", params={"seconds": 6})
        await eventually(lambda: _claimed_by(workers, slow), within=30, what="a worker holds the slow job")
        victim = _claimed_by(workers, slow)
        jobs = [await client.submit("noop", recordset="DS-TWO") for _ in range(30)]
        workers[victim].kill()
        ended = [await client.wait(job["id"], timeout=END) for job in [slow, *jobs]]
    assert [job["state"] for job in ended] == ["complete"] * 31
    assert ended[0]["attempt"] == 2
    finished = [
        line["stem"]
        for worker in workers.values()
        for line in _events(worker, "run_finished")
        if line["end"] == "complete"
    ]
    lost = {job["id"] for job in ended if job["attempt"] > 1}
    for job in ended:
        stem = f"{job['title']}.{job['id']}"
        assert finished.count(stem) == 1 or job["id"] in lost
    await eventually(lambda: not _containers(), within=40, what="the dead worker's container ends")


def _claimed_by(workers: dict[str, Running], job: JobJson) -> str:
    stem = f"{job['title']}.{job['id']}"
    claims = {
        name: [line for line in _events(worker, "package_claimed") if line["stem"] == stem]
        for name, worker in workers.items()
    }
    return next((name for name, lines in claims.items() if lines), "")


def _events(process: Running, event: str) -> list[dict[str, object]]:
    lines = [line for line in process.log.splitlines() if line.startswith("{")]
    return [found for line in lines if (found := json.loads(line))["event"] == event]


def _containers() -> list[str]:
    import subprocess

    command = ["docker", "ps", "--quiet", "--filter", "label=aioanalysis=run"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


FAILURES = [
    ("fail_stage3", "stage", "container exited with code 3"),
    ("bad_image", "image", "does not build"),
    ("oom", "out_of_memory", "out of memory"),
    ("vanished", "method", "vanished"),
]


async def test_each_failure_ends_with_its_reason_and_the_worker_goes_on(whole: Deployment) -> None:
    methods = Path(whole.environment["AIOANALYSIS_METHODS_DIR"])
    shutil.copytree(methods / "noop", methods / "vanished")
    whole.serve()
    async with whole.client() as client:
        jobs = {title: await client.submit(title, recordset="DS-TWO") for title, _, _ in FAILURES}
        last = await client.submit("noop", recordset="DS-TWO")
        await eventually(lambda: _all_queued(client, [*jobs.values(), last]), within=30)
        shutil.rmtree(methods / "vanished")
        worker = whole.worker()
        for title, reason, text in FAILURES:
            job = await client.wait(jobs[title]["id"], timeout=END)
            assert job["state"] == "failed", job
            assert job["error"] is not None
            assert job["error"]["reason"] == reason
            assert text in job["error"]["message"]
            target = whole.folder / f"{title}.zip"
            await client.result(job["id"], target, failed=True)
            with zipfile.ZipFile(target) as package:
                assert package.testzip() is None
        stage = (await client.job(jobs["fail_stage3"]["id"]))["error"] or {}
        assert stage["script"] == "3_analyse.sh"
        assert "no two sequences overlap" in stage["error"]
        assert (await client.wait(last["id"], timeout=END))["state"] == "complete"
    assert worker.process.poll() is None


async def _all_queued(client: object, jobs: list[JobJson]) -> bool:
    states = [(await client.job(job["id"]))["state"] for job in jobs]  # type: ignore[attr-defined]
    return states == ["queued"] * len(jobs)


async def test_records_that_are_not_to_be_had_fail_the_job_with_the_stores_reason(quick: Deployment) -> None:
    quick.add_records("DS-BROKEN", '{"record_id": "A"}\nnot json\n')
    quick.serve()
    async with quick.client() as client:
        missing = await client.wait((await client.submit("noop", recordset="DS-NONE"))["id"], timeout=20)
        broken = await client.wait((await client.submit("noop", recordset="DS-BROKEN"))["id"], timeout=20)
        none_left = await client.submit("noop", recordset="DS-TWO", selection={"include": ["A-9"]})
        emptied = await client.wait(none_left["id"], timeout=20)
    for job, text in ((missing, "DS-NONE"), (broken, "line 2"), (emptied, "after the selection")):
        assert job["state"] == "failed"
        assert job["error"] is not None
        assert job["error"]["reason"] == "records"
        assert text in job["error"]["message"]


async def test_a_package_without_its_inputs_fails_with_404(quick: Deployment) -> None:
    """Put into the queue by hand, as an older tool would."""
    import io
    import tarfile

    quick.serve()
    async with quick.client() as client:
        job = await client.submit("noop", recordset="DS-TWO")
        queue = quick.folder / "storage" / "queue"
        package = queue / f"noop.{job['id']}.tar"
        await eventually(package.exists, within=20)
        await eventually(lambda: _all_queued(client, [job]), within=20)
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as tar:
            info = tarfile.TarInfo(f"noop.{job['id']}/params.json")
            info.size = 2
            tar.addfile(info, io.BytesIO(b"{}"))
        package.unlink()
        package.write_bytes(out.getvalue())
        quick.worker()
        ended = await client.wait(job["id"], timeout=60)
    assert ended["state"] == "failed"
    assert ended["error"] is not None
    assert ended["error"]["reason"] == "input"
    assert "404" in ended["error"]["message"]


async def test_another_users_job_is_not_there(quick: Deployment) -> None:
    quick.serve()
    async with quick.client() as ada, quick.client("bob") as bob, quick.client("root") as root:
        job = await ada.submit("noop", recordset="DS-TWO")
        with pytest.raises(ApiProblem) as refused:
            await bob.job(job["id"])
        assert refused.value.status == 404
        assert await bob.jobs() == []
        assert [found["id"] for found in await root.jobs()] == [job["id"]]


async def test_a_worker_run_once_tells_by_its_exit_code(quick: Deployment) -> None:
    quick.serve()
    assert quick.worker("w0", "--once").process.wait(30) == 0
    async with quick.client() as client:
        good = await client.submit("noop", recordset="DS-TWO")
        await eventually(lambda: _all_queued(client, [good]), within=20)
        assert quick.worker("w1", "--once").process.wait(30) == 0
        bad = await client.submit("fail_stage3", recordset="DS-TWO")
        await eventually(lambda: _all_queued(client, [bad]), within=20)
        assert quick.worker("w2", "--once").process.wait(30) == 1
    assert quick.worker("w3", "--once", storage_directory="").process.wait(30) == 2
    await asyncio.sleep(0)
