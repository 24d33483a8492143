"""The only code that changes a stored job: load, decide, compare-and-set; for API and scheduler."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import uuid4

from aioanalysis import logs
from aioanalysis.domain.actions import act, overridden
from aioanalysis.domain.dependencies import Dependency
from aioanalysis.domain.exchange import (
    Container,
    Control,
    PackageMeta,
    attempt_name,
    claim_name,
    control_name,
    package_name,
    progress_log_name,
    progress_name,
    snapshot_name,
)
from aioanalysis.domain.frames import Frame, Hold
from aioanalysis.domain.job import ID_ALPHABET, ID_LENGTH, HistoryEvent, Job, Source, Split, Tombstone
from aioanalysis.domain.records import Selection
from aioanalysis.domain.states import Action, State, check_action
from aioanalysis.domain.wrangling import is_held
from aioanalysis.errors import (
    AnalysisError,
    Contested,
    Forbidden,
    Invalid,
    Missing,
    NotFound,
    Refused,
    Unavailable,
)
from aioanalysis.interfaces import AttachedRecords, Bell, ExchangeStorage, LeaseState, SubmissionStore, User

TRIES: Final = 20
ONCE_SECONDS: Final = 24 * 3600
log = logs.get()


def utc_now() -> datetime:
    """The present time; the one clock of API and scheduler."""
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class NewJob:
    """What a client asks for, checked."""

    title: str
    params: Mapping[str, Any]
    source: Source
    selection: Selection | None = None
    record_count: int | None = None
    tags: tuple[str, ...] = ()
    frames: tuple[Mapping[str, Any], ...] = ()
    split: Split | None = None
    after: tuple[Dependency, ...] = ()
    hold: bool = False
    retries: int = 0
    resubmitted_from: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Once:
    """A client's word that requests with this token are one; `content` is what must be the same in them."""

    token: str
    content: bytes


class Operations:
    """Changes of stored jobs. Safe concurrently: every write is a compare-and-set, made again on conflict."""

    def __init__(
        self,
        jobs: SubmissionStore,
        storage: ExchangeStorage,
        bell: Bell,
        *,
        attached: AttachedRecords,
        time_limit: float,
        job_expiry: float,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self.jobs = jobs
        self.storage = storage
        self.bell = bell
        self.attached = attached
        self.clock = clock
        self._time_limit = timedelta(seconds=time_limit)
        self._job_expiry = timedelta(seconds=job_expiry)

    async def submit(self, new: NewJob, user: User, key: str, *, once: Once | None = None) -> Job:
        """Record a new job, all or nothing, and wake the scheduler.

        With `once`, the job that the same request has made within 24 h is given again. Raises `Invalid` when
        its token came with other content, `Refused` when its job has been removed.
        """
        now = self.clock()
        health = (await self.jobs.method_health()).get(new.title)
        held = health is not None and health.held_since is not None
        frames = _first_frames(new, method_is_held=held)
        for _ in range(TRIES):
            job_id, uid = _new_id() if once is None else await self._claimed_id(once, user)
            job = Job(
                id=job_id,
                uid=uid,
                title=new.title,
                params=new.params,
                source=new.source,
                selection=new.selection,
                record_count=new.record_count,
                tags=new.tags,
                split=new.split,
                after=new.after,
                retries=new.retries,
                resubmitted_from=new.resubmitted_from,
                state=frames[0].phase,
                frames=frames,
                wrangled=health.evidence if health is not None and held else None,
                submitter=user.name,
                submitted_at=now,
                expires_at=now + self._job_expiry,
                deadline=now + self._time_limit,
                state_changed_at=now,
                last_updated=now,
                history=(
                    HistoryEvent(
                        at=now, event="submit", from_state=None, to_state=frames[0].phase, by=user.name
                    ),
                ),
            )
            if job.source.kind == "attached":  # before the record: no job is ever without its records
                await self.attached.keep(job.source.value or "", job.expires_at)
            try:
                stored = await self.jobs.create(job, key)
            except Contested:
                if once is not None:
                    raise Refused("the job of this Idempotency-Key has been removed") from None
                continue  # the id is taken
            if stored.submitted_at != job.submitted_at:
                return stored  # by an earlier request
            log.info("job_submitted", job_id=job.id, title=job.title, submitter=job.submitter)
            await self.bell.ring()
            return stored
        raise Unavailable("no free job id was found")

    async def _claimed_id(self, once: Once, user: User) -> tuple[str, str]:
        """The id and uid that the first request with this token took: they make every repeat the same job."""
        digest = hashlib.sha256(once.content).hexdigest()
        token = f"{user.name}\0{once.token}"
        meaning = await self.jobs.claim(token, ":".join((*_new_id(), digest)), seconds=ONCE_SECONDS)
        job_id, uid, known = meaning.split(":")
        if known != digest:
            raise Invalid("this Idempotency-Key was used for another request within 24 h")
        return job_id, uid

    async def save(self, job: Job, *, fence: int) -> Job:
        """Write a scheduler's decision; raises `Contested` or `Missing`: the next pass decides anew."""
        return await self.jobs.replace(replace(job, last_updated=self.clock()), fence=fence)

    async def change(
        self, job_id: str, decide: Callable[[Job], Job | None], *, fence: int | None = None
    ) -> Job:
        """Load, decide, write, again on conflict. `decide` gives None to leave the job as it is.

        Raises `Missing` when the job is not there, and whatever `decide` raises.
        """
        for _ in range(TRIES):
            job = await self.jobs.get(job_id)
            if job is None:
                raise Missing(f"job {job_id} is not there")
            changed = decide(job)
            if changed is None:
                return job
            try:
                return await self.jobs.replace(changed, fence=fence)
            except Contested:
                if fence is not None:
                    raise
        raise Unavailable(f"job {job_id} keeps changing")

    async def override(self, job_id: str, to: State, user: User) -> Job:
        """Set any state by hand; a live run is interrupted and what it leaves counts no more."""

        def decide(job: Job) -> Job:
            return overridden(job, to, by=user.name, now=self.clock())

        try:
            job = await self.change(job_id, decide)
        except Missing:
            raise NotFound(f"there is no job {job_id}") from None
        log.info("job_overridden", job_id=job.id, state=job.state.value, by=user.name)
        await self.bell.ring()
        return job

    async def act(self, job_id: str, action: Action, user: User, *, all_frames: bool = False) -> Job:
        """Apply a control action, and wake the scheduler, which makes storage follow.

        Raises `NotFound`, `InvalidTransition` with the actions that fit, `Forbidden` for what is an
        administrator's to release.
        """

        frees_method = False

        def decide(job: Job) -> Job:
            nonlocal frees_method
            frees_method = action is Action.UNBLOCK and is_held(job)
            if frees_method and not user.sees_all:
                raise Forbidden(
                    f"{job.title} is held because its packages fail; an administrator can release it"
                )
            return act(
                job,
                action,
                by=user.name,
                now=self.clock(),
                time_limit=self._time_limit,
                all_frames=all_frames,
            )

        try:
            job = await self.change(job_id, decide)
        except Missing:
            raise NotFound(f"there is no job {job_id}") from None
        if frees_method:
            await self.jobs.clear_method_health(job.title)
        log.info("job_acted_on", job_id=job.id, action=action.value, state=job.state.value, by=user.name)
        await self.bell.ring()
        return job

    async def remove(self, job_id: str, user: User, *, force: bool) -> None:
        """Remove a job with all its files; raises `NotFound`, `InvalidTransition`.

        The record goes first, leaving a tombstone: what a pass or a worker still adds is swept later.
        """
        action = Action.FORCE if force else Action.REMOVE
        for _ in range(TRIES):
            job = await self.jobs.get(job_id)
            if job is None:
                raise NotFound(f"there is no job {job_id}")
            check_action(job.state, action)
            try:
                await self.jobs.remove(job, self._tombstone(job))
            except Contested:
                continue
            log.info("job_removed", job_id=job.id, state=job.state.value, by=user.name, force=force)
            await self._remove_files(job)
            await self.bell.ring()
            return
        raise Unavailable(f"job {job_id} keeps changing")

    def _tombstone(self, job: Job) -> Tombstone:
        now = self.clock()
        return Tombstone(
            id=job.id,
            uid=job.uid,
            stems=tuple(dict.fromkeys((job.name, *job.stems))),
            state=job.state,
            removed_at=now,
            keep_until=now + self._job_expiry,
        )

    async def _remove_files(self, job: Job) -> None:
        """Best effort: the tombstone makes the scheduler sweep what is left; attached records expire."""
        try:
            if job.source.kind == "attached":
                await self.attached.drop(job.source.value or "")
            for stem in dict.fromkeys((job.name, *job.stems)):
                await self._discard(stem)
                await self._withdraw(stem, job.uid)
                await self.sweep(stem, job.uid)
        except AnalysisError as error:
            log.warning("removal_left_to_sweep", job_id=job.id, error=str(error))

    async def _withdraw(self, stem: str, uid: str) -> None:
        name = package_name(stem)
        package = await self.storage.stat(Container.QUEUE, name)
        if package and PackageMeta.from_metadata(package.metadata).uid in (None, uid):
            await self.storage.delete(Container.QUEUE, name, etag=package.etag)

    async def _discard(self, stem: str) -> None:
        """Tell the worker that holds the stem, if one does, to end its run."""
        claim = await self.storage.stat(Container.RESULTS, claim_name(stem))
        if claim is not None and claim.lease is LeaseState.HELD:
            control = Control(attempt=PackageMeta.from_metadata(claim.metadata).attempt, action="discard")
            await self.storage.write(Container.RESULTS, control_name(stem), control.to_bytes())

    async def sweep(self, stem: str, uid: str) -> None:
        """Delete every file in results that belongs to the removed job `uid`, attempts included."""
        for prefix in (f"{stem}.", attempt_name(stem, 0, "").removesuffix("0")):
            async for blob in self.storage.list(Container.RESULTS, prefix):
                if blob.metadata.get("uid") in (None, uid):
                    await self._delete(blob.name)
        await self._delete(progress_name(stem))
        await self._delete(progress_log_name(stem))
        await self._delete(snapshot_name(stem))

    async def _delete(self, name: str) -> None:
        try:
            await self.storage.delete(Container.RESULTS, name)
        except Contested:
            log.info("delete_refused", name=name)


def _new_id() -> tuple[str, str]:
    """A fresh (id, uid)."""
    bits = secrets.randbits(5 * ID_LENGTH)
    return "".join(ID_ALPHABET[bits >> 5 * place & 31] for place in range(ID_LENGTH)), uuid4().hex


def _first_frames(new: NewJob, *, method_is_held: bool) -> tuple[Frame, ...]:
    """The runs of a new job: blocked while it or its method is held, or it waits for others."""
    given = ((Hold.DEPENDENCIES, new.after), (Hold.USER, new.hold), (Hold.METHOD, method_is_held))
    holds = frozenset(hold for hold, applies in given if applies)
    phase = State.BLOCKED if holds else State.WAITING
    if not new.frames:
        return (Frame(phase=phase, holds=holds),)
    return tuple(
        Frame(number=number, params=params, phase=phase, holds=holds)
        for number, params in enumerate(new.frames, start=1)
    )
