"""The compose stack as operators start it, of images made here: a job through it, and what it promises."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from aioanalysis import __version__
from aioanalysis.client import AnalysisClient, open_client
from aioanalysis.errors import AnalysisError
from tests.support.composechaos import restart
from tests.support.composestack import Stack, composed, output
from tests.support.flow import Flow, Restart, problems
from tests.support.parts import require
from tests.support.readme import README, blocks
from tests.support.waiting import eventually

OURS = ("api", "worker")
ALERTS = Path(__file__).parents[2] / "aioanalysis" / "operating" / "alerts.yaml"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, base_image: str) -> Iterator[Stack]:
    script = require("compose")
    require("redis-server")
    require("azurite")
    with composed(script, tmp_path_factory.mktemp("compose")) as stack:
        yield stack


def test_secrets_are_fresh_and_nobody_elses(stack: Stack) -> None:
    file = Path(stack.environment["COMPOSE_ENV"])
    assert file.stat().st_mode & 0o077 == 0
    before = file.read_text()
    assert "AIOANALYSIS_JOB_KEY_SECRET=" in before
    stack.run("config")
    assert file.read_text() == before


async def test_a_job_runs_through_the_stack_and_outlives_a_killed_job_store(
    stack: Stack, tmp_path: Path
) -> None:
    key = stack.run("exec", "-T", "api", "aioanalysis", "keys", "add", "ada").strip()
    async with open_client(stack.server, key) as client:
        job = await client.submit("noop", recordset="records")
        ended = await client.wait(job["id"], timeout=60)
        assert ended["state"] == "complete", ended
        await client.result(job["id"], tmp_path / "result.zip")
        with zipfile.ZipFile(tmp_path / "result.zip") as package:
            assert package.testzip() is None

        output("docker", "kill", *stack.containers("redis"))
        stack.run("up", "--detach", "redis")
        await eventually(lambda: _is_complete(client, job["id"]), within=20, what="the job is there again")


async def _is_complete(client: AnalysisClient, job_id: str) -> bool:
    try:
        return (await client.job(job_id))["state"] == "complete"
    except AnalysisError:
        return False


async def test_every_container_is_well_and_says_so(stack: Stack) -> None:
    well = {
        "redis": "healthy",
        "api": "healthy",
        "worker": "healthy",
        "azurite": "running 0",
        "containers": "exited 0",
    }
    await eventually(lambda: stack.states() == well, within=45, every=1, what="all containers are healthy")


@pytest.mark.parametrize(("service", "process"), [("api", "serve"), ("worker", "worker")])
def test_the_doctor_finds_nothing_wrong_in_it(stack: Stack, service: str, process: str) -> None:
    found = json.loads(stack.inside(service, "aioanalysis", "doctor", process, "--json"))
    assert [f for f in found["findings"] if f["status"] == "wrong"] == []
    assert found["well"]


@pytest.mark.parametrize("service", ["api", "worker", "redis", "azurite"])
def test_no_process_can_change_its_image_or_gain_privileges(stack: Stack, service: str) -> None:
    folder = "/opt/aioanalysis" if service in OURS else "/"
    touched = stack.inside(service, "sh", "-c", f"touch {folder}/x 2>&1 || true")
    assert "Read-only file system" in touched
    assert "NoNewPrivs:\t1\n" in stack.inside(service, "cat", "/proc/self/status")


@pytest.mark.parametrize("service", OURS)
def test_our_processes_are_not_root_and_have_no_capabilities(stack: Stack, service: str) -> None:
    assert stack.inside(service, "id", "-u").strip() == "10001"
    assert "CapBnd:\t0000000000000000\n" in stack.inside(service, "cat", "/proc/self/status")


def test_the_image_says_what_it_is_and_of_which_version(stack: Stack) -> None:
    image = stack.environment["SERVICE_IMAGE"]
    labels = json.loads(output("docker", "image", "inspect", "--format", "{{json .Config.Labels}}", image))
    told = {name.removeprefix("org.opencontainers.image."): value for name, value in labels.items()}
    assert told["title"] == "aioanalysis"
    assert told["version"] == __version__ == stack.inside("api", "aioanalysis", "--version").split()[-1]
    assert told["licenses"] == "MIT"


def test_the_image_hands_out_what_operators_need(stack: Stack) -> None:
    assert stack.inside("api", "aioanalysis", "operating", "alerts.yaml") == ALERTS.read_text()


async def test_the_job_store_is_restored_by_the_commands_of_the_readme(stack: Stack, tmp_path: Path) -> None:
    backup, restore = (
        b for b in blocks(README.read_text(), "### Backup and restore") if "scripts/compose" in b
    )
    key = stack.run("exec", "-T", "api", "aioanalysis", "keys", "add", "eve").strip()
    async with open_client(stack.server, key, patience=60) as client:
        held = await client.submit("noop", recordset="records", hold=True)
        typed(stack, backup, tmp_path)
        after = await client.wait((await client.submit("noop", recordset="records"))["id"], timeout=60)
        assert after["state"] == "complete"
        typed(stack, restore, tmp_path)
        await eventually(client.ready, within=60, every=0.5, what="the stack is ready")
        assert {job["id"] for job in await client.jobs()} == {held["id"]}
        assert after["id"] in json.loads(stack.inside("api", "aioanalysis", "rebuild", "--json"))["made"]
        assert (await client.wait(after["id"], timeout=30))["state"] == "complete"
        await client.action(held["id"], "unblock")
        assert (await client.wait(held["id"], timeout=60))["state"] == "complete"


def typed(stack: Stack, block: str, folder: Path) -> None:
    """Type a block of the README into a shell in `folder`."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.replace("scripts/compose", shlex.quote(stack.script))],
        cwd=folder,
        env={**os.environ, **stack.environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


async def test_api_and_worker_restarted_under_jobs_end_in_order_and_lose_nothing(
    stack: Stack, tmp_path: Path
) -> None:
    began = time.time()
    key = stack.run("exec", "-T", "api", "aioanalysis", "keys", "add", "bob").strip()

    def restarted(service: str) -> Restart:
        return lambda: asyncio.to_thread(restart, stack, service)

    async with open_client(stack.server, key, patience=60) as client:
        flow = Flow(
            clients=[client],
            title="slow",
            recordset="records",
            params={"seconds": 2},
            folder=tmp_path,
            count=5,
            at_once=5,
        )
        jobs = await flow.through([restarted("worker"), restarted("api")])
        assert await problems(client, jobs) == []
    assert {service: exit_codes(stack, service, since=began) for service in OURS} == {
        "api": [0],
        "worker": [0],
    }


def exit_codes(stack: Stack, service: str, *, since: float) -> list[int]:
    """How the processes of a service's container have ended."""
    told = output(
        *("docker", "events", "--since", f"{since:.3f}", "--until", f"{time.time():.3f}"),
        *("--filter", f"container={stack.containers(service)[0]}", "--filter", "event=die"),
        *("--format", "{{.Actor.Attributes.exitCode}}"),
    )
    return [int(code) for code in told.split()]
