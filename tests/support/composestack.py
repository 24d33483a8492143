"""The compose stack of this checkout, on images made here (`scripts/local-images`)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.parts import BASE_IMAGE
from tests.support.servers import free_port

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
        return output("docker", "ps", "--all", "--quiet", *filters).split()

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
        lines = output("docker", "inspect", "--format", template, *self.containers()).splitlines()
        return dict(line.split(" ", 1) for line in lines)


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout


@contextmanager
def composed(script: str, folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[Stack]:
    """The stack, started; it ends with its volumes. `settings` are added to compose.env, kept in `folder`."""
    output(str(ROOT / "scripts" / "local-images"))
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
    more = {"AIOANALYSIS_BASE_IMAGE": BASE_IMAGE, "AIOANALYSIS_BUILD_NETWORK": "none", **(settings or {})}
    with (folder / "compose.env").open("a") as file:
        file.writelines(f"{name}={value}\n" for name, value in more.items())
    try:
        stack.run("up", "--detach")
        yield stack
    finally:
        stack.run("down", "--volumes", "--timeout", "10")
