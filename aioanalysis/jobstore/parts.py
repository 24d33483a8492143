"""Opens all that lives in Redis, from one address: job store, scheduler's lock and bell."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from redis.asyncio import Redis

from aioanalysis.aio import Tasks
from aioanalysis.jobstore.attached import RedisAttachedRecords
from aioanalysis.jobstore.bell import RedisBell, open_bell
from aioanalysis.jobstore.client import check, open_client
from aioanalysis.jobstore.codec import Seal
from aioanalysis.jobstore.events import RedisJobEvents
from aioanalysis.jobstore.glances import RedisGlances
from aioanalysis.jobstore.lock import RedisLock
from aioanalysis.jobstore.outlooks import RedisOutlooks
from aioanalysis.jobstore.progress import RedisProgressBoard
from aioanalysis.jobstore.redis import RedisJobStore
from aioanalysis.jobstore.sessions import RedisSessions

ATTACHED_BYTES: Final = 1024**3


@dataclass(frozen=True, slots=True)
class RedisParts:
    """What `open_job_store` opens; closed with its context."""

    client: Redis
    store: RedisJobStore
    attached: RedisAttachedRecords
    events: RedisJobEvents
    progress: RedisProgressBoard
    outlooks: RedisOutlooks
    glances: RedisGlances
    sessions: RedisSessions
    lock: RedisLock
    bell: RedisBell
    told: set[str] = field(default_factory=set)

    async def check(self) -> str:
        """Say which server this is; raises `Unavailable`, `Misconfigured`. Warns of each risk once."""
        return await check(self.client, self.told)


@asynccontextmanager
async def open_job_store(
    url: str,
    *,
    secret: str,
    prefix: str = "aioanalysis:",
    lock_seconds: float = 15,
    attached_bytes: int = ATTACHED_BYTES,
) -> AsyncIterator[RedisParts]:
    """Open for `url`; `secret` are the Fernet keys that seal submitters' keys. Raises `Misconfigured`.

    Does not connect: `check` does.
    """
    seal = Seal(secret)
    async with (
        open_client(url) as client,
        open_bell(url, client, prefix=prefix) as bell,
        open_client(url, retries=0) as waiting,
        Tasks() as tasks,
    ):
        progress = RedisProgressBoard(client, waiting, prefix=prefix)
        yield RedisParts(
            client=client,
            store=RedisJobStore(client, prefix=prefix, seal=seal, tasks=tasks),
            attached=RedisAttachedRecords(client, prefix=prefix, budget=attached_bytes),
            events=RedisJobEvents(waiting, prefix=prefix),
            progress=progress,
            outlooks=RedisOutlooks(client, prefix=prefix),
            glances=RedisGlances(client, progress, prefix=prefix, tasks=tasks),
            sessions=RedisSessions(client, prefix=prefix, seal=seal),
            lock=RedisLock(client, prefix=prefix, seconds=lock_seconds),
            bell=bell,
        )
