"""A run that fills the worker's disk: a small file system of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from aioanalysis.domain.exchange import Container, Ending, worker_name
from aioanalysis.domain.outcomes import Reason
from tests.support.packages import enqueue, new_stem, read_blob, zip_of
from tests.support.parts import lacking
from tests.support.runs import write_method
from tests.support.waiting import eventually
from tests.support.workers import Parts, worker_parts

SIZE = 24 << 20
FILL = """
print("filling", flush=True)
with open("filling", "wb", buffering=0) as file:
    while True:
        file.write(b"x" * 65536)
"""
FILL_AND_GO_ON = """
try:
    with open("filling", "wb", buffering=0) as file:
        while True:
            file.write(b"x" * 65536)
except OSError:
    pass
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MiB."""
    if os.getuid() != 0:
        pytest.skip("only root can mount a file system: sudo scripts/test")
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", place], capture_output=True, text=True
    )
    if done.returncode:
        lacking(f"no file system can be mounted here: {done.stderr}")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture(params=["process", "docker"])
async def parts(request: pytest.FixtureRequest, tmp_path: Path, small_disk: Path) -> AsyncIterator[Parts]:
    settings = {"runtime": request.param}
    if request.param == "docker":
        base = request.getfixturevalue("base_image")
        engine = request.getfixturevalue("docker_engine")
        settings |= {"docker_host": engine, "base_image": base, "build_network": "none"}
    methods = tmp_path / "methods"
    write_method(methods, "filling", {3: FILL})
    write_method(methods, "careless", {3: FILL_AND_GO_ON})
    write_method(methods, "modest")
    async with worker_parts(tmp_path, data_dir=small_disk, methods_dir=methods, **settings) as parts:
        yield parts


@pytest.mark.parametrize("title", ["filling", "careless"])
async def test_a_run_that_fills_the_disk_ends_for_that_and_the_next_job_runs(
    parts: Parts, small_disk: Path, title: str
) -> None:
    stem = await enqueue(parts.storage, new_stem(title))
    after = await enqueue(parts.storage, new_stem("modest"))
    async with parts.worker():
        sidecar = await parts.ended(stem, within=60)
        assert sidecar.error is not None
        assert sidecar.error.reason is Reason.DISK, sidecar.error
        package = await zip_of(parts.storage, stem, Ending.FAILED)
        assert package.testzip() is None
        assert (await parts.ended(after, within=60)).error is None


async def test_a_disk_that_others_fill_stops_claiming_and_room_starts_it_again(
    parts: Parts, small_disk: Path
) -> None:
    filling = small_disk / "filling"
    filling.write_bytes(bytes(SIZE - (4 << 20)))

    async def state() -> str | None:
        if await parts.storage.stat(Container.RESULTS, worker_name("w")) is None:
            return None
        return str(json.loads(await read_blob(parts.storage, worker_name("w")))["state"])

    async def is_low() -> bool:
        return await state() == "low_disk"

    async with parts.worker(disk_reserve_bytes=8 << 20):
        stem = await enqueue(parts.storage, new_stem("modest"))
        await eventually(is_low, within=20, every=0.1)
        assert await parts.storage.stat(Container.QUEUE, f"{stem}.tar") is not None
        filling.unlink()
        assert (await parts.ended(stem)).error is None
