"""Checks of what all processes share: the job store, the package storage, and through it the workers."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from aioanalysis import __version__
from aioanalysis.cli.findings import Finding, Status, skew
from aioanalysis.domain.exchange import WORKERS, Container
from aioanalysis.domain.states import State
from aioanalysis.domain.wrangling import WORKER_SEEN
from aioanalysis.errors import AnalysisError, Damaged, Misconfigured, Missing, SystemFault
from aioanalysis.interfaces import ExchangeStorage, JobFilter
from aioanalysis.settings import PREFIX, Settings
from aioanalysis.signs import read_sign

PROBE_LEASE_SECONDS: Final = 15


async def job_store(settings: Settings) -> AsyncIterator[Finding]:
    if settings.redis_url is None:
        text = f"{PREFIX}REDIS_URL is not set: a worker needs none, `serve` does"
        yield Finding("job store", Status.ABSENT, text)
        return
    if settings.job_key_secret is None:
        raise Misconfigured(f"{PREFIX}JOB_KEY_SECRET is not set; `aioanalysis keys secret` prints one")
    from aioanalysis.jobstore.client import server_time
    from aioanalysis.jobstore.parts import open_job_store

    secret = settings.job_key_secret.get_secret_value()
    url = settings.redis_url.get_secret_value()
    async with open_job_store(url, secret=secret, prefix=settings.redis_prefix) as redis:
        where = await redis.check()
        for risk in sorted(redis.told):
            trouble, _, mend = risk.rpartition(": ")
            yield Finding("job store", Status.WARNING, trouble, f"{mend} in the server's configuration")
        yield Finding("job store", Status.OK, where.partition(";")[0])
        before = datetime.now(UTC)
        theirs = await server_time(redis.client)
        for finding in skew("the job store's", theirs - before - (datetime.now(UTC) - before) / 2):
            yield finding
        waiting = await redis.store.page(JobFilter(states=frozenset({State.WAITING})), limit=1)
        for job in waiting.jobs:
            try:
                await redis.store.key(job.id)
            except Damaged as error:
                mend = f"put the former secret after the present one in {PREFIX}JOB_KEY_SECRET"
                yield Finding("job store", Status.WRONG, f"job {job.id}: {error}", mend)
            except Missing:
                continue
        yield _last_pass(await redis.store.last_pass(), settings)


def _last_pass(last: datetime | None, settings: Settings) -> Finding:
    mend = "is `aioanalysis serve` running? Its log tells of passes that fail"
    if last is None:
        return Finding("scheduler", Status.WARNING, "no pass has been made yet", mend)
    age = (datetime.now(UTC) - last).total_seconds()
    late = age > 3 * settings.pass_interval + settings.lock_seconds
    text = f"the last pass was {max(age, 0):.0f} s ago"
    return Finding("scheduler", Status.WARNING if late else Status.OK, text, mend if late else None)


async def storage(settings: Settings) -> AsyncIterator[Finding]:
    """All that scheduler and workers do with blobs is tried, on one whose name neither looks at."""
    if not (settings.azure_connection_string or settings.azure_account_url or settings.storage_directory):
        names = ", ".join(
            PREFIX + n for n in ("AZURE_CONNECTION_STRING", "AZURE_ACCOUNT_URL", "STORAGE_DIRECTORY")
        )
        yield Finding("storage", Status.ABSENT, f"none of {names} is set: `serve` and `worker` need one")
        return
    from aioanalysis.wiring import open_storage

    async with open_storage(settings) as opened:
        where = await opened.check()
        ahead = await _try_blobs(opened)
        yield Finding("storage", Status.OK, f"{where}; write, lease, copy, read and delete work")
        for finding in skew("the storage's", ahead):
            yield finding
        async for finding in _workers(opened):
            yield finding


async def _try_blobs(opened: ExchangeStorage) -> timedelta:
    """Raises what does not work; gives how far the storage's clock is ahead of ours."""
    name, lease, step = f"doctor/{uuid.uuid4().hex}", str(uuid.uuid4()), "writing"
    try:
        before = datetime.now(UTC)
        written = await opened.write(Container.QUEUE, name, b"doctor")
        ahead = written.modified_at - before
        step = "leasing"
        await opened.acquire_lease(Container.QUEUE, name, lease, PROBE_LEASE_SECONDS)
        step = "copying between the containers"
        await opened.copy((Container.QUEUE, name), (Container.RESULTS, name), metadata={"by": "doctor"})
        step = "reading"
        async with opened.open(Container.RESULTS, name) as stream:
            if b"".join([piece async for piece in stream.chunks()]) != b"doctor":
                raise Damaged("a blob is read other than it was written")
        step = "deleting"
        await opened.delete(Container.QUEUE, name, lease=lease)
        await opened.delete(Container.RESULTS, name)
    except SystemFault as error:
        for container in Container:
            with suppress(AnalysisError):
                await opened.delete(container, name)
        raise type(error)(f"{step} a blob fails: {error}") from error
    return ahead


async def _workers(opened: ExchangeStorage) -> AsyncIterator[Finding]:
    seen = 0
    async for blob in opened.list(Container.RESULTS, WORKERS):
        if datetime.now(UTC) - blob.modified_at > WORKER_SEEN:
            continue
        try:
            sign = await read_sign(opened, blob.name)
        except Damaged as error:
            yield Finding("workers", Status.WARNING, f"{blob.name} cannot be read: {error}")
            continue
        if sign.state == "stopped":
            continue
        seen += 1
        if sign.at is not None:
            for finding in skew(f"worker {sign.worker}'s", sign.at - blob.modified_at):
                yield finding
        if sign.service_version != __version__:
            text = f"{sign.worker} is of version {sign.service_version or 'unknown'}, this is {__version__}"
            yield Finding("workers", Status.WARNING, text, "bring all processes to one version")
        if sign.state == "low_disk":
            text, mend = f"{sign.worker} claims nothing, its disk is full", "make room on its host"
            yield Finding("workers", Status.WRONG, text, mend)
    if seen:
        yield Finding("workers", Status.OK, f"{seen} seen in the last {WORKER_SEEN.seconds // 60} minutes")
    else:
        yield Finding(
            "workers", Status.WARNING, "none seen", "start `aioanalysis worker` on an analysis host"
        )
