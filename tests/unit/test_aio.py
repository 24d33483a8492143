"""Work that survives cancellation, tasks with an owner, calls in threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar

import pytest
import structlog

from aioanalysis.aio import Batched, Tasks, finish, in_thread, opened
from tests.support.waiting import eventually


class Work:
    """Something that must be written to its end."""

    def __init__(self, error: Exception | None = None) -> None:
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.done = False
        self._error = error

    async def run(self) -> str:
        self.begun.set()
        await self.go_on.wait()
        self.done = True
        if self._error:
            raise self._error
        return "written"


async def settle() -> None:
    """Let every task that can go on do so."""
    for _ in range(5):
        await asyncio.sleep(0)


# --- finish ---


async def test_finish_gives_the_result():
    work = Work()
    work.go_on.set()
    assert await finish(work.run(), name="w") == "written"


async def test_finish_raises_what_the_work_raises():
    work = Work(ValueError("disk full"))
    work.go_on.set()
    with pytest.raises(ValueError, match="disk full"):
        await finish(work.run(), name="w")


@pytest.mark.parametrize("times", [1, 2, 5])
async def test_work_goes_to_its_end_however_often_its_caller_is_cancelled(times: int):
    work = Work()
    caller = asyncio.create_task(finish(work.run(), name="w"))
    await work.begun.wait()
    for _ in range(times):
        caller.cancel()
        await settle()
        assert not caller.done()
    work.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert work.done


async def test_a_caller_cancelled_before_the_work_begins_still_does_it():
    work = Work()
    work.go_on.set()
    caller = asyncio.create_task(finish(work.run(), name="w"))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert work.done


async def test_a_cancellation_in_the_moment_of_the_works_end_is_not_swallowed():
    work = Work()
    caller = asyncio.create_task(finish(work.run(), name="w"))
    await work.begun.wait()
    work.go_on.set()
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert work.done


async def test_an_error_of_work_whose_caller_was_cancelled_is_told_as_the_cause():
    work = Work(ValueError("disk full"))
    caller = asyncio.create_task(finish(work.run(), name="w"))
    await work.begun.wait()
    caller.cancel()
    await settle()
    work.go_on.set()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await caller
    assert str(cancelled.value.__cause__) == "disk full"


@pytest.mark.parametrize("caller_too", [True, False])
async def test_work_that_is_itself_cancelled_ends_as_cancelled(caller_too: bool):
    work = Work()
    caller = asyncio.create_task(finish(work.run(), name="the last write"))
    await work.begun.wait()
    if caller_too:
        caller.cancel()
        await settle()
    (task,) = (task for task in asyncio.all_tasks() if task.get_name() == "the last write")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert not work.done


async def test_a_time_limit_around_finish_ends_after_the_work():
    work = Work()

    async def limited() -> None:
        async with asyncio.timeout(0.01):
            await finish(work.run(), name="w")

    caller = asyncio.create_task(limited())
    await eventually(lambda: caller.cancelling())
    assert not caller.done()
    work.go_on.set()
    with pytest.raises(TimeoutError):
        await caller
    assert work.done


# --- Tasks ---


async def test_leaving_ends_the_tasks_and_waits_for_their_cleaning_up():
    cleaned = []

    async def side() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await settle()
            cleaned.append(True)

    async with Tasks() as tasks:
        for n in range(3):
            tasks.start(side(), name=f"side {n}")
        await settle()
    assert cleaned == [True] * 3


async def test_a_task_that_dies_is_logged_at_once_and_reported_to_whoever_waits():
    async def dies(error: Exception) -> None:
        raise error

    with structlog.testing.capture_logs() as logged:
        async with Tasks() as tasks:
            waiting = asyncio.create_task(tasks.wait_crash())
            tasks.start(dies(ValueError("first")), name="sampler")
            assert str(await waiting) == "first"
            tasks.start(dies(ValueError("second")), name="sampler")
            await settle()
            assert str(await tasks.wait_crash()) == "second"
    assert [(entry["event"], entry["task"], str(entry["exc_info"])) for entry in logged] == [
        ("task_died", "sampler", "first"),
        ("task_died", "sampler", "second"),
    ]


async def test_tasks_that_end_well_or_are_cancelled_are_no_crash():
    async def well() -> int:
        return 5

    async with Tasks() as tasks:
        assert await tasks.start(well(), name="w") == 5
        tasks.start(asyncio.Event().wait(), name="w").cancel()
        await settle()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await tasks.wait_crash()


async def test_a_task_started_by_one_that_is_ending_ends_too():
    ended = []

    async with Tasks() as tasks:

        async def last() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("last")

        async def first() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                tasks.start(last(), name="last")
                await settle()

        tasks.start(first(), name="first")
        await settle()
    assert ended == ["last"]


async def test_cancelling_where_nothing_runs_returns():
    tasks = Tasks()
    await tasks.cancel()
    tasks.start(settle(), name="short")
    await settle()
    await settle()
    await tasks.cancel()


async def test_tasks_have_the_names_they_were_given():
    async with Tasks() as tasks:
        assert tasks.start(settle(), name="renew lease").get_name() == "renew lease"


# --- in_thread ---


async def test_a_blocking_call_runs_in_a_thread_of_ours_and_its_error_comes_back():
    def name(prefix: str, *, suffix: str) -> str:
        return prefix + threading.current_thread().name + suffix

    assert (await in_thread(name, "<", suffix=">")).startswith("<aioanalysis")

    def fails() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await in_thread(fails)


async def test_a_call_in_a_thread_sees_what_its_task_has_bound():
    bound: ContextVar[str] = ContextVar("bound")

    async def task(value: str) -> str:
        bound.set(value)
        return await in_thread(bound.get)

    assert await asyncio.gather(task("one"), task("two")) == ["one", "two"]


async def test_the_loop_goes_on_while_threads_block():
    release = threading.Event()
    waits: Callable[[], bool] = lambda: release.wait(5)  # noqa: E731
    calls = [asyncio.create_task(in_thread(waits)) for _ in range(8)]
    await settle()
    await asyncio.to_thread(lambda: None)  # asyncio's own pool is free
    release.set()
    assert all(await asyncio.gather(*calls))


class Door:
    """Something that takes a while to open, and must not be left open."""

    def __init__(self) -> None:
        self.opening = threading.Event()
        self.may_open = threading.Event()
        self.is_open = False

    def open(self) -> Door:
        self.opening.set()
        assert self.may_open.wait(5)
        self.is_open = True
        return self

    def close(self) -> None:
        self.is_open = False


async def test_what_was_opened_in_a_thread_is_open_inside_and_closed_after():
    door = Door()
    door.may_open.set()
    async with opened(door.open, Door.close) as entered:
        assert entered is door
        assert door.is_open
    assert not door.is_open


async def test_what_a_cancelled_caller_was_opening_is_closed_once_it_is_open():
    door, inside = Door(), False

    async def enter() -> None:
        nonlocal inside
        async with opened(door.open, Door.close):
            inside = True

    task = asyncio.create_task(enter())
    assert await asyncio.to_thread(door.opening.wait, 5)
    task.cancel()
    await settle()
    task.cancel()
    door.may_open.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not inside
    assert not door.is_open


async def test_what_does_not_open_is_not_closed():
    def fails() -> Door:
        raise OSError("no door")

    with pytest.raises(OSError, match="no door"):
        async with opened(fails, Door.close):
            pytest.fail("inside of nothing")


async def test_calls_for_single_things_become_few_calls_for_many() -> None:
    asked: list[list[int]] = []
    go = asyncio.Event()

    async def fetch(keys: Sequence[int]) -> list[int]:
        asked.append(list(keys))
        await go.wait()
        return [key * 10 for key in keys]

    async with Tasks() as tasks:
        batched = Batched(fetch, tasks, name="fetch", most=3)
        calls = [asyncio.create_task(batched.get(key)) for key in (1, 2, 3, 2, 4, 5)]
        await eventually(lambda: asked)
        late = asyncio.create_task(batched.get(1))
        go.set()
        assert await asyncio.gather(*calls) == [10, 20, 30, 20, 40, 50]
        assert await late == 10
        assert await batched.get(6) == 60
    assert asked == [[1, 2, 3], [4, 5, 1], [6]]  # no key twice in one call


async def test_what_is_asked_for_just_when_a_call_has_ended_is_answered() -> None:
    async def fetch(keys: Sequence[int]) -> Sequence[int]:
        return keys

    async def ask(number: int) -> int:
        for _ in range(number % 7):
            await asyncio.sleep(0)
        return await batched.get(number)

    async with Tasks() as tasks:
        batched = Batched(fetch, tasks, name="fetch", most=3)
        for _ in range(20):
            async with asyncio.timeout(5):
                assert await asyncio.gather(*map(ask, range(50))) == list(range(50))


async def test_a_call_that_fails_fails_all_who_asked_and_nobody_after_them() -> None:
    errors = [OSError("away")]

    async def fetch(keys: Sequence[str]) -> Sequence[str]:
        await asyncio.sleep(0)
        if errors:
            raise errors.pop()
        return keys

    async with Tasks() as tasks:
        batched = Batched(fetch, tasks, name="fetch", most=9)
        calls = [asyncio.create_task(batched.get(key)) for key in "abc"]
        gone = asyncio.create_task(batched.get("d"))
        await asyncio.sleep(0)
        gone.cancel()
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert [str(error) for error in found] == ["away"] * 3
        assert await batched.get("e") == "e"


async def test_whoever_waits_for_an_answer_that_cannot_come_any_more_is_let_go() -> None:
    async def fetch(keys: Sequence[str]) -> Sequence[str]:
        await asyncio.Event().wait()
        return keys

    async with Tasks() as tasks:
        batched = Batched(fetch, tasks, name="fetch", most=1)
        calls = [asyncio.create_task(batched.get(key)) for key in "ab"]
        await asyncio.sleep(0)
    found = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(error) for error in found] == [asyncio.CancelledError] * 2
