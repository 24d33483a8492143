"""Counts the faults of a part, from before it: the part and its users know nothing of that."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, TypeVar, cast

from aioanalysis.errors import SystemFault

T = TypeVar("T")


def counted(part: T, name: str, faults: Counter[str]) -> T:
    """`part`, with every `SystemFault` that leaves one of its methods counted in `faults[name]`.

    Whatever the methods give may be awaited, iterated or entered; what is entered is counted likewise.
    """
    return cast(T, _Counted(part, name, faults))


class _Counted:
    def __init__(self, part: Any, name: str, faults: Counter[str]) -> None:
        self._part = part
        self._name = name
        self._faults = faults

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(self._part, attribute)
        if not callable(found):
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            return self._watched(found(*arguments, **named))

        return call

    def _watched(self, answer: Any) -> Any:
        if isinstance(answer, Awaitable):
            return self._awaited(answer)
        if isinstance(answer, AbstractAsyncContextManager):
            return self._entered(answer)
        return self._iterated(answer) if isinstance(answer, AsyncIterator) else answer

    @contextmanager
    def _counting(self) -> Iterator[None]:
        try:
            yield
        except SystemFault:
            self._faults[self._name] += 1
            raise

    async def _awaited(self, answer: Awaitable[T]) -> T:
        with self._counting():
            return await answer

    async def _iterated(self, answer: AsyncIterator[T]) -> AsyncIterator[T]:
        async with AsyncExitStack() as stack:
            if close := getattr(answer, "aclose", None):
                stack.push_async_callback(close)
            with self._counting():
                async for one in answer:
                    yield one

    @asynccontextmanager
    async def _entered(self, answer: AbstractAsyncContextManager[Any]) -> AsyncIterator[Any]:
        async with AsyncExitStack() as stack:
            with self._counting():
                entered = await stack.enter_async_context(answer)
            yield _Counted(entered, self._name, self._faults)
