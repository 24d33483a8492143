"""Child processes as a runtime: what a crash of the worker leaves is found, and what auto chooses."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import structlog

from aioanalysis.errors import Unavailable
from aioanalysis.methods import load_method
from aioanalysis.runtime.opening import open_runtime
from aioanalysis.runtime.process import ProcessRuntime, open_process_runtime
from aioanalysis.runtime.processes import MARK
from aioanalysis.settings import Settings, load
from tests.support.runs import LABEL, METHODS, job_directory, printed, run_spec
from tests.support.waiting import eventually

WORKER = """
import asyncio, os, sys
from pathlib import Path
from aioanalysis.methods import load_method
from aioanalysis.runtime.process import ProcessRuntime
from tests.support.runs import METHODS, run_spec

async def main():
    runtime = ProcessRuntime(Path(sys.argv[1]))
    method = await load_method(METHODS, "slow")
    spec = run_spec(method, Path(sys.argv[2]), label="crashed", name="orphan")
    await runtime.start(await runtime.build(method), spec)
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


async def orphan(tmp_path: Path, seconds: float) -> tuple[ProcessRuntime, Path]:
    """A runtime after a worker that was killed while its run went on."""
    job_dir = job_directory(tmp_path, {"seconds": seconds})
    command = [sys.executable, "-c", WORKER, str(tmp_path / "runs"), str(job_dir)]
    ended = await asyncio.to_thread(subprocess.run, command, cwd=METHODS.parents[2], timeout=30)
    assert ended.returncode == -signal.SIGKILL
    return ProcessRuntime(tmp_path / "runs"), job_dir


def marked(tmp_path: Path) -> list[int]:
    """Processes that carry the mark of a run in `tmp_path`."""
    marks = {json.loads(note.read_text())["mark"] for note in (tmp_path / "runs").glob("*.json")}
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) in marks:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


async def test_a_run_of_a_crashed_worker_is_found_sampled_and_ended(tmp_path: Path) -> None:
    runtime, job_dir = await orphan(tmp_path, 60)
    assert await runtime.leftovers(LABEL, "crashed") == ["orphan"]
    assert await eventually(lambda: runtime.sample("orphan")) is not None
    await eventually(printed(job_dir, "step 1"), within=10)
    assert marked(tmp_path)
    await runtime.kill("orphan")
    assert not marked(tmp_path)
    ended = await runtime.wait("orphan")
    assert ended.code == 143
    await runtime.remove("orphan")
    assert await runtime.leftovers(LABEL, "crashed") == []


async def test_the_end_of_another_workers_run_is_waited_for_and_its_code_read(tmp_path: Path) -> None:
    runtime, _ = await orphan(tmp_path, 1)
    async with asyncio.timeout(20):
        ended = await runtime.wait("orphan")
    assert ended.code == 0
    assert "noted of itself" in ended.detail
    assert "report written" in ended.output_tail
    assert ended.finished_at is not None
    await runtime.remove("orphan")


async def test_an_orphan_killed_before_it_could_note_its_end_has_no_code(tmp_path: Path) -> None:
    runtime, _ = await orphan(tmp_path, 60)
    for pid in marked(tmp_path):
        os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(10):
        ended = await runtime.wait("orphan")
    assert ended.code is None
    assert "unseen" in ended.detail
    await runtime.remove("orphan")


async def test_a_pid_that_was_used_again_is_not_taken_for_the_run(tmp_path: Path) -> None:
    runtime, _ = await orphan(tmp_path, 60)
    note = tmp_path / "runs/orphan.json"
    await runtime.kill("orphan")
    note.write_text(json.dumps({**json.loads(note.read_text()), "pid": os.getpid()}))
    await runtime.kill("orphan")
    await runtime.remove("orphan")
    assert psutil.pid_exists(os.getpid())


async def test_a_note_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    runtime, _ = await orphan(tmp_path, 0)
    (tmp_path / "runs/a.json").write_text("{")
    (tmp_path / "runs/b.json").write_text('{"other": 1}')
    assert await runtime.leftovers(LABEL, "crashed") == ["orphan"]
    await runtime.remove("orphan")


async def test_closing_ends_what_still_runs(tmp_path: Path) -> None:
    method = await load_method(METHODS, "slow")
    async with open_process_runtime(tmp_path / "runs") as runtime:
        spec = run_spec(method, job_directory(tmp_path, {"seconds": 60}))
        await runtime.start(await runtime.build(method), spec)
        assert marked(tmp_path)
    assert not marked(tmp_path)


# --- what the setting chooses ----------------------------------------------------------------------------


def chosen(tmp_path: Path, **more: object) -> Settings:
    return load(data_dir=tmp_path / "data", **more)


async def test_auto_takes_child_processes_and_says_so_when_no_engine_answers(tmp_path: Path) -> None:
    settings = chosen(tmp_path, docker_host=f"unix://{tmp_path}/nothing.sock")
    with structlog.testing.capture_logs() as events:
        async with open_runtime(settings) as runtime:
            assert runtime.name == "process"
    assert [(e["event"], e["log_level"], e["isolation"]) for e in events] == [
        ("no_engine", "warning", "none")
    ]


async def test_auto_does_not_wait_for_an_engine_that_never_answers(tmp_path: Path) -> None:
    settings = chosen(tmp_path, docker_host=f"unix://{tmp_path}/silent.sock")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent.sock"))
        silent.listen()
        async with asyncio.timeout(4), open_runtime(settings) as runtime:
            assert runtime.name == "process"


async def test_auto_takes_the_engine_that_answers(tmp_path: Path, docker_engine: str) -> None:
    async with open_runtime(chosen(tmp_path, docker_host=docker_engine)) as runtime:
        assert runtime.name == "docker"


async def test_docker_asked_for_is_never_replaced(tmp_path: Path) -> None:
    settings = chosen(tmp_path, runtime="docker", docker_host=f"unix://{tmp_path}/nothing.sock")
    async with open_runtime(settings) as runtime:
        with pytest.raises(Unavailable):
            await runtime.check()
    with pytest.raises(Unavailable, match="scheme"):
        async with open_runtime(chosen(tmp_path, runtime="docker", docker_host="nonsense")):
            pass
