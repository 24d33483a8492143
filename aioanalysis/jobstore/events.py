"""The latest changes of jobs, as a stream in Redis or Valkey that the job store's scripts write."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, cast

from redis.asyncio import Redis

from aioanalysis.errors import Invalid, Missing
from aioanalysis.interfaces import JobEvent
from aioanalysis.jobstore.client import answering
from aioanalysis.jobstore.keys import Keys

BEGINNING: Final = "0-0"
EVENT_ID: Final = re.compile(r"([0-9]{1,19})-([0-9]{1,19})")
WAIT_MILLISECONDS: Final = 1000
"""Well below the client's socket_timeout, which would end a longer wait as a fault."""

AFTER: Final = """
-- KEYS events  ARGV id, limit: whether the id is a place in this stream, the last id, entries after id
if redis.call('EXISTS', KEYS[1]) == 0 then return {ARGV[1] == '0-0' and '1' or '0', '0-0', {}} end
local info, facts = redis.call('XINFO', 'STREAM', KEYS[1]), {}
for i = 1, #info, 2 do facts[info[i]] = info[i + 1] end
local rows = {}
if ARGV[2] ~= '0' then rows = redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], '+', 'COUNT', ARGV[2]) end
local known
if ARGV[1] == '0-0' then
  known = facts['entries-added'] == facts['length']
else
  known = redis.call('XRANGE', KEYS[1], ARGV[1], ARGV[1])[1]
end
return {known and '1' or '0', facts['last-generated-id'], rows}
"""


class RedisJobEvents:
    """`JobEvents`, on a client that is not the job store's: `wait` holds a connection."""

    def __init__(self, client: Redis, *, prefix: str) -> None:
        self._client = client
        self._key = Keys(prefix).events
        self._after = client.register_script(AFTER)

    async def newest(self) -> str:
        async with answering():
            _, last, _ = await self._after([self._key], [BEGINNING, 0])
        return str(last)

    async def after(self, event: str, *, limit: int) -> Sequence[JobEvent]:
        place_of(event)
        async with answering():
            known, _, rows = await self._after([self._key], [event, limit])
        if known != "1":  # trimmed meanwhile, or of a stream that was lost
            raise Missing(f"not all events after {event} are kept")
        return list(_events((name, _paired(fields)) for name, fields in rows))

    async def wait(self, event: str, *, limit: int) -> Sequence[JobEvent]:
        place_of(event)
        async with answering():
            answer = await self._client.xread({self._key: event}, count=limit, block=WAIT_MILLISECONDS)
        streams = cast(list[tuple[str, list[tuple[str, dict[str, str]]]]], answer or [])
        return [one for _, rows in streams for one in _events(iter(rows))]


def place_of(event: str) -> tuple[int, int]:
    """The id as what can be compared; raises `Invalid`."""
    match = EVENT_ID.fullmatch(event)
    if match is None:
        raise Invalid("not the id of an event")
    return int(match[1]), int(match[2])


def _paired(fields: list[str]) -> dict[str, str]:
    return dict(zip(fields[::2], fields[1::2], strict=True))


def _events(rows: Iterator[tuple[str, Mapping[str, str]]]) -> Iterator[JobEvent]:
    for name, fields in rows:
        kind = fields.get("kind")
        if kind in {"created", "changed", "removed"}:
            yield JobEvent(
                id=name,
                kind=cast(Literal["created", "changed", "removed"], kind),
                job=fields.get("job", ""),
                submitter=fields.get("submitter", ""),
                title=fields.get("title", ""),
                state=fields.get("state", ""),
            )
