"""Performs a plan's commands on the job store and package storage; each may be made again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final, assert_never
from uuid import uuid4

from aioanalysis import logs
from aioanalysis.aio import finish
from aioanalysis.domain.commands import (
    Admit,
    Archive,
    CleanUp,
    Command,
    Forget,
    Interrupt,
    Note,
    Recover,
    Save,
    Sweep,
    Withdraw,
    Work,
)
from aioanalysis.domain.exchange import (
    Container,
    Control,
    Ending,
    attempt_name,
    claim_name,
    control_name,
    package_name,
    progress_log_name,
    progress_name,
    result_name,
    sidecar_name,
)
from aioanalysis.domain.job import Job
from aioanalysis.domain.planning import SCHEDULER
from aioanalysis.domain.runs import recovered
from aioanalysis.domain.states import State
from aioanalysis.errors import Contested
from aioanalysis.interfaces import Condition, Tombstones
from aioanalysis.operations import Operations
from aioanalysis.scheduler.observing import Observer

LIVE: Final = frozenset({State.WAITING, State.QUEUED, State.RUNNING})
log = logs.get()


class Performer:
    """Performs commands under one fencing number."""

    def __init__(
        self,
        operations: Operations,
        tombstones: Tombstones,
        observer: Observer,
        *,
        fence: int,
        lease_seconds: int,
    ) -> None:
        self._operations = operations
        self._observer = observer
        self._storage = operations.storage
        self._tombstones = tombstones
        self._fence = fence
        self._lease_seconds = lease_seconds
        self._told: dict[str, Control] = {}

    async def perform(self, work: Work) -> None:
        """Perform in order; raises `Contested` or `Missing` when the job has changed: the rest is left."""
        for command in work.commands:
            await self._perform(command)

    async def _perform(self, command: Command) -> None:
        match command:
            case Save(job=job):
                await self._save(job)
            case Withdraw(stem=stem, etag=etag):
                await self._withdraw(stem, etag)
            case Recover():
                await finish(self._recover(command), name="recover")
            case Interrupt(stem=stem, attempt=attempt, action=action):
                await self._interrupt(stem, Control(attempt=attempt, action=action))
            case CleanUp():
                await self._clean_up(command)
            case Archive(stem=stem, ending=ending, attempt=attempt):
                await self._archive(stem, ending, attempt)
            case Sweep(tombstone=tombstone, stem=stem):
                await self._operations.sweep(stem, tombstone.uid)
            case Forget(tombstone=tombstone):
                await self._tombstones.forget(tombstone)
            case Note(text=text):
                log.warning("job_noted", text=text)
            case Admit():
                raise AssertionError("admissions are the packager's")
            case _:
                assert_never(command)

    async def _save(self, job: Job) -> Job:
        saved = await self._operations.save(job, fence=self._fence)
        event = job.history[-1]
        log.info(
            "job_moved",
            job_id=job.id,
            title=job.title,
            state=job.state.value,
            before=event.from_state.value if event.from_state else None,
            cause=event.event,
            attempt=job.attempt,
            reason=job.error.reason.value if job.error else None,
        )
        return saved

    async def _withdraw(self, stem: str, etag: str) -> None:
        try:
            if await self._storage.delete(Container.QUEUE, package_name(stem), etag=etag):
                log.info("package_withdrawn", stem=stem)
        except Contested:
            log.info("package_kept", stem=stem, reason="a worker is claiming it")

    async def _interrupt(self, stem: str, control: Control) -> None:
        """Write the control blob, once a term for each order."""
        if self._told.get(stem) == control:
            return
        await self._storage.write(Container.RESULTS, control_name(stem), control.to_bytes())
        self._told[stem] = control
        log.info("run_told_to_end", stem=stem, attempt=control.attempt, action=control.action)

    async def _recover(self, command: Recover) -> None:
        """Put a lost worker's package back: record first, then the copy, the claim last (PROTOCOL 2)."""
        stem, name = command.stem, claim_name(command.stem)
        lease = str(uuid4())
        await self._storage.acquire_lease(Container.RESULTS, name, lease, self._lease_seconds)
        try:
            claim = await self._storage.stat(Container.RESULTS, name)
            if claim is None or claim.etag != command.claim.etag:
                raise Contested("the claim has changed")
            if await self._has_ended(command):
                raise Contested("its run has ended after all")
            attempt = await self._raise_attempt(command)
            meta = replace(command.claim.meta, attempt=attempt, nonce=None, worker=None)
            try:
                await self._storage.copy(
                    (Container.RESULTS, name),
                    (Container.QUEUE, package_name(stem)),
                    metadata=meta.to_metadata(),
                    source_etag=claim.etag,
                    condition=Condition(absent=True),
                )
            except Contested:
                if await self._storage.stat(Container.QUEUE, package_name(stem)) is None:
                    raise
            await self._delete_words(stem)
            await self._storage.delete(Container.RESULTS, name, lease=lease)
            log.warning("package_recovered", stem=stem, worker=command.claim.meta.worker, attempt=attempt)
        finally:
            await self._storage.release_lease(Container.RESULTS, name, lease)

    async def _raise_attempt(self, command: Recover) -> int:
        """The run's attempt, raised unless that has been done; raises `Contested` if it is not wanted now."""
        attempt = 0

        def decide(job: Job) -> Job | None:
            nonlocal attempt
            frame, now = job.frame(command.number), self._operations.clock()
            if frame is None or frame.phase not in LIVE:
                raise Contested("the run is not wanted any more")
            back = recovered(frame, command.claim, now)
            attempt = frame.attempt if back is None else back.attempt
            if back is None:
                return None
            frames, note = job.with_frame(back), None if back.number is None else f"frame {back.number}"
            return job.noted("lease", by=SCHEDULER, at=now, frames=frames, note=note)

        await self._operations.change(command.job_id, decide, fence=self._fence)
        return attempt

    async def _has_ended(self, command: Recover) -> bool:
        """Whether there is a sidecar of the claim's attempt (or of an older worker, which tells none)."""
        claimed = command.claim.meta
        return any(
            outcome.mark.uid in (None, claimed.uid)
            and (outcome.attempt or claimed.attempt) >= claimed.attempt
            for outcome in await self._observer.outcomes(command.stem)
        )

    async def _delete_words(self, stem: str) -> None:
        """What a run has said of itself, and what it has been told."""
        names = (progress_name(stem), progress_log_name(stem), control_name(stem))
        await asyncio.gather(*(self._storage.delete(Container.RESULTS, name) for name in names))
        self._told.pop(stem, None)

    async def _clean_up(self, command: CleanUp) -> None:
        stem = command.stem
        await self._delete_words(stem)
        if command.claim is not None:
            try:
                await self._storage.delete(Container.RESULTS, claim_name(stem), etag=command.claim.etag)
            except Contested:
                log.info("claim_kept", stem=stem, reason="its worker still holds it")

    async def _archive(self, stem: str, ending: Ending, attempt: int) -> None:
        pairs = (
            (result_name(stem, ending), attempt_name(stem, attempt, ending.value)),
            (sidecar_name(stem, ending), attempt_name(stem, attempt, ending.sidecar_suffix)),
        )
        etags = {}
        for name, target in pairs:
            blob = await self._storage.stat(Container.RESULTS, name)
            if blob is None:
                continue
            etags[name] = blob.etag
            await self._storage.copy(
                (Container.RESULTS, name),
                (Container.RESULTS, target),
                metadata=blob.metadata,
                source_etag=blob.etag,
            )
        for name, etag in reversed(etags.items()):
            await self._storage.delete(Container.RESULTS, name, etag=etag)
        log.info("stale_run_archived", stem=stem, attempt=attempt, ending=ending.name.lower())
