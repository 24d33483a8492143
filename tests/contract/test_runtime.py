"""What every runtime keeps: the docker engine and child processes pass the same suite."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from aioanalysis.errors import MethodFailure, Unavailable
from aioanalysis.interfaces import Exit, MethodDirectory, Runtime
from aioanalysis.methods import load_method
from aioanalysis.runtime.engine import open_engine
from aioanalysis.runtime.opening import open_runtime
from aioanalysis.settings import Settings, load
from tests.support.runs import LABEL, METHODS, job_directory, printed, remove_images, run_spec, write_method
from tests.support.waiting import eventually

Start = Callable[..., Awaitable[tuple[str, Path]]]


@pytest.fixture(params=["process", "docker"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    base = request.getfixturevalue("base_image") if request.param == "docker" else None
    host = request.getfixturevalue("docker_engine") if request.param == "docker" else None
    return load(
        runtime=request.param,
        docker_host=host,
        base_image=base,
        build_network="none",
        data_dir=tmp_path / "data",
        methods_dir=METHODS,
    )


@pytest.fixture
async def runtime(settings: Settings, unique: str) -> AsyncIterator[Runtime]:
    async with open_runtime(settings) as runtime:
        yield runtime
        for run in await runtime.leftovers(LABEL, unique):
            await runtime.remove(run)
    if settings.runtime == "docker":
        async with open_engine(settings.docker_host) as engine:
            await remove_images(engine, unique)


@pytest.fixture
def start(runtime: Runtime, settings: Settings, tmp_path: Path, unique: str) -> Start:
    """Builds and starts a method; gives the run's id and its job directory."""

    async def start(method: str | MethodDirectory, params: Any = None, **spec: Any) -> tuple[str, Path]:
        if isinstance(method, str):
            method = await load_method(METHODS, method, base_image=settings.base_image)
        image = await runtime.build(method)
        job_dir = job_directory(tmp_path, params)
        if params is False:
            (job_dir / "params.json").unlink()
        return await runtime.start(image, run_spec(method, job_dir, label=unique, **spec)), job_dir

    return start


@pytest.fixture
def write(settings: Settings, tmp_path: Path, unique: str) -> Callable[..., Awaitable[MethodDirectory]]:
    """Writes a method of the given stages and loads it."""

    async def write(stages: dict[int, str] | None = None, **more: Any) -> MethodDirectory:
        write_method(tmp_path / "methods", unique, stages, **more)
        return await load_method(tmp_path / "methods", unique, base_image=settings.base_image)

    return write


async def finished(runtime: Runtime, run: str, *, within: float = 30) -> Exit:
    async with asyncio.timeout(within):
        return await runtime.wait(run)


async def test_check_says_what_it_is_and_processes_that_they_isolate_nothing(runtime: Runtime) -> None:
    said = await runtime.check()
    assert ("nothing is isolated" in said) if runtime.name == "process" else ("Docker engine" in said)


async def test_a_run_that_succeeds_exits_with_0_and_leaves_its_report(runtime: Runtime, start: Start) -> None:
    run, job_dir = await start("noop")
    ended = await finished(runtime, run)
    assert (ended.code, ended.out_of_memory, ended.detail) == (0, False, "")
    assert "report written, 1 records" in ended.output_tail
    assert ended.started_at is not None
    assert ended.finished_at is not None
    assert ended.started_at <= ended.finished_at
    assert "Records: 1" in (job_dir / "analysis_report.html").read_text()


async def test_a_stage_that_fails_ends_the_run_with_its_number(runtime: Runtime, start: Start) -> None:
    run, job_dir = await start("fail_stage3")
    assert (await finished(runtime, run)).code == 3
    assert json.loads((job_dir / "error.json").read_text())["script"].startswith("3_")


async def test_a_package_without_params_exits_with_the_low_bits_of_404(
    runtime: Runtime, start: Start
) -> None:
    run, _ = await start("noop", False)
    assert (await finished(runtime, run)).code == 404 & 0xFF


async def test_waiting_may_be_cancelled_and_repeated(runtime: Runtime, start: Start) -> None:
    run, _ = await start("slow", {"seconds": 1})
    waits = [asyncio.create_task(runtime.wait(run)) for _ in range(3)]
    await asyncio.sleep(0)
    waits[0].cancel()
    ends = await asyncio.gather(*waits, return_exceptions=True)
    assert isinstance(ends[0], asyncio.CancelledError)
    assert [end.code for end in ends[1:]] == [0, 0]  # type: ignore[union-attr]
    assert (await finished(runtime, run)).code == 0


async def test_a_running_run_gives_samples_whose_totals_grow(
    runtime: Runtime, start: Start, write: Any
) -> None:
    busy = await write(
        {1: "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'while True: 1'])\n"}
    )
    run, _ = await start(busy)
    first = await eventually(lambda: runtime.sample(run), within=10)

    async def grown() -> bool:
        later = await runtime.sample(run)
        assert later is not None
        assert later.cpu_seconds is not None
        return later.cpu_seconds > (first.cpu_seconds or 0) + 0.2 and later.at > first.at

    await eventually(grown, within=10)
    assert first.memory_bytes is not None
    assert 100_000 < first.memory_bytes < 2**31


async def test_there_is_no_sample_of_a_run_that_ended_was_removed_or_never_was(
    runtime: Runtime, start: Start
) -> None:
    run, _ = await start("noop")
    await finished(runtime, run)
    assert await runtime.sample(run) is None
    await runtime.remove(run)
    assert await runtime.sample(run) is None
    assert await runtime.sample("nosuchrun") is None


async def test_a_kill_ends_the_run_within_three_seconds_and_may_be_repeated(
    runtime: Runtime, start: Start
) -> None:
    run, job_dir = await start("slow", {"seconds": 60})
    await eventually(printed(job_dir, "step 1"), within=10)
    began = time.monotonic()
    await runtime.kill(run)
    ended = await finished(runtime, run)
    assert time.monotonic() - began < 3
    assert ended.code not in {0, None}
    await runtime.kill(run)
    await runtime.remove(run)
    await runtime.kill(run)


STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
stubborn = "import os, signal, time; signal.signal(15, signal.SIG_IGN); open('pid', 'w').write('x');"
beat = "\\nwhile True: time.sleep(0.05); open('beat', 'w').write(str(time.time()))"
subprocess.Popen([sys.executable, "-c", stubborn + beat], start_new_session=True)
print("going", flush=True)
time.sleep(60)
"""


async def test_a_kill_reaches_processes_that_ignore_sigterm_and_left_their_session(
    runtime: Runtime, start: Start, write: Any
) -> None:
    run, job_dir = await start(await write({2: STUBBORN}))
    await eventually(lambda: (job_dir / "beat").exists(), within=10)
    began = time.monotonic()
    await runtime.kill(run)
    assert time.monotonic() - began < 5
    assert (await finished(runtime, run)).code not in {0, None}
    last = (job_dir / "beat").stat().st_mtime_ns
    with pytest.raises(AssertionError):
        await eventually(lambda: (job_dir / "beat").stat().st_mtime_ns != last, within=0.3)


async def test_leftovers_are_found_by_label_running_or_ended_until_removed(
    runtime: Runtime, start: Start, unique: str
) -> None:
    ended, _ = await start("noop")
    await finished(runtime, ended)
    running, _ = await start("slow", {"seconds": 60})
    assert set(await runtime.leftovers(LABEL, unique)) == {ended, running}
    assert await runtime.leftovers(LABEL, "another") == []
    assert await runtime.leftovers("another", unique) == []
    await runtime.remove(ended)
    assert await runtime.leftovers(LABEL, unique) == [running]
    await runtime.remove(running)
    assert await runtime.leftovers(LABEL, unique) == []


async def test_a_removed_run_has_vanished_for_who_waits_and_removal_may_be_repeated(
    runtime: Runtime, start: Start
) -> None:
    run, _ = await start("slow", {"seconds": 60})
    began = time.monotonic()
    await asyncio.gather(runtime.remove(run), runtime.remove(run), runtime.remove(run))
    assert time.monotonic() - began < 5
    ended = await finished(runtime, run)
    assert ended.code is None
    assert ended.detail
    await runtime.remove(run)


async def test_a_name_that_a_crash_left_behind_is_taken_over(
    runtime: Runtime, start: Start, unique: str
) -> None:
    former, _ = await start("slow", {"seconds": 60}, name=f"aa-{unique}")
    run, _ = await start("noop", name=f"aa-{unique}")
    assert (await finished(runtime, run)).code == 0
    assert await runtime.leftovers(LABEL, unique) == [run]
    if former != run:
        assert (await finished(runtime, former)).code is None


async def test_a_run_whose_worker_shows_no_life_ends_by_itself(runtime: Runtime, start: Start) -> None:
    run, job_dir = await start("slow", {"seconds": 60}, alive_seconds=1)
    ended = await finished(runtime, run, within=10)
    assert ended.code == 75
    assert json.loads((job_dir / "status.json").read_text())["reason"] == "lease"


async def test_a_start_cancelled_at_any_moment_leaves_nothing(
    runtime: Runtime, start: Start, unique: str
) -> None:
    run, _ = await start("noop")
    await runtime.remove(run)
    for milliseconds in (0, 1, 5, 20, 60, 150):
        task = asyncio.create_task(start("slow", {"seconds": 60}))
        await asyncio.wait([task], timeout=milliseconds / 1000)
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            await runtime.remove(task.result()[0])
        assert await runtime.leftovers(LABEL, unique) == []


async def test_stages_import_what_the_methods_share(
    runtime: Runtime, start: Start, write: Any, tmp_path: Path
) -> None:
    (tmp_path / "methods/_shared").mkdir(parents=True)
    (tmp_path / "methods/_shared/sharing.py").write_text("WORD = 'shared word'\n")
    run, _ = await start(await write({1: "import sharing; print(sharing.WORD)\n"}))
    ended = await finished(runtime, run)
    assert ended.code == 0, ended
    assert "shared word" in ended.output_tail


async def test_a_run_sees_nothing_of_the_workers_environment(
    runtime: Runtime, start: Start, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOANALYSIS_SYSTEM_TOKEN", "very secret")
    run, _ = await start(await write({1: "import os; print(dict(os.environ))\n"}))
    ended = await finished(runtime, run)
    assert "JOB_DIR" in ended.output_tail
    assert "very secret" not in ended.output_tail


async def test_what_a_run_prints_without_end_is_kept_short(
    runtime: Runtime, start: Start, write: Any
) -> None:
    run, _ = await start(await write({1: "for i in range(100_000): print('x' * 200, i)\n"}))
    ended = await finished(runtime, run)
    assert ended.code == 0
    assert len(ended.output_tail) <= 64 * 1024


async def test_runs_side_by_side_do_not_meet(runtime: Runtime, start: Start) -> None:
    runs = await asyncio.gather(start("noop"), start("fail_stage3"), start("noop"))
    ends = await asyncio.gather(*(finished(runtime, run) for run, _ in runs))
    assert [end.code for end in ends] == [0, 3, 0]


async def test_a_run_that_cannot_be_started_says_why_and_leaves_nothing(
    runtime: Runtime, settings: Settings, tmp_path: Path, unique: str
) -> None:
    method = await load_method(METHODS, "noop", base_image=settings.base_image)
    image = await runtime.build(method)
    spec = run_spec(method, tmp_path / "nowhere", label=unique)
    with pytest.raises((MethodFailure, Unavailable), match=r"job directory|does not start"):
        await runtime.start(image, spec)
    assert await runtime.leftovers(LABEL, unique) == []
