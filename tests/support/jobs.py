"""Jobs for tests, and what Redis really holds of them."""

from __future__ import annotations

import secrets
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from redis.asyncio import Redis

from aioanalysis.domain.exchange import Sidecar
from aioanalysis.domain.frames import Frame
from aioanalysis.domain.job import ID_ALPHABET, ID_LENGTH, HistoryEvent, Job, Source, Tombstone
from aioanalysis.domain.states import State

FRAME_FIELDS = {field.name for field in fields(Frame)} - {"params"}


def make_job(**changes: Any) -> Job:
    """A job just submitted, with any of its fields changed; fields of a run go to its only run.

    `state` goes to both; failing and retrying are shown of a run that is running.
    """
    of_frame = {name: changes.pop(name) for name in list(changes) if name in FRAME_FIELDS}
    state = changes.get("state", State.WAITING)
    phase = State.RUNNING if state in {State.FAILING, State.RETRYING} else state
    now = changes.get("submitted_at") or datetime.now(UTC)
    values: dict[str, Any] = {
        "id": "".join(secrets.choice(ID_ALPHABET) for _ in range(ID_LENGTH)),
        "uid": uuid4().hex,
        "title": "distance_summary",
        "params": {"marker": "COI-5P", "threshold": 0.02},
        "source": Source(kind="recordset", value="DS-TEST"),
        "submitter": "ann",
        "frames": (Frame(**{"phase": phase, **of_frame}),),
        "submitted_at": now,
        "expires_at": now + timedelta(days=7),
        "deadline": now + timedelta(hours=6),
        "state_changed_at": now,
        "last_updated": now,
        "history": (
            HistoryEvent(
                at=now,
                event="submit",
                from_state=None,
                to_state=State.WAITING,
                by=changes.get("submitter", "ann"),
            ),
        ),
    }
    return Job(**{**values, **changes})


def make_sidecar(**changes: Any) -> Sidecar:
    """A readable sidecar that says nothing but what is given."""
    names = "uid attempt nonce error usage packaged_count worker package_sha256 result_sha256"
    return Sidecar(**{**dict.fromkeys(names.split()), **changes})


def make_tombstone(job: Job, **changes: Any) -> Tombstone:
    now = datetime.now(UTC)
    values: dict[str, Any] = {
        "id": job.id,
        "uid": job.uid,
        "stems": (f"{job.title}.{job.id}",),
        "state": job.state,
        "removed_at": now,
        "keep_until": now + timedelta(days=7),
    }
    return Tombstone(**{**values, **changes})


async def keyspace(client: Redis, prefix: str) -> dict[str, Any]:
    """Every key under `prefix`, without it: (value, expiry in milliseconds since 1970 or -1)."""
    found: dict[str, Any] = {}
    async for key in client.scan_iter(match=f"{prefix}*", count=1000):
        match await client.type(key):
            case "hash":
                value: Any = await client.hgetall(key)
            case "zset":
                value = dict(await client.zrange(key, 0, -1, withscores=True))
            case "stream":
                value = [entry for _, entry in await client.xrange(key)]
            case _:
                value = await client.get(key)
        # a stream's expiry is by the server's clock: never the same in two runs
        expiry = 0 if isinstance(value, list) else await client.pexpiretime(key)
        found[key.removeprefix(prefix)] = (value, expiry)
    return found
