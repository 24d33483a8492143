"""Commits an outcome: the zip, then the sidecar, each only where it may stand (PROTOCOL.md 2, steps 7, 8)."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, wait_random_exponential

from aioanalysis import logs
from aioanalysis.domain.exchange import Container, ResultPackage, RunMark
from aioanalysis.errors import AnalysisError, Contested, Unavailable
from aioanalysis.interfaces import BlobInfo, Condition, PackageStorage
from aioanalysis.worker.archive import Archive
from aioanalysis.worker.claims import Claim

CONFLICTS_MAX: Final = 5

log = logs.get()


class Overtaken(AnalysisError):
    """A later attempt, or another run of this one, has its files there: ours count no more."""


def while_held(claim: Claim) -> AsyncRetrying:
    """Tries again what was `Unavailable`, with growing pauses, for as long as the claim is ours."""

    def stop(_: RetryCallState) -> bool:
        return claim.lost

    def note(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        log.warning("storage_unavailable", stem=claim.stem, tries=state.attempt_number, cause=str(error))

    return AsyncRetrying(
        retry=retry_if_exception_type(Unavailable),
        wait=wait_random_exponential(multiplier=0.2, max=10),
        stop=stop,
        before_sleep=note,
        reraise=True,
    )


class Commit:
    """Writes one run's files into results under its mark; `look_first` when older files are likely."""

    def __init__(self, storage: PackageStorage, claim: Claim, *, look_first: bool | None = None) -> None:
        self._storage = storage
        self._claim = claim
        package = claim.package
        self._mark = RunMark(uid=package.uid, attempt=package.attempt, nonce=package.nonce)
        self._look_first = package.attempt > 1 if look_first is None else look_first

    async def put_zip(self, name: str, make: Callable[[], Archive]) -> ResultPackage:
        """Upload a zip that is made on the way, as often as need be. Raises `Overtaken`, `Unavailable`."""
        archive = make()

        async def upload(condition: Condition) -> BlobInfo:
            nonlocal archive
            archive = make()
            async with contextlib.aclosing(archive.chunks()) as body:
                return await self._storage.write(
                    Container.RESULTS,
                    name,
                    body,
                    metadata=lambda: self._marked(archive).to_metadata(),
                    condition=condition,
                )

        def ours(present: BlobInfo) -> bool:
            digest = archive.digest
            return digest is not None and present.metadata.get("sha256") == digest.sha256

        info = await self._put(name, upload, ours)
        digest = archive.digest
        if digest is None:
            raise AssertionError("a zip was written that was not read")
        return ResultPackage(
            name=name, size=digest.size, sha256=digest.sha256, crc32=digest.crc32, etag=info.etag
        )

    def _marked(self, archive: Archive) -> RunMark:
        return RunMark(
            uid=self._mark.uid,
            attempt=self._mark.attempt,
            nonce=self._mark.nonce,
            sha256=archive.digest.sha256 if archive.digest else None,
            crc32=archive.digest.crc32 if archive.digest else None,
        )

    async def put_sidecar(self, name: str, body: bytes) -> None:
        """The commit point. Raises `Overtaken`, `Unavailable`."""

        async def upload(condition: Condition) -> BlobInfo:
            return await self._storage.write(
                Container.RESULTS, name, body, metadata=self._mark.to_metadata(), condition=condition
            )

        await self._put(name, upload, lambda present: present.size == len(body))

    async def withdraw(self, package: ResultPackage) -> None:
        """Take away a zip whose sidecar shall never come."""
        with contextlib.suppress(Contested):
            await self._storage.delete(Container.RESULTS, package.name, etag=package.etag)

    async def _put(
        self,
        name: str,
        upload: Callable[[Condition], Awaitable[BlobInfo]],
        ours: Callable[[BlobInfo], bool],
    ) -> BlobInfo:
        condition = await self._judged(name) if self._look_first else Condition(absent=True)
        for _ in range(CONFLICTS_MAX):
            try:
                async for attempt in while_held(self._claim):
                    with attempt:
                        return await upload(condition)
            except Contested:
                present = await self._storage.stat(Container.RESULTS, name)
                if present is not None and self._is_mine(present) and ours(present):
                    return present
                condition = self._condition(name, present)
        raise Unavailable(f"{name} keeps changing under our hands")

    async def _judged(self, name: str) -> Condition:
        return self._condition(name, await self._storage.stat(Container.RESULTS, name))

    def _is_mine(self, present: BlobInfo) -> bool:
        mark = RunMark.from_metadata(present.metadata)
        return mark.nonce is not None and mark.nonce == self._mark.nonce

    def _condition(self, name: str, present: BlobInfo | None) -> Condition:
        """Under which condition ours may replace what is there; raises `Overtaken` where it may not."""
        if present is None:
            return Condition(absent=True)
        mark = RunMark.from_metadata(present.metadata)
        same_job = mark.uid is None or self._mark.uid is None or mark.uid == self._mark.uid
        if same_job and not self._is_mine(present) and (mark.attempt or 0) >= (self._mark.attempt or 0):
            raise Overtaken(f"{name} is there of attempt {mark.attempt}")
        return Condition(etag=present.etag)
