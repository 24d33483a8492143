"""The scheduler's lock in Redis: one holder at a time, most of the time, and a fence for when that fails."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import Final
from uuid import uuid4

from redis.asyncio import Redis

from aioanalysis import logs
from aioanalysis.aio import Tasks, finish
from aioanalysis.errors import SystemFault
from aioanalysis.jobstore import scripts
from aioanalysis.jobstore.client import CALL_SECONDS, answering
from aioanalysis.jobstore.keys import Keys

MARGIN: Final = 0.1
"""Share of the lock's time kept back: clocks drift, and a write takes a while to arrive."""

RELEASE_SECONDS: Final = 1.0  # it runs out by itself

log = logs.get()


class RedisLock:
    """`SchedulerLock`: `SET PX` with a token of its own each time it is held. Not reentrant."""

    def __init__(self, client: Redis, *, prefix: str, seconds: float) -> None:
        self._keys = Keys(prefix)
        self._seconds = seconds
        self._call_seconds = min(CALL_SECONDS, seconds / 4)
        self._acquire = client.register_script(scripts.ACQUIRE)
        self._renew = client.register_script(scripts.RENEW)
        self._release = client.register_script(scripts.RELEASE)

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[RedisHolding]:
        token = uuid4().hex
        try:
            holding = await self._wait(token)
            async with Tasks() as tasks:
                tasks.start(self._keep(token, holding), name="scheduler-lock-renewal")
                yield holding
        finally:
            await finish(self._let_go(token), name="scheduler-lock-release")

    async def _wait(self, token: str) -> RedisHolding:
        while True:
            began = monotonic()
            async with answering(self._call_seconds):
                fence = await self._acquire([self._keys.lock, self._keys.fence], [token, self._milliseconds])
            if fence:
                return RedisHolding(int(fence), self._valid_until(began))
            pause = min(1.0, self._seconds / 10)
            await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - spreads the waiting ones

    async def _keep(self, token: str, holding: RedisHolding) -> None:
        try:
            await self._renew_until_lost(token, holding)
            log.warning("lock_lost", fence=holding.fence)
        except Exception:
            log.exception("lock_renewal_failed", fence=holding.fence)
        finally:
            holding.lose()

    async def _renew_until_lost(self, token: str, holding: RedisHolding) -> None:
        """Renew at every third of the lock's time, after a failed try sooner."""
        pause = self._seconds / 3
        while not holding.lost:
            await asyncio.sleep(pause)
            began = monotonic()
            try:
                async with answering(self._call_seconds):
                    ours = await self._renew([self._keys.lock], [token, self._milliseconds])
            except SystemFault as error:
                log.warning("lock_not_renewed", fence=holding.fence, problem=str(error))
                pause = self._seconds / 20
                continue
            if not ours:
                return
            pause = self._seconds / 3
            holding.prolong(self._valid_until(began))

    async def _let_go(self, token: str) -> None:
        try:
            async with answering(min(RELEASE_SECONDS, self._call_seconds)):
                await self._release([self._keys.lock], [token])
        except SystemFault as error:
            log.warning("lock_not_released", problem=str(error))

    @property
    def _milliseconds(self) -> int:
        return round(self._seconds * 1000)

    def _valid_until(self, began: float) -> float:
        return began + self._seconds * (1 - MARGIN)


class RedisHolding:
    """`Holding`. Counts from the *start* of the last renewal that succeeded, by our own monotonic clock."""

    def __init__(self, fence: int, valid_until: float) -> None:
        self.fence = fence
        self._valid_until = valid_until
        self._lost = asyncio.Event()

    @property
    def lost(self) -> bool:
        return self._lost.is_set() or monotonic() >= self._valid_until

    async def wait_lost(self) -> None:
        while not self.lost:
            try:
                async with asyncio.timeout(self._valid_until - monotonic()):
                    await self._lost.wait()
            except TimeoutError:
                continue

    def prolong(self, valid_until: float) -> None:
        """Count on; what was lost once stays lost."""
        if self.lost:
            self.lose()
        else:
            self._valid_until = valid_until

    def lose(self) -> None:
        self._lost.set()
