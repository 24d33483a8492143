"""Waiting for a condition with a deadline: no test sleeps a fixed time."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")


@overload
async def eventually(
    predicate: Callable[[], Awaitable[T]], *, within: float = 5, every: float = 0.02, what: str = ""
) -> T: ...
@overload
async def eventually(
    predicate: Callable[[], T], *, within: float = 5, every: float = 0.02, what: str = ""
) -> T: ...
async def eventually(
    predicate: Callable[[], Any], *, within: float = 5, every: float = 0.02, what: str = ""
) -> Any:
    """Call `predicate` (sync or async) until it gives something true, and return that.

    An AssertionError out of it means "not yet". At the deadline an AssertionError tells what came last.
    """
    deadline = time.monotonic() + within
    while True:
        try:
            found = predicate()
            value = await found if inspect.isawaitable(found) else found
            if value:
                return value
            last, cause = repr(value), None
        except AssertionError as error:
            last, cause = str(error), error
        if time.monotonic() > deadline:
            raise AssertionError(_late(predicate, what, within, last)) from cause
        await asyncio.sleep(every)


def until(predicate: Callable[[], T], *, within: float = 5, every: float = 0.02, what: str = "") -> T:
    """`eventually` for code without an event loop (processes in fixtures)."""
    deadline = time.monotonic() + within
    while True:
        try:
            if value := predicate():
                return value
            last, cause = repr(value), None
        except AssertionError as error:
            last, cause = str(error), error
        if time.monotonic() > deadline:
            raise AssertionError(_late(predicate, what, within, last)) from cause
        time.sleep(every)


def _late(predicate: object, what: str, within: float, last: str) -> str:
    name = what or getattr(predicate, "__qualname__", repr(predicate))
    return f"not within {within} s: {name}; last: {last}"
