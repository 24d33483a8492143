"""A value that costs something to work out: worked out once for all who ask, and kept for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")
SHARE: Final = 20
"""A value is kept for so many times as long as its making took, at least: that is 5 % of the time then."""


class Cached(Generic[T]):
    """The value of `make`, at most `seconds` old, or `SHARE` times what making it took."""

    def __init__(self, make: Callable[[], Awaitable[T]], seconds: float) -> None:
        self._make = make
        self._seconds = seconds
        self._making: asyncio.Task[T] | None = None
        self._until = 0.0

    async def get(self) -> T:
        """Raises what `make` raises; then the next call tries again."""
        if self._making is None or (self._making.done() and self._is_old(self._making)):
            self._making = asyncio.create_task(self._timed(), name="cached value")
        return await asyncio.shield(self._making)

    def _is_old(self, made: asyncio.Task[T]) -> bool:
        return made.cancelled() or made.exception() is not None or time.monotonic() >= self._until

    async def _timed(self) -> T:
        began = time.monotonic()
        value = await self._make()
        ended = time.monotonic()
        self._until = ended + max(self._seconds, SHARE * (ended - began))
        return value

    def drop(self) -> None:
        """The next call works it out anew; a making that is under way is its askers' still."""
        self._until = 0.0
        if self._making is not None and self._making.done():
            self._making = None

    async def close(self) -> None:
        """End a making that is under way."""
        if self._making is not None:
            self._making.cancel()
            await asyncio.wait([self._making])
            if not self._making.cancelled():
                self._making.exception()
