"""How far running jobs are, in Redis or Valkey: the latest of each, and a short stream of the news."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

from pydantic import TypeAdapter, ValidationError
from redis.asyncio import Redis

from aioanalysis import logs
from aioanalysis.interfaces import JobProgress
from aioanalysis.jobstore.client import answering
from aioanalysis.jobstore.events import BEGINNING, WAIT_MILLISECONDS
from aioanalysis.jobstore.keys import Keys

POST: Final = """
-- KEYS news  ARGV seconds to keep, prefix of the latest, then job, run, document of each
for i = 3, #ARGV, 3 do
  local latest = ARGV[2] .. ARGV[i]
  if redis.call('HGET', latest, ARGV[i + 1]) ~= ARGV[i + 2] then
    redis.call('HSET', latest, ARGV[i + 1], ARGV[i + 2])
    redis.call('EXPIRE', latest, ARGV[1])
    redis.call('XADD', KEYS[1], 'MAXLEN', '~', 1000, '*', 'doc', ARGV[i + 2])
    redis.call('EXPIRE', KEYS[1], ARGV[1])
  end
end
return 'done'
"""
KEPT_SECONDS: Final = 86_400

_progress = TypeAdapter(JobProgress)
log = logs.get()


class RedisProgressBoard:
    """`ProgressBoard`; `waiting` is a client that is not the job store's: `wait` holds a connection."""

    def __init__(self, client: Redis, waiting: Redis, *, prefix: str) -> None:
        self._client = client
        self._waiting = waiting
        self._keys = Keys(prefix)
        self._post = client.register_script(POST)

    async def post(self, news: Sequence[JobProgress]) -> None:
        rows = [part for one in news for part in (one.job, _run(one.frame), _dump(one))]
        if rows:
            async with answering():
                await self._post([self._keys.progress], [KEPT_SECONDS, self._keys.progress_of(""), *rows])

    async def latest(self, runs: Mapping[str, Sequence[int | None]]) -> Mapping[str, Sequence[JobProgress]]:
        found = {job_id: self.loaded(told) for job_id, told in (await self.documents(runs)).items()}
        return {job_id: latest for job_id, latest in found.items() if latest}

    async def documents(self, runs: Mapping[str, Sequence[int | None]]) -> Mapping[str, Sequence[str]]:
        """The latest of these runs, as they are stored, for `loaded`."""
        asked = {job_id: [_run(frame) for frame in frames] for job_id, frames in runs.items() if frames}
        if not asked:
            return {}
        async with answering(), self._client.pipeline(transaction=False) as pipe:
            for job_id, names in asked.items():
                pipe.hmget(self._keys.progress_of(job_id), names)
            answers: list[list[str | None]] = await pipe.execute()
        return {
            job_id: tuple(document for document in documents if document is not None)
            for job_id, documents in zip(asked, answers, strict=True)
        }

    @staticmethod
    def loaded(documents: Iterable[str]) -> Sequence[JobProgress]:
        """Without those that another version may have written."""
        found = []
        for document in documents:
            try:
                found.append(_progress.validate_json(document))
            except ValidationError:
                log.warning("progress_damaged", problem="not as it was written")
        return found

    async def newest(self) -> str:
        async with answering():
            rows = await self._client.xrevrange(self._keys.progress, count=1)
        return str(rows[0][0]) if rows else BEGINNING

    async def wait(self, place: str, *, limit: int) -> tuple[str, Sequence[JobProgress]]:
        async with answering():
            answer = await self._waiting.xread(
                {self._keys.progress: place}, count=limit, block=WAIT_MILLISECONDS
            )
        streams = cast(list[tuple[str, list[tuple[str, dict[str, str]]]]], answer or [])
        rows = [row for _, rows in streams for row in rows]
        return rows[-1][0] if rows else place, self.loaded(fields["doc"] for _, fields in rows)


def _run(frame: int | None) -> str:
    return "" if frame is None else str(frame)


def _dump(one: JobProgress) -> str:
    return _progress.dump_json(one).decode()
