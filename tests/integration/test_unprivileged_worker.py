"""A worker as it should be run: by a user who may use the engine's socket and is not root."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from aioanalysis.domain.exchange import Sidecar
from aioanalysis.interfaces import ExchangeStorage
from aioanalysis.runtime.engine import open_engine
from aioanalysis.settings import PREFIX
from aioanalysis.worker.run import LABEL
from tests.support.exchange import LEASE_SECONDS, azurite_exchange
from tests.support.packages import enqueue, new_stem, outcome_of, zip_of
from tests.support.parts import lacking
from tests.support.runs import METHODS
from tests.support.servers import Azurite
from tests.support.waiting import eventually

USER = 4711
ROOT = Path(__file__).parents[2]


VERSION = "python{}.{}".format(*sys.version_info)


def python_for_all(path: Sequence[str], folder: Path) -> str | None:
    """A Python of our version that `USER` can run, with this package; if need be a copy in `folder`."""
    for name in (sys.executable, f"/usr/local/bin/{VERSION}", f"/usr/bin/{VERSION}", copied):
        program = str(name(folder)) if callable(name) else name
        try:
            done = subprocess.run(
                [program, "-c", "import aioanalysis.cli"],
                env=environment_of(program, path),
                user=USER,
                cwd="/",
                capture_output=True,
                timeout=60,
            )
        except OSError:
            continue
        if done.returncode == 0:
            return program
    return None


def environment_of(program: str, path: Sequence[str]) -> dict[str, str]:
    """Where it finds its packages, and its own library if it is a copy."""
    return {"PYTHONPATH": os.pathsep.join(path), "LD_LIBRARY_PATH": str(Path(program).parents[1] / "lib")}


def copied(folder: Path) -> Path:
    """Our Python without its packages, in a folder that all can read."""
    base, target = Path(sys.base_prefix), folder / "python"
    (target / "bin").mkdir(parents=True)
    shutil.copy2(Path(sys.executable).resolve(), target / "bin" / VERSION)
    ignored = shutil.ignore_patterns("site-packages", "dist-packages", "test", "__pycache__")
    shutil.copytree(base / "lib" / VERSION, target / "lib" / VERSION, ignore=ignored)
    for library in (base / "lib").glob("libpython*.so*"):
        shutil.copy2(library, target / "lib")
    return target / "bin" / VERSION


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder of that user's; pytest's own are closed to all others."""
    folder = Path(tempfile.mkdtemp(prefix="aioanalysis-unprivileged-"))
    try:
        shutil.copytree(METHODS, folder / "methods")
        os.chown(folder, USER, USER)
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def worker(home: Path, docker_engine: str, base_image: str) -> tuple[Sequence[str], Mapping[str, Any]]:
    """The command of a worker, and how to start it as that user."""
    path = [str(ROOT), sysconfig.get_paths()["purelib"]]
    if os.getuid() != 0:
        lacking("only root can start a worker as another user; this one is none itself")
    python = python_for_all(path, home)
    if python is None:
        lacking(f"user {USER} cannot read this checkout or its packages; put them where all can: {path}")
    socket = Path(docker_engine.removeprefix("unix://")).stat()
    settings = {
        "data_dir": home / "data",
        "methods_dir": home / "methods",
        "runtime": "docker",
        "docker_host": docker_engine,
        "base_image": base_image,
        "build_network": "none",
        "worker_id": "w",
        "sample_interval": 0.5,
        "poll_interval": 0.2,
        "lease_seconds": LEASE_SECONDS,
    }
    environment = {f"{PREFIX}{name.upper()}": str(value) for name, value in settings.items()}
    environment |= {"HOME": str(home), "PATH": os.environ["PATH"], **environment_of(python, path)}
    how = {"user": USER, "group": USER, "extra_groups": [socket.st_gid], "cwd": home, "env": environment}
    return [python, "-m", "aioanalysis", "worker"], how


async def ended(storage: ExchangeStorage, stem: str) -> Sidecar:
    async def look() -> Sidecar | None:
        return await outcome_of(storage, stem)

    found = await eventually(look, within=60, every=0.2, what=f"an outcome of {stem}")
    assert found is not None
    return found


async def user_of_run(address: str, key: str) -> str:
    async with open_engine(address) as engine:
        params = {"filters": json.dumps({"label": [f"{LABEL}={key}"]})}
        [container] = await engine.call("GET", "containers/json", params=params)
        facts = await engine.find(f"containers/{container['Id']}/json")
        assert facts is not None
        return str(facts["Config"]["User"])


async def test_a_worker_that_is_not_root_runs_jobs_and_clears_away_what_root_has_left_in_them(
    worker: tuple[Sequence[str], Mapping[str, Any]],
    home: Path,
    azurite: Azurite,
    unique: str,
    docker_engine: str,
) -> None:
    command, how = worker
    runs = home / "data" / "worker" / "w" / "runs"
    async with azurite_exchange(azurite, unique) as exchange:
        environment = {f"{PREFIX}{name.upper()}": str(value) for name, value in exchange.settings.items()}
        storage = exchange.storage
        stem = await enqueue(storage, new_stem("slow"), seconds=4)
        with (home / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *command, **{**how, "env": {**how["env"], **environment}}, stdout=log, stderr=log
            )
        try:
            begun = lambda: process.returncode is not None or list(runs.glob("*/job/progress.json"))  # noqa: E731
            await eventually(begun, within=60, every=0.1)
            assert process.returncode is None, (home / "log").read_text()
            [job] = runs.glob("*/job")
            (job / "rooted" / "inner").mkdir(parents=True)
            (job / "rooted" / "inner" / "file").write_text("root's")
            (job / "rooted").chmod(0o700)
            assert (
                await user_of_run(docker_engine, (home / "data/worker/w/key").read_text()) == f"{USER}:{USER}"
            )
            sidecar = await ended(storage, stem)
            assert sidecar.error is None, sidecar.error
            manifest = json.loads((await zip_of(storage, stem)).read("manifest.json"))
            assert manifest["skipped"] == [{"name": "rooted", "reason": "cannot be read: Permission denied"}]
            assert (await ended(storage, await enqueue(storage))).error is None
            await eventually(lambda: not list(runs.iterdir()), within=60, every=0.2)
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(60):
                code = await process.wait()
        assert code == 0, (home / "log").read_text()
