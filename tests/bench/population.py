"""Many jobs and many blobs, made quickly: as they lie in Redis and Azurite, not by way of each one's call."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from redis.asyncio import Redis

from aioanalysis.domain.exchange import Ending, result_name, sidecar_name
from aioanalysis.domain.job import Job
from aioanalysis.domain.states import State
from aioanalysis.jobstore import codec
from aioanalysis.jobstore.keys import Keys
from tests.support.jobs import make_job
from tests.support.servers import Azurite

QUEUED = 10
CHUNK = 1_000


def unfinished_jobs() -> Iterator[Job]:
    """Unfinished jobs without end: 10 queued, of the others half waiting, half failed."""
    start = datetime.now(UTC) - timedelta(hours=1)
    number = 0
    while True:
        state = State.WAITING if number % 2 else State.FAILED
        yield make_job(
            state=State.QUEUED if number < QUEUED else state,
            submitter=f"user-{number % 50}",
            submitted_at=start + timedelta(milliseconds=number),
            deadline=start + timedelta(days=1),
        )
        number += 1


async def store_jobs(client: Redis, prefix: str, jobs: Sequence[Job]) -> None:
    """Write records as `RedisJobStore.create` does; their submitters' keys are not real."""
    keys = Keys(prefix)
    rest = iter(jobs)
    while chunk := list(islice(rest, CHUNK)):
        pipeline = client.pipeline(transaction=False)
        places = {job.id: codec.score(job.submitted_at) for job in chunk}
        pipeline.zadd(keys.jobs, places)
        pipeline.zadd(keys.unfinished, places)
        for job in chunk:
            document, expires_at = codec.dump_job(job), codec.score(job.expires_at) // 1000
            version = codec.next_version("", job.uid, document)
            fields = ["uid", job.uid, "version", version, "doc", document, "key", "k" * 200]
            pipeline.hset(keys.job(job.id), items=[*fields, "expires_at", expires_at])
            pipeline.pexpireat(keys.job(job.id), expires_at)
        await pipeline.execute()


def result_names(job: Job) -> tuple[str, str]:
    """Of the package and sidecar of a job that is over."""
    ending = Ending.COMPLETE if job.state is State.COMPLETE else Ending.FAILED
    return result_name(job.name, ending), sidecar_name(job.name, ending)


def multiply_blob(azurite: Azurite, container: str, names: Sequence[str]) -> None:
    """Give a blob to `container` under each of these names, in Azurite's own files, while it is stopped.

    (It takes 2 ms and more for each that is put; 100,000 are there in four seconds.)
    """
    azurite.stop()
    path = azurite.folder / "__azurite_db_blob__.json"
    database = json.loads(path.read_text())
    blobs = next(part for part in database["collections"] if part["name"] == "$BLOBS_COLLECTION$")
    found: list[dict[str, Any]] = blobs["data"]
    model = next(blob for blob in found if blob["isCommitted"])
    for name in names:
        blobs["maxId"] += 1
        found.append({**model, "containerName": container, "name": name, "$loki": blobs["maxId"]})
    for index in blobs["binaryIndices"].values():
        field = index["name"]
        index["values"] = sorted(range(len(found)), key=lambda at, field=field: found[at][field])  # type: ignore[misc]
    path.write_text(json.dumps(database))
    azurite.start()
