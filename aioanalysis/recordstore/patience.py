"""Patience with a store: a least pause between calls, and calls made again when it was busy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from aioanalysis import logs
from aioanalysis.domain.outcomes import Reason
from aioanalysis.errors import JobFailure, Unavailable
from aioanalysis.recordstore.batches import BadPage

TRIES: Final = 5
LONGEST_PAUSE: Final = 60.0

T = TypeVar("T")
log = logs.get()


class Pace:
    """At least `seconds` between the beginnings of calls, whoever makes them; first come, first served."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._turns = asyncio.Lock()
        self._next = 0.0

    async def turn(self) -> None:
        """Wait for the next moment at which a call may begin."""
        async with self._turns:
            loop = asyncio.get_running_loop()
            pause = self._next - loop.time()
            if pause > 0:
                await asyncio.sleep(pause)
            self._next = loop.time() + self._seconds


class Patience:
    """For one set: `TRIES` a call with doubling pauses, none of them long, none past `longest` seconds."""

    def __init__(self, *, longest: float, first_pause: float) -> None:
        self._longest = longest
        self._deadline = asyncio.get_running_loop().time() + longest
        self._first_pause = first_pause

    async def insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """What `call` gives in the end; raises its last `Unavailable`, or `JobFailure` for bad pages."""
        for attempt in range(1, TRIES + 1):
            self._require_time()
            pause = self._first_pause * 2.0 ** (attempt - 1)
            try:
                return await call()
            except BadPage as error:
                text = str(error)
                if attempt == TRIES:
                    raise JobFailure(Reason.RECORDS, f"the record store sent no records: {text}") from error
            except Unavailable as error:
                text = str(error)
                pause = max(pause, error.retry_after or 0)
                if attempt == TRIES or pause > LONGEST_PAUSE:
                    raise
            self._require_time(pause, text)
            log.info("record_store_asked_again", attempt=attempt, pause_seconds=pause, error=text)
            await asyncio.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _require_time(self, pause: float = 0, why: str = "") -> None:
        if asyncio.get_running_loop().time() + pause > self._deadline:
            text = f"the record store did not send all records within {self._longest:.0f} s"
            raise Unavailable(f"{text}: {why}" if why else text)
