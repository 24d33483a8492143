"""Job records, their indexes and the tombstones of removed jobs, in Redis or Valkey."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final, TypeVar, cast

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from aioanalysis import logs
from aioanalysis.aio import Batched, Tasks
from aioanalysis.domain.job import Job, Tombstone, is_job_id
from aioanalysis.domain.states import State
from aioanalysis.domain.wrangling import MethodHealth
from aioanalysis.errors import Contested, Damaged, Missing, Unavailable
from aioanalysis.interfaces import JobFilter, JobPage
from aioanalysis.jobstore import codec, scripts
from aioanalysis.jobstore.client import answering, translated
from aioanalysis.jobstore.events import RedisJobEvents
from aioanalysis.jobstore.keys import Keys
from aioanalysis.jobstore.unfinished import UnfinishedJobs

PAGE_CHUNK: Final = 100
CREATED_AT_ONCE: Final = 32
FIELDS_CHUNK: Final = 1_000
LOOK_MAX: Final = 5_000
"""Jobs that one call of `page` looks at; with rare matches a page may be short and yet have a cursor."""

OVERDUE: Final = timedelta(days=30)
T = TypeVar("T")
log = logs.get()


@dataclass(frozen=True, slots=True, eq=False)
class _New:
    """A record to be made, as the script takes it."""

    keys: Sequence[str]
    values: Sequence[str | int]


class RedisJobStore:
    """`JobStore`, `JobIndex`, `Tokens`, `Tombstones`, `PassLog`; every write is repeatable: see `scripts`."""

    def __init__(self, client: Redis, *, prefix: str, seal: codec.Seal, tasks: Tasks) -> None:
        self._client = client
        self._keys = Keys(prefix)
        self._seal = seal
        self._create = client.register_script(scripts.CREATE)
        self._replace = client.register_script(scripts.REPLACE)
        self._remove = client.register_script(scripts.REMOVE)
        self._look = client.register_script(scripts.READ)
        self._drop = client.register_script(scripts.DROP)
        self._fields = client.register_script(scripts.FIELDS)
        self._passed = client.register_script(scripts.PASSED)
        self._single = Batched(self._read, tasks, name="read jobs", most=PAGE_CHUNK)
        self._creating = Batched(self._create_all, tasks, name="create jobs", most=CREATED_AT_ONCE)
        self._health = Batched(self._read_health, tasks, name="read methods' health", most=1)
        self._index_of = client.register_script(scripts.INDEX)
        self._unfinished = UnfinishedJobs(
            RedisJobEvents(client, prefix=prefix),
            index=self._unfinished_ids,
            versions=self._versions,
            read=self._read,
        )

    async def create(self, job: Job, key: str) -> Job:
        keys, document = self._keys, codec.dump_job(job)
        new = _New(
            keys=[
                keys.job(job.id),
                keys.tombstones,
                keys.jobs,
                keys.submitter(job.submitter),
                keys.unfinished,
            ],
            values=[
                job.id,
                job.uid,
                codec.next_version("", job.uid, document),
                document,
                self._seal.close(key, job_id=job.id, uid=job.uid),
                codec.score(job.expires_at) // 1000,
                codec.score(job.submitted_at),
                _flag(job),
                keys.records,
                *self._told(job),
            ],
        )
        answered = await self._creating.get(new)
        if isinstance(answered, Exception):
            raise translated(answered) from answered
        answer, *stored = answered
        if answer != "done":
            raise Contested(f"the id {job.id} is {answer}")
        version, found = stored
        if found == document:
            return replace(job, version=version)
        return codec.load_job(found, version=version)

    async def _create_all(self, new: Sequence[_New]) -> Sequence[list[str] | Exception]:
        """The script's answer for each, or what went wrong with this one."""
        async with answering():
            answers = await self._send_all(new)
            if any(isinstance(answer, NoScriptError) for answer in answers):
                await self._client.script_load(scripts.CREATE)
                answers = await self._send_all(new)
        return answers

    async def _send_all(self, new: Sequence[_New]) -> list[list[str] | Exception]:
        async with self._client.pipeline(transaction=False) as pipe:
            for one in new:
                pipe.evalsha(self._create.sha, len(one.keys), *one.keys, *one.values)
            answers: list[list[str] | Exception] = await pipe.execute(raise_on_error=False)
            return answers

    async def get(self, job_id: str) -> Job | None:
        if not is_job_id(job_id):
            return None
        found = await self._single.get(job_id)
        if isinstance(found, Damaged):
            raise found
        return found

    async def replace(self, job: Job, *, fence: int | None = None) -> Job:
        document = codec.dump_job(job)
        version = codec.next_version(job.version, job.uid, document)
        async with answering():
            answer = await self._replace(
                [self._keys.job(job.id), self._keys.unfinished, self._keys.fence],
                [
                    job.id,
                    job.uid,
                    job.version,
                    version,
                    document,
                    codec.score(job.submitted_at),
                    _flag(job),
                    "" if fence is None else fence,
                    *self._told(job),
                ],
            )
        if answer == "gone":
            raise Missing(f"job {job.id} is not there")
        if answer == "fenced":
            raise Contested(f"job {job.id} was written under fence {fence}, another scheduler is newer")
        if answer != "done":
            raise Contested(f"job {job.id} has changed meanwhile")
        return replace(job, version=version)

    async def remove(self, job: Job, tombstone: Tombstone) -> None:
        keys = self._keys
        async with answering():
            answer = await self._remove(
                [
                    keys.job(job.id),
                    keys.tombstones,
                    keys.jobs,
                    keys.submitter(job.submitter),
                    keys.unfinished,
                ],
                [job.id, job.uid, job.version, codec.dump_tombstone(tombstone), *self._told(job)],
            )
        if answer != "done":
            raise Contested(f"job {job.id} has changed meanwhile")

    async def unfinished(self, *, whole: bool = True) -> tuple[Sequence[Job], Mapping[str, str]]:
        jobs, found = await (self._unfinished.all() if whole else self._unfinished.changed())
        await self._forget_ids([job_id for job_id, job in found.items() if job is None])
        return jobs, {job_id: str(job) for job_id, job in found.items() if isinstance(job, Damaged)}

    async def _unfinished_ids(self) -> tuple[str, Sequence[str]]:
        async with answering():
            event, *ids = await self._index_of([self._keys.unfinished, self._keys.events], [])
        return event, ids

    async def _versions(self, ids: Sequence[str]) -> Sequence[str | None]:
        return await self._field("version", ids)

    async def page(self, wanted: JobFilter, *, limit: int, cursor: str | None = None) -> JobPage:
        place = codec.read_cursor(cursor) if cursor is not None else codec.NEWEST
        index = self._index(wanted)
        found: list[Job] = []
        looked = 0
        while looked < LOOK_MAX:
            places = await self._older(index, place, wanted.since)
            if not places:
                return JobPage(jobs=found, cursor=None)
            for at, job in zip(places, await self._readable([p[1] for p in places], index), strict=True):
                if job is not None and _matches(wanted, job):
                    if len(found) == limit:
                        return JobPage(jobs=found, cursor=codec.write_cursor(place))
                    found.append(job)
                place = at
            looked += len(places)
        return JobPage(jobs=found, cursor=codec.write_cursor(place))

    async def uids(self, job_ids: Collection[str]) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for chunk in _chunks(job_ids, FIELDS_CHUNK):
            uids = await self._field("uid", chunk)
            found |= {job_id: uid for job_id, uid in zip(chunk, uids, strict=True) if uid is not None}
        return found

    async def key(self, job_id: str) -> str:
        async with answering():
            row = await self._client.hmget(self._keys.job(job_id), ["uid", "key"])
        uid, sealed = cast(list[str | None], row)
        if uid is None or sealed is None:
            raise Missing(f"job {job_id} is not there")
        return self._seal.open(sealed, job_id=job_id, uid=uid)

    async def checked(self, at: datetime) -> None:
        async with answering():
            await self._passed([self._keys.last_pass], [codec.score(at)])

    async def last_pass(self) -> datetime | None:
        async with answering():
            moment = cast(str | None, await self._client.get(self._keys.last_pass))
        return None if moment is None else codec.moment(float(moment))

    async def claim(self, token: str, meaning: str, *, seconds: int) -> str:
        key = self._keys.token(token)
        async with answering():
            await self._client.set(key, meaning, nx=True, ex=seconds)
            found = cast(str | None, await self._client.get(key))
        return meaning if found is None else found  # it has expired just now

    async def tombstones(self) -> Sequence[Tombstone]:
        """All that were not forgotten; past `keep_until` they are the scheduler's to forget.

        One that nobody forgot for another 30 days is dropped.
        """
        async with answering():
            stored = cast(list[str], await self._client.hvals(self._keys.tombstones))
        found = []
        for document in stored:
            try:
                tombstone = codec.load_tombstone(document)
            except Damaged as error:
                log.warning("tombstone_damaged", problem=str(error))
                continue
            if tombstone.keep_until + OVERDUE < datetime.now(UTC):
                await self.forget(tombstone)
            else:
                found.append(tombstone)
        return found

    async def forget(self, tombstone: Tombstone) -> None:
        async with answering():
            await self._client.hdel(self._keys.tombstones, tombstone.uid)

    async def method_health(self) -> Mapping[str, MethodHealth]:
        return await self._health.get("all")

    async def _read_health(self, _: Sequence[str]) -> Sequence[Mapping[str, MethodHealth]]:
        async with answering():
            stored = cast(dict[str, str], await self._client.hgetall(self._keys.methods))
        found = {}
        for title, document in stored.items():
            try:
                found[title] = codec.load_health(document)
            except Damaged as error:
                log.error("method_health_damaged", title=title, problem=str(error))
        return [found]

    async def set_method_health(self, health: MethodHealth) -> None:
        async with answering():
            await self._client.hset(self._keys.methods, health.title, codec.dump_health(health))

    async def clear_method_health(self, title: str) -> None:
        async with answering():
            await self._client.hdel(self._keys.methods, title)

    def _told(self, job: Job) -> tuple[str, str, str, str]:
        """For a script: where it tells listeners of the change, and what of the job."""
        return self._keys.events, job.submitter, job.title, job.state.value

    async def _read(self, ids: Sequence[str]) -> list[Job | Damaged | None]:
        async with answering():
            answer: list[str | None] = await self._look([self._keys.last_pass], [self._keys.records, *ids])
        looked = codec.looked(answer[0])
        return [codec.found_job(answer[at], answer[at + 1], looked) for at in range(1, len(answer), 2)]

    async def _field(self, name: str, ids: Sequence[str]) -> list[str | None]:
        """One field of each record, empty where it cannot be read, None where there is no record."""
        async with answering():
            found: list[str | None] = await self._fields([], [self._keys.records, name, *ids])
        return found

    async def _readable(self, ids: Sequence[str], index: str) -> list[Job | None]:
        """The jobs that can be read; damaged ones are logged, those that have gone leave the index."""
        jobs: list[Job | None] = []
        gone = []
        for job_id, found in zip(ids, await self._read(ids), strict=True):
            if isinstance(found, Damaged):
                log.warning("job_damaged", job_id=job_id, problem=str(found))
            elif found is None:
                gone.append(job_id)
            jobs.append(found if isinstance(found, Job) else None)
        await self._forget_ids(gone, index)
        return jobs

    def _index(self, wanted: JobFilter) -> str:
        if wanted.submitter is not None:
            return self._keys.submitter(wanted.submitter)
        if wanted.states and State.COMPLETE not in wanted.states:
            return self._keys.unfinished
        return self._keys.jobs

    async def _older(self, index: str, place: codec.Place, since: datetime | None) -> list[codec.Place]:
        """Up to a chunk of places after `place` in the list from new to old; none at its end."""
        count = PAGE_CHUNK
        while True:
            async with answering():
                answer = await self._client.zrevrangebyscore(
                    index,
                    place[0],
                    "-inf" if since is None else codec.score(since),
                    start=0,
                    num=count,
                    withscores=True,
                    score_cast_func=int,
                )
            rows = cast(list[tuple[str, int]], answer)
            older = [(at, job_id) for job_id, at in rows if (at, job_id) < place]
            if older or len(rows) < count:
                return older
            count *= 2  # that many were submitted in one microsecond

    async def _forget_ids(self, ids: Sequence[str], *indexes: str) -> None:
        every = {self._keys.jobs, self._keys.unfinished, *indexes}
        try:
            for chunk in _chunks(ids, 1_000):
                async with answering():
                    await self._drop(sorted(every), [self._keys.records, *chunk])
        except Unavailable as error:
            log.warning("index_not_pruned", problem=str(error))


def _matches(wanted: JobFilter, job: Job) -> bool:
    return (
        (wanted.submitter is None or job.submitter == wanted.submitter)
        and (not wanted.states or job.state in wanted.states)
        and (wanted.title is None or job.title == wanted.title)
        and (
            wanted.recordset is None
            or (job.source.kind == "recordset" and job.source.value == wanted.recordset)
        )
        and (wanted.since is None or job.submitted_at >= wanted.since)
    )


def _flag(job: Job) -> str:
    """Whether the job belongs to the unfinished ones, for a script."""
    return "0" if job.state is State.COMPLETE else "1"


def _chunks(items: Collection[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk
