"""The workers' signs of life as they lie in storage, for what passes decide by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aioanalysis import logs
from aioanalysis.domain.exchange import WORKERS, Container
from aioanalysis.domain.outlook import Farm
from aioanalysis.domain.presence import SIGN_MAX_BYTES, WorkerSign, parse_sign
from aioanalysis.domain.wrangling import WORKER_SEEN, WorkerSeen
from aioanalysis.errors import AnalysisError
from aioanalysis.interfaces import PackageStorage

CLAIMING: Final = "running"  # a worker that is draining, or short of disk, takes nothing more
log = logs.get()


@dataclass(frozen=True, kw_only=True, slots=True)
class DatedSign:
    """A worker's sign of life, and when storage got it."""

    sign: WorkerSign
    at: datetime


async def worker_signs(storage: PackageStorage) -> list[DatedSign]:
    """Of every worker the last sign; one that cannot be read is left out. Raises `Unavailable`."""
    found = []
    async for blob in storage.list(Container.RESULTS, WORKERS):
        if blob.size > SIGN_MAX_BYTES:
            continue
        try:
            async with storage.open(Container.RESULTS, blob.name) as stream:
                body = b"".join([chunk async for chunk in stream.chunks()])
            found.append(DatedSign(sign=parse_sign(body), at=blob.modified_at))
        except AnalysisError as error:
            log.warning("worker_sign_unreadable", name=blob.name, error=str(error))
    return found


def seen_lately(signs: Sequence[DatedSign], now: datetime) -> list[WorkerSeen]:
    """Workers that gave a sign of life lately, with what methods they have."""
    return [
        WorkerSeen(
            name=one.sign.worker,
            at=one.at,
            methods={m.title: m.digest for m in one.sign.methods if m.digest is not None},
        )
        for one in signs
        if one.at >= now - WORKER_SEEN
    ]


def farm_of(signs: Sequence[DatedSign], now: datetime) -> Farm:
    """Those that claim packages now."""
    there = [one for one in signs if one.at >= now - WORKER_SEEN and one.sign.state == CLAIMING]
    return Farm(
        workers=len(there),
        slots=sum(one.sign.slots or 1 for one in there),
        seen_at=max((one.at for one in signs), default=None),
    )
