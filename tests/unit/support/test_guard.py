"""The guard over background work, and waiting."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import eventually, until

ROOT = Path(__file__).parents[3]
CARELESS = """
import asyncio

async def test_a_task_is_left():
    asyncio.create_task(asyncio.sleep(60), name="left over")

async def test_a_session_task_may_go_on():
    asyncio.create_task(asyncio.sleep(60), name="session server")

async def test_a_task_that_is_about_to_end_is_no_leftover():
    asyncio.create_task(asyncio.sleep(0.05))

async def test_a_task_dies_unseen():
    async def die():
        raise KeyError("unseen")
    task = asyncio.create_task(die())
    await asyncio.wait([task])

def test_a_loop_of_its_own_is_watched_too():
    async def die():
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(0)
    asyncio.run(die())
"""


def test_a_test_fails_by_its_background_work(tmp_path: Path) -> None:
    (tmp_path / "test_careless.py").write_text(CARELESS)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", f"--config-file={ROOT}/pyproject.toml"]
    done = subprocess.run([*command, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=60)
    said = done.stdout
    assert "5 passed, 3 errors" in said, said
    assert "the test left tasks running:\nleft over: <coroutine object sleep" in said
    assert "KeyError('unseen')" in said
    assert "ZeroDivisionError" in said


async def test_an_error_in_a_background_task_is_seen(background_errors) -> None:
    async def fail() -> None:
        raise KeyError("unseen")

    task = asyncio.create_task(fail())
    await asyncio.wait([task])
    del task
    await eventually(lambda: background_errors.texts)
    assert "unseen" in background_errors.texts[0]
    background_errors.clear()


async def test_an_error_in_a_callback_is_seen(background_errors) -> None:
    asyncio.get_running_loop().call_soon(lambda: 1 / 0)
    await eventually(lambda: background_errors.texts)
    assert "ZeroDivisionError" in background_errors.texts[0]
    background_errors.clear()


async def test_eventually_returns_what_it_waited_for() -> None:
    answers = iter([None, 0, "yes"])
    assert await eventually(lambda: next(answers)) == "yes"

    async def soon() -> list[int]:
        return [1]

    assert await eventually(soon) == [1]


async def test_eventually_takes_a_failed_assertion_for_not_yet() -> None:
    def never() -> bool:
        raise AssertionError("still two left")

    with pytest.raises(AssertionError, match=r"not within 0\.05 s: .*never; last: still two left"):
        await eventually(never, within=0.05)


def test_until_waits_without_a_loop() -> None:
    answers = iter([0, 1])
    assert until(lambda: next(answers)) == 1
    with pytest.raises(AssertionError, match="not within 0 s: a thing; last: None"):
        until(lambda: None, within=0, what="a thing")
