"""Wakes the scheduler: an event within the process, a channel of Redis across processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import uuid4

from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from aioanalysis import logs
from aioanalysis.aio import Batched, Tasks
from aioanalysis.errors import SystemFault
from aioanalysis.jobstore.client import answering, heeding_cancellation, open_client
from aioanalysis.jobstore.keys import Keys

RING_SECONDS: Final = 1.0
LISTEN_SECONDS: Final = 15.0
PONG_SECONDS: Final = 5.0
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0

log = logs.get()


class RedisBell:
    """`Bell`; made by `open_bell`, which keeps it listening."""

    def __init__(self, client: Redis, *, prefix: str, tasks: Tasks) -> None:
        self._client = client
        self._channel = Keys(prefix).bell
        self._own = uuid4().hex
        self._rung = asyncio.Event()
        self._ringing = Batched(self._publish, tasks, name="ring", most=1)

    async def ring(self) -> None:
        """Rings of one moment are one to the others."""
        self._rung.set()
        await self._ringing.get("all")

    async def _publish(self, rings: Sequence[str]) -> Sequence[None]:
        try:
            async with answering(RING_SECONDS):
                await self._client.publish(self._channel, self._own)
        except SystemFault as error:
            log.warning("bell_not_heard_elsewhere", problem=str(error))
        return [None for _ in rings]

    async def wait(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        except TimeoutError:
            return False
        self._rung.clear()
        return True

    async def listen(self, client: Redis) -> None:
        """Hear the other processes' rings on a connection of its own, for ever, through faults of Redis.

        After a fault it rings by itself: a ring may have been missed.
        """
        pause = FIRST_PAUSE
        while True:
            try:
                async with client.pubsub() as channel:
                    with heeding_cancellation():
                        await channel.subscribe(self._channel)
                    if pause > FIRST_PAUSE:
                        self._rung.set()
                        pause = FIRST_PAUSE
                    await self._hear(channel)
            except Exception as error:  # nothing depends on it, and nothing may end it
                log.warning("bell_deaf", problem=type(error).__name__)
            pause = min(pause * 2, LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _hear(self, channel: Any) -> None:
        """Returns by raising: a quiet connection is asked for a sign of life, and given up without one."""
        patience = LISTEN_SECONDS
        while True:
            with heeding_cancellation():
                # its own time-out: the client's socket_timeout is far shorter than the silence here
                message = await channel.get_message(timeout=patience)
            if message is not None:
                patience = LISTEN_SECONDS
                if message["type"] == "message" and message["data"] != self._own:
                    self._rung.set()
            elif patience == PONG_SECONDS:
                raise RedisConnectionError("no answer to a ping")
            else:
                with heeding_cancellation():
                    await channel.ping()
                patience = PONG_SECONDS


@asynccontextmanager
async def open_bell(url: str, client: Redis, *, prefix: str) -> AsyncIterator[RedisBell]:
    """A bell that rings through `client` and listens on a connection of its own to `url`."""
    async with open_client(url, retries=0) as listening, Tasks() as tasks:
        bell = RedisBell(client, prefix=prefix, tasks=tasks)
        tasks.start(bell.listen(listening), name="bell")
        yield bell
