"""The workers' signs of life as they lie in storage, for what passes decide by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aioanalysis.domain.exchange import WORKERS, Container
from aioanalysis.domain.outlook import Farm
from aioanalysis.domain.presence import WorkerSign
from aioanalysis.domain.wrangling import WORKER_SEEN, WorkerSeen
from aioanalysis.interfaces import PackageStorage
from aioanalysis.signs import read_signs

CLAIMING: Final = "running"  # a worker that is draining, or short of disk, takes nothing more


@dataclass(frozen=True, kw_only=True, slots=True)
class DatedSign:
    """A worker's sign of life, and when storage got it."""

    sign: WorkerSign
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Signs:
    """The signs of life of late; `newest` is when the newest of all came, however long ago."""

    recent: Sequence[DatedSign]
    newest: datetime | None


async def worker_signs(storage: PackageStorage, now: datetime) -> Signs:
    """Only those of late are read; one that cannot be is left out. Raises `Unavailable`."""
    blobs = [blob async for blob in storage.list(Container.RESULTS, WORKERS)]
    late = [blob for blob in blobs if blob.modified_at >= now - WORKER_SEEN]
    read = zip(late, await read_signs(storage, late), strict=True)
    return Signs(
        recent=[DatedSign(sign=sign, at=blob.modified_at) for blob, sign in read if sign is not None],
        newest=max((blob.modified_at for blob in blobs), default=None),
    )


def seen_lately(signs: Signs) -> list[WorkerSeen]:
    """Workers that gave a sign of life lately, with what methods they have."""
    return [
        WorkerSeen(
            name=one.sign.worker,
            at=one.at,
            methods={m.title: m.digest for m in one.sign.methods if m.digest is not None},
        )
        for one in signs.recent
    ]


def farm_of(signs: Signs) -> Farm:
    """Those that claim packages now."""
    there = [one.sign for one in signs.recent if one.sign.state == CLAIMING]
    return Farm(workers=len(there), slots=sum(sign.slots or 1 for sign in there), seen_at=signs.newest)
