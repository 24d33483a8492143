"""Browsers' sign-ins in Redis or Valkey: sealed, under the digest of a token that is stored nowhere."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import cast

from redis.asyncio import Redis

from aioanalysis.errors import Damaged
from aioanalysis.interfaces import Session
from aioanalysis.jobstore.client import answering
from aioanalysis.jobstore.codec import Seal
from aioanalysis.jobstore.keys import Keys

PURPOSE = "session"


class RedisSessions:
    """`Sessions`."""

    def __init__(self, client: Redis, *, prefix: str, seal: Seal) -> None:
        self._client = client
        self._keys = Keys(prefix)
        self._seal = seal

    async def open(self, token: str, session: Session) -> None:
        content = json.dumps([session.key, session.csrf, session.expires_at.isoformat()])
        sealed = self._seal.close(content, job_id=PURPOSE, uid=_digest(token))
        until = int(session.expires_at.timestamp() * 1000)
        async with answering():
            await self._client.set(self._keys.session(token), sealed, pxat=until)

    async def find(self, token: str) -> Session | None:
        async with answering():
            sealed = cast(str | None, await self._client.get(self._keys.session(token)))
        if sealed is None:
            return None
        try:
            key, csrf, expires_at = json.loads(self._seal.open(sealed, job_id=PURPOSE, uid=_digest(token)))
            return Session(key=key, csrf=csrf, expires_at=datetime.fromisoformat(expires_at))
        except (Damaged, ValueError, TypeError):  # sealed under a secret that is no more
            return None

    async def close(self, token: str) -> None:
        async with answering():
            await self._client.delete(self._keys.session(token))


def _digest(token: str) -> str:
    return hashlib.sha256(f"sealed {token}".encode("utf-8", "surrogatepass")).hexdigest()
