"""Attached records in Redis or Valkey: chunks under keys of their own, and a budget for all together."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Final, cast

from redis.asyncio import Redis
from redis.client import NEVER_DECODE

from aioanalysis.errors import Missing, NoRoom
from aioanalysis.jobstore.client import answering
from aioanalysis.jobstore.keys import Keys

STAGED_SECONDS: Final = 3600
"""How long an attachment may take to arrive; what comes of it later finds its beginning gone."""

_ROOM: Final = """
local function room(index, sizes, id, size, now, budget)
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', index, '-inf', now)) do
    redis.call('ZREM', index, old)
    redis.call('HDEL', sizes, old)
  end
  local total, other = tonumber(size), nil
  for i, value in ipairs(redis.call('HGETALL', sizes)) do
    if i % 2 == 1 then other = value
    elseif other ~= id then total = total + tonumber(string.match(value, '^%d+')) end
  end
  return total <= tonumber(budget)
end
"""

ADD: Final = (
    _ROOM
    + """
-- KEYS chunk, index, sizes  ARGV id, chunk, size, count, now (ms), expiry (ms), budget
if not room(KEYS[2], KEYS[3], ARGV[1], ARGV[3], ARGV[5], ARGV[7]) then return 'full' end
redis.call('ZADD', KEYS[2], ARGV[6], ARGV[1])
redis.call('HSET', KEYS[3], ARGV[1], ARGV[3] .. ':' .. ARGV[4])
redis.call('SET', KEYS[1], ARGV[2], 'PXAT', ARGV[6])
return 'done'
"""
)

KEEP: Final = """
-- KEYS index, chunks...  ARGV id, expiry (ms)
for i = 2, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 0 then return 'gone' end
end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
for i = 2, #KEYS do redis.call('PEXPIREAT', KEYS[i], ARGV[2]) end
return 'done'
"""

COPY: Final = (
    _ROOM
    + """
-- KEYS index, sizes, sources..., targets...  ARGV target's id, bytes:chunks, now (ms), expiry (ms), budget
local count = (#KEYS - 2) / 2
if not room(KEYS[1], KEYS[2], ARGV[1], string.match(ARGV[2], '^%d+'), ARGV[3], ARGV[5]) then
  return 'full'
end
for i = 3, 2 + count do
  if redis.call('EXISTS', KEYS[i]) == 0 then return 'gone' end
end
redis.call('ZADD', KEYS[1], ARGV[4], ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
for i = 3, 2 + count do
  redis.call('COPY', KEYS[i], KEYS[i + count], 'REPLACE')
  redis.call('PEXPIREAT', KEYS[i + count], ARGV[4])
end
return 'done'
"""
)


class RedisAttachedRecords:
    """`AttachedRecords`. Every script may be sent twice: it writes absolute values."""

    def __init__(self, client: Redis, *, prefix: str, budget: int) -> None:
        self._client = client
        self._keys = Keys(prefix)
        self._budget = budget
        self._add = client.register_script(ADD)
        self._keep = client.register_script(KEEP)
        self._copy = client.register_script(COPY)

    async def add(self, attachment: str, number: int, chunk: bytes, *, size: int) -> None:
        keys, now = self._keys, _now()
        async with answering():
            answer = await self._add(
                [keys.attached_chunk(attachment, number), keys.attached, keys.attached_sizes],
                [attachment, chunk, size, number + 1, now, now + STAGED_SECONDS * 1000, self._budget],
            )
        if answer != "done":
            raise NoRoom("there is no room for more attached records now")

    async def keep(self, attachment: str, until: datetime) -> None:
        _, count = await self._size(attachment)
        async with answering():
            answer = await self._keep(
                [self._keys.attached, *self._chunks(attachment, count)], [attachment, _milliseconds(until)]
            )
        if answer != "done":
            raise Missing(f"the attached records {attachment} have gone")

    async def chunks(self, attachment: str) -> AsyncIterator[bytes]:
        _, count = await self._size(attachment)
        for key in self._chunks(attachment, count):
            async with answering():
                chunk = await self._client.execute_command("GET", key, **{NEVER_DECODE: True})  # type: ignore[no-untyped-call]
            if chunk is None:
                raise Missing(f"the attached records {attachment} have gone")
            yield chunk

    async def copy(self, source: str, target: str, until: datetime) -> None:
        keys = self._keys
        size, count = await self._size(source)
        async with answering():
            answer = await self._copy(
                [
                    keys.attached,
                    keys.attached_sizes,
                    *self._chunks(source, count),
                    *self._chunks(target, count),
                ],
                [target, f"{size}:{count}", _now(), _milliseconds(until), self._budget],
            )
        if answer == "full":
            raise NoRoom("there is no room for more attached records now")
        if answer != "done":
            raise Missing(f"the attached records {source} have gone")

    async def drop(self, attachment: str) -> None:
        try:
            _, count = await self._size(attachment)
        except Missing:
            return
        pipeline = self._client.pipeline(transaction=True)
        pipeline.delete(*self._chunks(attachment, count))
        pipeline.hdel(self._keys.attached_sizes, attachment)
        pipeline.zrem(self._keys.attached, attachment)
        async with answering():
            await pipeline.execute()

    async def _size(self, attachment: str) -> tuple[int, int]:
        """(bytes, chunks); raises `Missing`."""
        async with answering():
            found = cast(str | None, await self._client.hget(self._keys.attached_sizes, attachment))
        parts = re.fullmatch(r"(\d+):(\d+)", found or "")
        if parts is None:
            raise Missing(f"there are no attached records {attachment}")
        return int(parts[1]), int(parts[2])

    def _chunks(self, attachment: str, count: int) -> list[str]:
        return [self._keys.attached_chunk(attachment, number) for number in range(count)]


def _now() -> int:
    return _milliseconds(datetime.now(UTC))


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
