"""Takes packages out of the queue under leases, keeps what was taken, and gives it up (PROTOCOL.md 2)."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from aioanalysis import logs
from aioanalysis.domain.exchange import (
    Container,
    PackageMeta,
    claim_name,
    package_name,
    stem_of_package,
)
from aioanalysis.errors import AnalysisError, Contested, LeaseLost, Missing, Unavailable
from aioanalysis.interfaces import BlobInfo, Condition, ExchangeStorage, LeaseState
from aioanalysis.worker.admission import Admission

RENEWALS: Final = 3  # a lease is renewed so often within its time
MARGIN: Final = 1 / 6  # of a lease: what is older than lease - margin counts as lost
RETRY_SECONDS: Final = 1.0  # after a renewal that did not get through
GIVE_BACK_TRIES: Final = 3

log = logs.get()


def clock() -> float:
    """Seconds that also pass while the machine sleeps or this process is stopped."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


async def cancel(tasks: Collection[asyncio.Future[Any]]) -> None:
    """Cancel all of `tasks` and wait until they have ended; what they ended with counts as seen."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()


class Claim:
    """A package that is ours as long as its lease is renewed; `start` begins renewing, a release ends it."""

    def __init__(
        self,
        storage: ExchangeStorage,
        stem: str,
        info: BlobInfo,
        lease: str,
        lease_seconds: int,
        leased_at: float,
    ) -> None:
        self.stem = stem
        self.package = PackageMeta.from_metadata(info.metadata)
        self.size = info.size
        self.lease = lease
        self.alive: Path | None = None
        self._storage = storage
        self._etag = info.etag
        self._lease_seconds = lease_seconds
        self._renewed_at = leased_at
        self._gone = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return claim_name(self.stem)

    @property
    def nonce(self) -> str:
        return self.package.nonce or ""

    @property
    def lost(self) -> bool:
        """Whether another may hold it: the lease was refused, or not renewed for too long. For good."""
        if clock() - self._renewed_at > self._lease_seconds * (1 - MARGIN):
            self._gone.set()
        return self._gone.is_set()

    async def wait_lost(self) -> None:
        """Return when it is lost."""
        while not self.lost:
            left = self._renewed_at + self._lease_seconds * (1 - MARGIN) - clock()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.05, left)):
                    await self._gone.wait()

    def start(self) -> None:
        """Begin renewing, in a task of our own that a release ends."""
        self._task = asyncio.create_task(self._keep(), name=f"renew {self.stem}")

    async def _keep(self) -> None:
        due = self._renewed_at + self._lease_seconds / RENEWALS
        try:
            while not self.lost:
                await asyncio.sleep(max(0.0, due - clock()))
                if self.lost:
                    break
                due = await self._renew()
        except (LeaseLost, Missing) as error:
            log.warning("lease_lost", stem=self.stem, cause=str(error))
        finally:
            self._gone.set()

    async def _renew(self) -> float:
        """Renew once; when to do it again."""
        began = clock()
        try:
            await self._storage.renew_lease(Container.RESULTS, self.name, self.lease)
        except (LeaseLost, Missing):
            raise
        except AnalysisError as error:
            log.warning("lease_not_renewed", stem=self.stem, cause=str(error))
            return clock() + RETRY_SECONDS
        self._renewed_at = began
        self.touch()
        return began + self._lease_seconds / RENEWALS

    def touch(self) -> None:
        """Give the orchestrator its sign of life. No link is followed: the directory is not ours alone."""
        if self.alive is None:
            return
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
            handle = os.open(self.alive, flags, 0o644)
            try:
                os.utime(handle)
            finally:
                os.close(handle)
        except OSError as error:
            log.warning("alive_not_touched", stem=self.stem, cause=str(error))

    async def stop(self) -> None:
        """Renew no more; the lease lapses by itself."""
        if self._task is not None:
            await cancel({self._task})

    async def release(self) -> None:
        """Give up the lease, so that the scheduler goes on at once."""
        await self.stop()
        with suppress(Unavailable):  # it lapses by itself
            await self._storage.release_lease(Container.RESULTS, self.name, self.lease)

    async def give_back(self) -> bool:
        """Put the package back into the queue as the next attempt; False when it is not ours (any more).

        Raises `Unavailable`: then the lease lapses, and the scheduler does it.
        """
        try:
            if self.lost or not await self._copy_back():
                return False
            await self._storage.delete(Container.RESULTS, self.name, lease=self.lease)
        except LeaseLost:
            return False
        except Contested as error:
            log.warning("claim_left", stem=self.stem, cause=str(error))
        finally:
            await self.stop()
        return True

    async def _copy_back(self) -> bool:
        meta = replace(self.package, attempt=self.package.attempt + 1, nonce=None, worker=None)
        for _ in range(GIVE_BACK_TRIES):
            try:
                await self._storage.copy(
                    (Container.RESULTS, self.name),
                    (Container.QUEUE, package_name(self.stem)),
                    metadata=meta.to_metadata(),
                    source_etag=self._etag,
                    condition=Condition(absent=True),
                )
            except Missing:
                return False
            except Contested:  # our own lost reply, or a newer package: either way the root wins
                if await self._storage.stat(Container.QUEUE, package_name(self.stem)) is None:
                    continue
            return True
        return False


class Claims:
    """Claims packages in the name of one worker."""

    def __init__(self, storage: ExchangeStorage, worker: str, lease_seconds: int) -> None:
        self._storage = storage
        self._worker = worker
        self._lease_seconds = lease_seconds

    async def take(self, admission: Admission | None = None) -> Claim | None:
        """Claim the oldest package that nobody holds; None when there is none, or no room for it.

        Every look begins with the oldest, or a large run might wait for ever; when another worker is quicker,
        it goes on with any other, or all workers would meet at each package in turn. Raises `Unavailable`.

        Must not be cancelled midway: a claim that nobody hears of is only found when its lease lapses.
        """
        packages = [
            info
            async for info in self._storage.list(Container.QUEUE, root_only=True)
            if info.lease is not LeaseState.HELD and stem_of_package(info.name)
        ]
        packages.sort(key=lambda info: (info.modified_at, info.name))
        for info in (*packages[:1], *random.sample(packages[1:], len(packages[1:]))):
            stem = info.name.removesuffix(".tar")
            if admission is not None and not await admission.reserve(stem):
                return None
            claim = None
            try:
                claim = await self._claim(stem, info)
            finally:
                if claim is None and admission is not None:
                    admission.release(stem)
            if claim is not None:
                return claim
        return None

    async def adopt(self, stem: str, nonce: str, lease: str) -> Claim | None:
        """Take up a claim that an earlier process of this worker held; None when it is not ours any more."""
        name, leased_at = claim_name(stem), clock()
        try:
            await self._storage.acquire_lease(Container.RESULTS, name, lease, self._lease_seconds)
        except (Missing, LeaseLost):
            return None
        info = await self._storage.stat(Container.RESULTS, name)
        root = await self._storage.stat(Container.QUEUE, package_name(stem))
        if info is None or info.metadata.get("nonce") != nonce or root is not None:
            await self._storage.release_lease(Container.RESULTS, name, lease)
            return None
        return self._started(stem, info, lease, leased_at)

    async def _claim(self, stem: str, seen: BlobInfo) -> Claim | None:
        lease, name = str(uuid4()), package_name(stem)
        try:
            await self._storage.acquire_lease(Container.QUEUE, name, lease, self._lease_seconds)
        except (Missing, LeaseLost):
            return None
        try:
            return await self._claim_leased(stem, seen, lease)
        except (Missing, Contested) as error:
            log.info("claim_missed", stem=stem, cause=str(error))
            await self._let_go(stem, lease)
            return None
        except BaseException:
            await self._let_go(stem, lease)
            raise

    async def _claim_leased(self, stem: str, seen: BlobInfo, lease: str) -> Claim:
        """The root's lease is ours: copy it, as `seen`, with our nonce; lease that copy; delete the root."""
        storage, root, target = self._storage, package_name(stem), claim_name(stem)
        package = PackageMeta.from_metadata(seen.metadata)
        package = replace(package, worker=self._worker, nonce=f"{self._worker}.{uuid4().hex}")
        copied = await storage.copy(
            (Container.QUEUE, root),
            (Container.RESULTS, target),
            metadata=package.to_metadata(),
            source_etag=seen.etag,
        )
        leased_at = clock()
        await storage.acquire_lease(Container.RESULTS, target, lease, self._lease_seconds, etag=copied.etag)
        try:
            await storage.delete(Container.QUEUE, root, lease=lease)
        except Unavailable:
            if await storage.stat(Container.QUEUE, root) is not None:
                raise
        return self._started(stem, copied, lease, leased_at)

    def _started(self, stem: str, info: BlobInfo, lease: str, leased_at: float) -> Claim:
        claim = Claim(self._storage, stem, info, lease, self._lease_seconds, leased_at)
        claim.start()
        return claim

    async def _let_go(self, stem: str, lease: str) -> None:
        """Root and claim may both be there: the root wins, a claim without a lease may be written over."""
        with suppress(AnalysisError):
            await self._storage.release_lease(Container.RESULTS, claim_name(stem), lease)
            await self._storage.release_lease(Container.QUEUE, package_name(stem), lease)
