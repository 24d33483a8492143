"""What the scheduler foresees of unfinished jobs, and how long earlier runs of each method took."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, cast

from pydantic import TypeAdapter, ValidationError
from redis.asyncio import Redis

from aioanalysis import logs
from aioanalysis.aio import in_thread
from aioanalysis.domain.outlook import Outlook, PastRun
from aioanalysis.jobstore.client import answering
from aioanalysis.jobstore.keys import Keys

CHUNK: Final = 2_000
KEPT_SECONDS: Final = 3600  # with no scheduler to renew it, what was foreseen means nothing soon

Field = bytes | bytearray | memoryview | str | int | float
_outlook = TypeAdapter(Outlook)
_runs = TypeAdapter(tuple[PastRun, ...])
log = logs.get()


class RedisOutlooks:
    """`Outlooks`. The whole is made under another name and put in place of the former at once."""

    def __init__(self, client: Redis, *, prefix: str) -> None:
        self._client = client
        self._keys = Keys(prefix)

    async def foretell(self, outlooks: Mapping[str, Outlook]) -> None:
        made = f"{self._keys.outlooks}:new"
        ids = list(outlooks)
        async with answering():
            await self._client.delete(made)
            for at in range(0, len(ids), CHUNK):
                chunk = {job_id: outlooks[job_id] for job_id in ids[at : at + CHUNK]}
                documents = await in_thread(_dumped, chunk)
                await self._client.hset(made, mapping=documents)
            pipeline = self._client.pipeline(transaction=True)
            if ids:
                pipeline.rename(made, self._keys.outlooks)
                pipeline.expire(self._keys.outlooks, KEPT_SECONDS)
            else:
                pipeline.delete(self._keys.outlooks)
            await pipeline.execute()

    async def outlooks(self, job_ids: Collection[str]) -> Mapping[str, Outlook]:
        if not job_ids:
            return {}
        async with answering():
            rows = cast(list[str | None], await self._client.hmget(self._keys.outlooks, list(job_ids)))
        read = {
            job_id: load_outlook(job_id, row)
            for job_id, row in zip(job_ids, rows, strict=True)
            if row is not None
        }
        return {job_id: outlook for job_id, outlook in read.items() if outlook is not None}

    async def past_runs(self) -> Mapping[str, Sequence[PastRun]]:
        async with answering():
            stored = cast(dict[str, str], await self._client.hgetall(self._keys.past_runs))
        found = {}
        for title, document in stored.items():
            try:
                found[title] = _runs.validate_json(document)
            except ValidationError:
                log.warning("past_runs_damaged", title=title)
        return found

    async def set_past_runs(self, title: str, runs: Sequence[PastRun]) -> None:
        document = _runs.dump_json(tuple(runs)).decode()
        async with answering():
            await self._client.hset(self._keys.past_runs, title, document)


def load_outlook(job_id: str, document: str) -> Outlook | None:
    """None for one that another version may have written."""
    try:
        return _outlook.validate_json(document)
    except ValidationError:
        log.warning("outlook_damaged", job_id=job_id)
        return None


def _dumped(outlooks: Mapping[str, Outlook]) -> dict[Field, Field]:
    return {job_id: _outlook.dump_json(outlook).decode() for job_id, outlook in outlooks.items()}
