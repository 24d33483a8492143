"""Finds and sweeps files in storage that belong to no job; what is an orphan, `domain.orphans` says."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from aioanalysis import logs
from aioanalysis.domain.exchange import Container, PackageMeta
from aioanalysis.domain.orphans import REMOVABLE, Kind, Name, OrphanReason, orphaned, read_name
from aioanalysis.errors import AnalysisError, Contested
from aioanalysis.interfaces import BlobInfo, JobIndex, LeaseState, PackageStorage

BATCH: Final = 1000
DELETES: Final = 8
log = logs.get()


@dataclass(frozen=True, slots=True)
class Orphan:
    """A file that belongs to no job, as it was seen."""

    container: Container
    blob: BlobInfo
    kind: Kind
    reason: OrphanReason
    job_id: str | None


@dataclass(slots=True)
class Amount:
    files: int = 0
    bytes: int = 0

    def add(self, size: int) -> None:
        self.files += 1
        self.bytes += size


@dataclass(kw_only=True, slots=True)
class Stocktaking:
    """All that both containers hold, by kind; the orphans by reason, and the first of them one by one."""

    at: datetime
    kinds: dict[tuple[Container, Kind], Amount] = field(default_factory=lambda: defaultdict(Amount))
    reasons: dict[OrphanReason, Amount] = field(default_factory=lambda: defaultdict(Amount))
    orphans: list[Orphan] = field(default_factory=list)


@dataclass(kw_only=True, slots=True)
class Sweep:
    """What a sweep did: removed, left because they had changed meanwhile, and with what it failed.

    `more`: its limit came before the end.
    """

    removed: Amount = field(default_factory=Amount)
    changed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    more: bool = False


class Orphans:
    """Looks through both containers, a batch at a time: files first, then the records of their jobs."""

    def __init__(
        self,
        storage: PackageStorage,
        jobs: JobIndex,
        *,
        safe_seconds: float,
        job_expiry: float,
        clock: Callable[[], datetime],
    ) -> None:
        self._storage = storage
        self._jobs = jobs
        self._safe_age = timedelta(seconds=safe_seconds)
        self._job_expiry = timedelta(seconds=job_expiry)
        self._clock = clock

    async def take_stock(self, *, keep: int) -> Stocktaking:
        """Look at all files; `keep` orphans are named, all are counted. Raises `Unavailable`."""
        stock = Stocktaking(at=self._clock())
        for container in Container:
            async for batch in self._batches(container):
                for blob, name, reason in batch:
                    stock.kinds[container, name.kind].add(blob.size)
                    if reason is None:
                        continue
                    stock.reasons[reason].add(blob.size)
                    if len(stock.orphans) < keep:
                        stock.orphans.append(Orphan(container, blob, name.kind, reason, name.job_id))
        return stock

    async def sweep(self, reasons: Collection[OrphanReason], *, limit: int, by: str) -> Sweep:
        """Look again, and remove up to `limit` orphans for these reasons, foreign files never.

        A file that was rewritten or taken by a worker since it was seen stays. Repeatable.
        """
        sweep, left, wanted = Sweep(), limit, REMOVABLE & set(reasons)
        for container in Container:
            async for batch in self._batches(container):
                found = [
                    Orphan(container, blob, name.kind, reason, name.job_id)
                    for blob, name, reason in batch
                    if reason in wanted
                ]
                await self._remove_all(found[:left], sweep, by)
                if len(found) > left:
                    sweep.more = True
                    return sweep
                left -= len(found)
        return sweep

    async def _batches(
        self, container: Container
    ) -> AsyncIterator[list[tuple[BlobInfo, Name, OrphanReason | None]]]:
        batch: list[BlobInfo] = []
        async for blob in self._storage.list(container):
            batch.append(blob)
            if len(batch) == BATCH:
                yield await self._judged(container, batch)
                batch = []
        yield await self._judged(container, batch)

    async def _judged(
        self, container: Container, blobs: list[BlobInfo]
    ) -> list[tuple[BlobInfo, Name, OrphanReason | None]]:
        names = [read_name(container, blob.name) for blob in blobs]
        uids = await self._jobs.uids({name.job_id for name in names if name.job_id is not None})
        now = self._clock()
        return [
            (
                blob,
                name,
                orphaned(
                    name,
                    PackageMeta.from_metadata(blob.metadata),
                    modified_at=blob.modified_at,
                    held=blob.lease is LeaseState.HELD,
                    job_uid=uids.get(name.job_id) if name.job_id is not None else None,
                    now=now,
                    safe_age=self._safe_age,
                    job_expiry=self._job_expiry,
                ),
            )
            for blob, name in zip(blobs, names, strict=True)
        ]

    async def _remove_all(self, orphans: list[Orphan], sweep: Sweep, by: str) -> None:
        for start in range(0, len(orphans), DELETES):
            await asyncio.gather(*(self._remove(one, sweep, by) for one in orphans[start : start + DELETES]))

    async def _remove(self, orphan: Orphan, sweep: Sweep, by: str) -> None:
        container, blob = orphan.container, orphan.blob
        place = f"{container}/{blob.name}"
        try:
            removed = await self._storage.delete(container, blob.name, etag=blob.etag)
        except Contested:
            sweep.changed.append(place)
            log.info("orphan_kept", file=place, cause="it has changed meanwhile")
        except AnalysisError as error:
            sweep.failed[place] = str(error)
            log.warning("orphan_not_removed", file=place, error=str(error))
        else:
            if removed:
                sweep.removed.add(blob.size)
                log.info("orphan_removed", file=place, bytes=blob.size, reason=orphan.reason.value, by=by)
