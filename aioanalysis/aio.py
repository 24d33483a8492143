"""What asyncio leaves to us: named and owned tasks, work that survives cancellation, and our own threads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_pool = ThreadPoolExecutor(max_workers=8, thread_name_prefix="aioanalysis")


async def in_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking call in our own pool (asyncio's is left to DNS and files), with the caller's context."""
    call = partial(copy_context().run, function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_pool, call)


async def finish(work: Coroutine[Any, Any, T], *, name: str) -> T:
    """Run `work` to its end even if the caller is cancelled meanwhile; the cancellation follows after it.

    An error of `work` is then the cancellation's cause.
    """
    task = asyncio.create_task(work, name=name)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled from (None if task.cancelled() else task.exception())
    return task.result()


@asynccontextmanager
async def opened(open_: Callable[[], T], close: Callable[[T], object]) -> AsyncIterator[T]:
    """What the blocking `open_` gives, for `close` in the end: both in our threads.

    It is closed after a call that may still be under way there, and also when the caller is cancelled while
    it opens, when nobody else would have it.
    """
    opening = asyncio.create_task(in_thread(open_), name="open")

    async def end() -> None:
        await asyncio.wait([opening])
        if opening.exception() is None:
            await in_thread(close, opening.result())

    try:
        yield await asyncio.shield(opening)
    finally:
        await finish(end(), name="close")


class Tasks:
    """Side tasks with an owner: leaving the context cancels and awaits them; one that dies is logged at once.

    Whoever owns the process waits on `wait_crash`.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._crash: asyncio.Queue[BaseException] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.cancel()

    def start(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            from aioanalysis import logs  # a tenth of the client's import, which has no use for it

            logs.get().error("task_died", task=task.get_name(), exc_info=error)
            self._crash.put_nowait(error)

    async def wait_crash(self) -> BaseException:
        """Return the exception of the next task that dies, or has died."""
        return await self._crash.get()

    async def cancel(self) -> None:
        """Cancel all, and wait until they have ended, with those that they start meanwhile."""
        while running := [task for task in self._tasks if not task.done()]:
            for task in running:
                task.cancel()
            await asyncio.wait(running)


class Batched(Generic[K, V]):
    """Makes few calls for many things out of many calls for one.

    What is asked for while a call is under way goes into the next. `fetch` gives a value for each key, in
    order; what it raises comes to all that have asked. The calls are made in tasks of `tasks`.
    """

    def __init__(
        self, fetch: Callable[[Sequence[K]], Awaitable[Sequence[V]]], tasks: Tasks, *, name: str, most: int
    ) -> None:
        self._fetch = fetch
        self._tasks = tasks
        self._name = name
        self._most = most
        self._wanted: dict[K, list[asyncio.Future[V]]] = {}
        self._asked: dict[K, list[asyncio.Future[V]]] = {}
        self._busy = False

    async def get(self, key: K) -> V:
        """The value as it is after this call; may be cancelled."""
        future: asyncio.Future[V] = asyncio.get_running_loop().create_future()
        self._wanted.setdefault(key, []).append(future)
        if not self._busy:
            self._begin()
        return await future

    def _begin(self) -> None:
        self._busy = True
        self._tasks.start(self._run(), name=self._name).add_done_callback(self._ended)

    async def _run(self) -> None:
        while self._wanted:
            self._asked = {key: self._wanted.pop(key) for key in list(islice(self._wanted, self._most))}
            try:
                values = await self._fetch(list(self._asked))
            except Exception as error:
                for futures in self._asked.values():
                    for future in futures:
                        if not future.done():  # whoever asked may have gone
                            future.set_exception(error)
                            future.exception()  # seen: it may go before it looks
            else:
                for futures, value in zip(self._asked.values(), values, strict=True):
                    for future in futures:
                        if not future.done():
                            future.set_result(value)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._busy = False
        if task.cancelled() or task.exception() is not None:
            for futures in (*self._asked.values(), *self._wanted.values()):
                for future in futures:
                    future.cancel()  # those that have no answer: there will be none
            self._wanted = {}
        elif self._wanted:
            self._begin()  # asked for between its last look and now
