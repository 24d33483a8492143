"""The compose stack as operators start it, of images made here: a job through it, and what it promises."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from aioanalysis.client import AnalysisClient, open_client
from aioanalysis.errors import AnalysisError
from tests.support.parts import require
from tests.support.servers import free_port
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Stack:
    """One compose project."""

    script: str
    project: str
    port: int
    environment: dict[str, str]

    @property
    def server(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def run(self, *arguments: str) -> str:
        """`scripts/compose ARGUMENTS`; what it printed."""
        done = subprocess.run(
            [self.script, *arguments],
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def containers(self, service: str | None = None) -> list[str]:
        """Ids of the project's containers (or of a service's), ended ones too."""
        labels = [f"com.docker.compose.project={self.project}"]
        labels += [f"com.docker.compose.service={service}"] if service else []
        filters = [argument for label in labels for argument in ("--filter", f"label={label}")]
        return _output("docker", "ps", "--all", "--quiet", *filters).split()

    def inside(self, service: str, *command: str) -> str:
        """What a command in a service's container printed, whatever its exit code."""
        done = subprocess.run(
            ["docker", "exec", self.containers(service)[0], *command],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.stdout

    def states(self) -> dict[str, str]:
        """By service its container's health, or its state where it has none."""
        template = (
            '{{index .Config.Labels "com.docker.compose.service"}} '
            "{{if .State.Health}}{{.State.Health.Status}}{{else}}{{.State.Status}} {{.State.ExitCode}}{{end}}"
        )
        lines = _output("docker", "inspect", "--format", template, *self.containers()).splitlines()
        return dict(line.split(" ", 1) for line in lines)


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, base_image: str) -> Iterator[Stack]:
    script = require("compose")
    require("redis-server")
    require("azurite")
    _output(str(ROOT / "scripts" / "local-images"))
    folder = tmp_path_factory.mktemp("compose")
    project, port = f"aioanalysis-test-{os.getpid()}", free_port()
    environment = {
        "COMPOSE_ENV": str(folder / "compose.env"),
        "COMPOSE_PROJECT_NAME": project,
        "SERVICE_IMAGE": "aioanalysis:local",
        "REDIS_IMAGE": "aioanalysis-redis:local",
        "AZURITE_IMAGE": "aioanalysis-azurite:local",
        "METHODS": str(ROOT / "tests" / "support" / "methods"),
        "PUBLISH": f"127.0.0.1:{port}",
    }
    stack = Stack(script, project, port, environment)
    stack.run("config")  # makes compose.env
    with (folder / "compose.env").open("a") as file:
        file.write(f"AIOANALYSIS_BASE_IMAGE={base_image}\nAIOANALYSIS_BUILD_NETWORK=none\n")
    try:
        stack.run("up", "--detach")
        yield stack
    finally:
        stack.run("down", "--volumes", "--timeout", "10")


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

        _output("docker", "kill", *stack.containers("redis"))
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


@pytest.mark.parametrize("service", ["api", "worker"])
def test_the_processes_are_not_root_and_cannot_change_their_image(stack: Stack, service: str) -> None:
    assert stack.inside(service, "id", "-u").strip() == "10001"
    touched = stack.inside(service, "sh", "-c", "touch /opt/aioanalysis/x 2>&1 || true")
    assert "Read-only file system" in touched
