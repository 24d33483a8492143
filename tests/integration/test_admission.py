"""Admission to a host: reservations of one or several processes, and a worker that waits for room."""

from __future__ import annotations

import asyncio
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from aioanalysis.settings import Settings, load
from aioanalysis.worker.admission import Admission
from tests.support.packages import enqueue, new_stem
from tests.support.runs import write_method
from tests.support.workers import worker_parts

GIB = 1 << 30
HOLD = """
import asyncio, sys
from pathlib import Path
from aioanalysis.settings import load
from aioanalysis.worker.admission import Admission
data, methods = map(Path, sys.argv[1:])
settings = load(data_dir=data, methods_dir=methods, host_memory_bytes=4 << 30, host_cpus=4)
admission = Admission(settings)
print(asyncio.run(admission.reserve("big.other")), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    methods = tmp_path / "methods"
    write_method(methods, "small", limits={"memory_bytes": GIB, "cpus": 1})
    write_method(methods, "big", limits={"memory_bytes": 3 * GIB, "cpus": 2})
    write_method(methods, "huge", limits={"memory_bytes": 64 * GIB, "cpus": 64})
    return load(
        data_dir=tmp_path / "data",
        methods_dir=methods,
        host_memory_bytes=4 * GIB,
        host_cpus=4,
        run_memory_bytes=64 * GIB,
        run_cpus=64,
    )


async def test_runs_are_admitted_while_the_sum_of_their_limits_fits(settings: Settings) -> None:
    first, second = Admission(settings), Admission(settings)
    assert await first.reserve("big.1")
    assert await second.reserve("small.1")
    assert not await second.reserve("small.2")  # 5 GiB
    assert await second.reserve("absent.1")  # it will fail, and needs nothing
    first.release("big.1")
    assert await second.reserve("small.2")
    second.release("big.1")  # not its own
    for stem in ("small.3", "small.4"):
        assert await second.reserve(stem)
    assert not await first.reserve("small.5")  # four CPUs
    for stem in ("small.1", "small.2", "small.3", "small.4", "absent.1"):
        second.release(stem)
    assert list((settings.data_dir / "room").glob("*.json")) == []


async def test_a_run_too_large_for_the_host_runs_alone(settings: Settings) -> None:
    admission = Admission(settings)
    assert await admission.reserve("huge.1")
    assert not await admission.reserve("small.1")
    admission.release("huge.1")
    assert await admission.reserve("small.1")
    assert not await admission.reserve("huge.1")
    admission.release("small.1")


async def test_another_process_counts_until_it_is_killed(settings: Settings) -> None:
    command = [sys.executable, "-c", HOLD, str(settings.data_dir), str(settings.methods_dir)]
    pipe = asyncio.subprocess.PIPE
    other = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    try:
        assert other.stdout
        assert (await other.stdout.readline()).strip() == b"True"
        admission = Admission(settings)
        assert not await admission.reserve("big.1")
    finally:
        other.kill()
        await other.wait()
    assert await admission.reserve("big.1")
    admission.release("big.1")


async def test_a_worker_with_slots_but_no_room_runs_one_at_a_time_in_order(tmp_path: Path) -> None:
    methods = tmp_path / "methods"
    note = "import time\nopen('at.txt', 'w').write(str(time.time()))\ntime.sleep(0.3)\n"
    write_method(methods, "greedy", {1: note}, limits={"cpus": 2})
    async with worker_parts(tmp_path, methods_dir=methods, worker_jobs=4, host_cpus=3) as parts:
        stems = [await enqueue(parts.storage, new_stem("greedy")) for _ in range(3)]
        bodies: list[Any] = []
        async with parts.worker():
            bodies += [(await parts.ended(stem)).body for stem in stems]
        assert [body["error"] for body in bodies] == [None] * 3
        spans = sorted((body["usage"]["started_at"], body["usage"]["finished_at"]) for body in bodies)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans)), spans
    assert list((tmp_path / "data" / "room").glob("*.json")) == []
