"""Opens the adapters that the settings name, as context managers: where adapters and applications meet."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

from aioanalysis import logs
from aioanalysis.api.context import Gauge
from aioanalysis.counting import counted
from aioanalysis.domain.exchange import WORKERS, Container
from aioanalysis.domain.states import State
from aioanalysis.domain.wrangling import WORKER_SEEN
from aioanalysis.errors import AnalysisError, Misconfigured, Unavailable
from aioanalysis.identity import open_identity
from aioanalysis.interfaces import (
    ExchangeStorage,
    Glances,
    Identity,
    JobEvents,
    Outlooks,
    PassLog,
    ProgressBoard,
    Sessions,
    WorkerRuntime,
)
from aioanalysis.operations import Operations
from aioanalysis.recordstore import open_record_store
from aioanalysis.scheduler.loop import Cadence, Scheduler
from aioanalysis.settings import PREFIX, Settings

Check = Callable[[], Awaitable[str]]
JOB_STORE: Final = "job store"
STORAGE: Final = "storage"
RECORD_STORE: Final = "record store"
MISSED_PASSES: Final = 3
ANSWER_SECONDS: Final = 4.0
"""For a part to answer /readyz and /metrics in; those who ask these have little patience themselves."""
T = TypeVar("T")
log = logs.get()


@dataclass(frozen=True, kw_only=True)
class Service:
    """The parts of API and scheduler, open."""

    settings: Settings
    operations: Operations
    storage: ExchangeStorage
    identity: Identity
    events: JobEvents
    progress: ProgressBoard
    outlooks: Outlooks
    glances: Glances
    sessions: Sessions
    passes: PassLog
    scheduler: Scheduler
    checks: Mapping[str, Check]
    faults: Counter[str]

    async def check(self) -> None:
        """Say what each part is; raises `Misconfigured` or `Unavailable` for the first that is not there."""
        for part, look in self.checks.items():
            try:
                what = await look()
            except Unavailable as error:
                raise Unavailable(f"{error}; `aioanalysis doctor` says how to mend it") from error
            log.info("part_ready", part=part, what=what)

    async def ready(self) -> Mapping[str, str | None]:
        """Each part with what is wrong with it, or None; none holds up the others."""
        looks = {
            JOB_STORE: self.checks[JOB_STORE](),
            STORAGE: self.checks[STORAGE](),
            "scheduler": self._pass_is_recent(),
        }
        answers = await asyncio.gather(*(_in_time(look) for look in looks.values()))
        return {
            part: str(answer) if isinstance(answer, AnalysisError) else None
            for part, answer in zip(looks, answers, strict=True)
        }

    async def gauges(self) -> Sequence[Gauge]:
        """Figures of scheduler and queue for /metrics; a part that does not answer leaves its own out."""
        looks = (self._faults, self._jobs_by_state, self._pass_age, self._queue_length, self._workers)
        found: list[Gauge] = []
        for answer in await asyncio.gather(*(_in_time(look()) for look in looks)):
            if isinstance(answer, AnalysisError):
                log.warning("gauges_missing", error=str(answer))
            else:
                found += answer
        return found

    async def _faults(self) -> Sequence[Gauge]:
        text = "Calls of a part that failed for no fault of the caller, since the process began."
        return [
            Gauge("faults_total", self.faults[part], text, {"part": part}, "counter")
            for part in (STORAGE, RECORD_STORE)
        ]

    async def _jobs_by_state(self) -> Sequence[Gauge]:
        jobs, damaged = await self.operations.jobs.unfinished()
        counts = Counter(job.state for job in jobs)
        text = "Jobs that are not complete, by state."
        states = [
            Gauge("jobs", counts[state], text, {"state": state.value})
            for state in State
            if state is not State.COMPLETE
        ]
        return [*states, Gauge("jobs_damaged", len(damaged), "Job records that cannot be read.")]

    async def _pass_age(self) -> Sequence[Gauge]:
        found = []
        last = await self.passes.last_pass()
        if last is not None:
            age = (self.operations.clock() - last).total_seconds()
            found.append(Gauge("pass_age_seconds", age, "Seconds since the last pass, by whichever process."))
        if self.scheduler.pass_seconds is not None:
            text = "How long this process's last pass took."
            found.append(Gauge("pass_seconds", self.scheduler.pass_seconds, text))
        return found

    async def _queue_length(self) -> Sequence[Gauge]:
        length = 0
        async for _ in self.storage.names(Container.QUEUE):
            length += 1
        return [Gauge("queue_packages", length, "Packages in the queue container.")]

    async def _workers(self) -> Sequence[Gauge]:
        since = self.operations.clock() - WORKER_SEEN
        seen = [
            sign async for sign in self.storage.list(Container.RESULTS, WORKERS) if sign.modified_at >= since
        ]
        text = "Workers that gave a sign of life in the last five minutes."
        return [Gauge("workers_seen", len(seen), text)]

    async def _pass_is_recent(self) -> None:
        """Raises `Unavailable` if the last pass, of whichever process, is too long ago."""
        last = await self.passes.last_pass()
        if last is None:
            raise Unavailable("no pass has been made yet")
        age = (self.operations.clock() - last).total_seconds()
        if age > MISSED_PASSES * self.settings.pass_interval + self.settings.lock_seconds:
            raise Unavailable(f"the last pass was {age:.0f} s ago")


async def _in_time(look: Awaitable[T]) -> T | AnalysisError:
    """What `look` gives, or the fault that kept it from it."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return await look
    except AnalysisError as error:
        return error
    except TimeoutError:
        return Unavailable(f"no answer within {ANSWER_SECONDS:g} s")


@asynccontextmanager
async def open_service(
    settings: Settings, *, packaged: Callable[[], None] | None = None
) -> AsyncIterator[Service]:
    """Open all that API and scheduler need; raises `Misconfigured`. Does not connect: `check` does.

    `packaged` is called after each upload of a package.
    """
    from aioanalysis.jobstore.parts import open_job_store

    if settings.redis_url is None:
        raise Misconfigured(f"there is no job store: set {PREFIX}REDIS_URL, or use `aioanalysis dev`")
    if settings.job_key_secret is None:
        raise Misconfigured(
            f"set {PREFIX}JOB_KEY_SECRET, which seals submitters' keys; `aioanalysis keys secret` makes one"
        )
    async with (
        open_job_store(
            settings.redis_url.get_secret_value(),
            secret=settings.job_key_secret.get_secret_value(),
            prefix=settings.redis_prefix,
            lock_seconds=settings.lock_seconds,
            attached_bytes=settings.attached_total_bytes,
        ) as redis,
        open_storage(settings) as storage,
        open_record_store(settings) as records,
        open_identity(settings) as identity,
    ):
        faults: Counter[str] = Counter()
        storage = counted(storage, STORAGE, faults)
        records = counted(records, RECORD_STORE, faults)
        operations = Operations(
            redis.store,
            storage,
            redis.bell,
            time_limit=settings.time_limit,
            job_expiry=settings.job_expiry,
            attached=redis.attached,
        )
        yield Service(
            settings=settings,
            operations=operations,
            storage=storage,
            identity=identity,
            events=redis.events,
            progress=redis.progress,
            outlooks=redis.outlooks,
            glances=redis.glances,
            sessions=redis.sessions,
            passes=redis.store,
            scheduler=Scheduler(
                operations,
                redis.store,
                redis.store,
                redis.progress,
                redis.outlooks,
                records,
                redis.lock,
                redis.bell,
                _cadence(settings),
                packaged=packaged,
            ),
            checks={JOB_STORE: redis.check, STORAGE: storage.check, RECORD_STORE: records.check},
            faults=faults,
        )


def _cadence(settings: Settings) -> Cadence:
    return Cadence(
        pass_interval=settings.pass_interval,
        watch_interval=settings.watch_interval,
        queue_limit=settings.queue_limit,
        packaging_tasks=settings.packaging_tasks,
        max_recoveries=settings.max_recoveries,
        wrangle_failures=settings.wrangle_failures,
        lease_seconds=settings.lease_seconds,
        lease_grace_seconds=settings.lease_grace_seconds,
        spool=settings.data_dir / "spool",
    )


@asynccontextmanager
async def open_storage(settings: Settings) -> AsyncIterator[ExchangeStorage]:
    """The package storage that `settings` name; raises `Misconfigured`. Does not connect: `check` does."""
    if settings.azure_connection_string or settings.azure_account_url:
        from aioanalysis.storage.azure import open_storage as open_azure

        async with open_azure(settings) as azure:
            yield azure
    elif settings.storage_directory:
        from aioanalysis.storage.directory import open_storage as open_directory

        async with open_directory(settings) as directory:
            yield directory
    else:
        names = ("AZURE_CONNECTION_STRING", "AZURE_ACCOUNT_URL", "STORAGE_DIRECTORY")
        raise Misconfigured(f"there is no package storage: set one of {', '.join(PREFIX + n for n in names)}")


@asynccontextmanager
async def open_runtime(settings: Settings) -> AsyncIterator[WorkerRuntime]:
    """What runs methods here: the docker engine, or child processes."""
    from aioanalysis.runtime.opening import open_runtime as open_chosen

    async with open_chosen(settings) as runtime:
        yield runtime
