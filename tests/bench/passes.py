"""P6: a pass over many unfinished jobs that changes nothing, held to listing the containers' names."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import aiohttp
from azure.storage.blob import ContainerSasPermissions, generate_container_sas
from azure.storage.blob.aio import BlobServiceClient
from cryptography.fernet import Fernet
from redis.asyncio import Redis

from aioanalysis.aio import Tasks
from aioanalysis.domain.exchange import Ending, PackageMeta, package_name, result_name, sidecar_name
from aioanalysis.domain.job import Job
from aioanalysis.domain.states import State
from aioanalysis.scheduler.passes import Passes
from aioanalysis.settings import Settings, load
from aioanalysis.wiring import open_service
from tests.bench.measuring import KIB, Bench, Finding, alternated, resident_bytes
from tests.support.jobs import make_job
from tests.support.servers import Azurite

QUEUED = 10
AT_ONCE = 32


async def measure(bench: Bench) -> AsyncIterator[Finding]:
    sizes = bench.pick((1_000, 5_000), (1_000, 10_000, 100_000))
    whole: dict[int, float] = {}
    async with AsyncExitStack() as stack:
        for size in sizes:
            crowd = await stack.enter_async_context(crowded(bench, jobs=size, results=size))
            rounds = 3 if size > 10_000 else bench.rounds
            gc.collect()
            before = resident_bytes()
            await crowd.passes.run(full=True)
            gc.collect()
            grown = resident_bytes() - before
            found = await alternated(
                rounds,
                listing=crowd.list_names,
                full=lambda crowd=crowd: crowd.passes.run(full=True),  # type: ignore[misc]
                watch=lambda crowd=crowd: crowd.passes.run(full=False),  # type: ignore[misc]
            )
            whole[size] = min(found["full"])
            yield Finding(
                goal="P6",
                what=f"full pass over {size:,} unfinished jobs and results",
                unit="s",
                ours=found["full"],
                limit=found["listing"],
                most=1.5,
            )
            yield Finding(
                goal="P6",
                what=f"watch pass over {size:,}, {QUEUED} of them live",
                unit="s",
                ours=found["watch"],
                by="value",
            )
            yield Finding(
                goal="P6",
                what=f"memory a job, {size:,}",
                unit="KiB",
                ours=[grown / size / KIB],
                by="value",
                most=2,
            )
        yield Finding(
            goal="P6",
            what="memory of Redis a job",
            unit="KiB",
            ours=[crowd.redis_bytes / sizes[-1] / KIB],
            by="value",
        )
        yield Finding(
            goal="P6",
            what=f"time a job of {sizes[-1]:,} to that of {sizes[0]:,} (linear: 1)",
            unit="us",
            ours=[whole[sizes[-1]] / sizes[-1] * 1e6],
            limit=[whole[sizes[0]] / sizes[0] * 1e6],
        )
        few = await stack.enter_async_context(crowded(bench, jobs=1_000, results=1_000))
        many = await stack.enter_async_context(
            crowded(bench, jobs=1_000, results=0, containers=crowd.containers)
        )
        found = await alternated(
            bench.rounds,
            many=lambda: many.passes.run(full=False),
            few=lambda: few.passes.run(full=False),
        )
        yield Finding(
            goal="P6",
            what=f"watch pass over 1,000 with {sizes[-1]:,} old results, to the same with 1,000",
            unit="s",
            ours=found["many"],
            limit=found["few"],
            most=1.5,
        )


@dataclass
class Office:
    """A `Holding` without a lock: nobody else passes here."""

    fence: int = 0
    lost: bool = False

    async def wait_lost(self) -> None:
        await asyncio.Event().wait()


@dataclass(kw_only=True)
class Crowd:
    """A scheduler over many unfinished jobs of which nothing is to be done."""

    passes: Passes
    containers: tuple[str, str]
    list_names: Callable[[], Awaitable[None]]
    redis_bytes: int


@asynccontextmanager
async def crowded(
    bench: Bench, *, jobs: int, results: int, containers: tuple[str, str] | None = None
) -> AsyncIterator[Crowd]:
    """`jobs` unfinished ones: 10 queued, of the others half waiting, half failed with their packages."""
    azurite, name = bench.azurite(), bench.fresh("crowd")
    made = containers or (f"{name}-queue", f"{name}-results")
    settings = load(
        redis_url=bench.redis().url,
        redis_prefix=f"{name}:",
        system_token="a-token",
        job_key_secret=Fernet.generate_key().decode(),
        azure_connection_string=azurite.connection_string,
        queue_container=made[0],
        results_container=made[1],
        records_directory=bench.new_folder("records"),
        data_dir=bench.new_folder("data"),
    )
    population = _population(jobs)
    async with (
        open_service(settings) as service,
        Tasks() as tasks,
        BlobServiceClient.from_connection_string(azurite.connection_string) as client,
    ):
        store = service.operations.jobs
        used = await _redis_bytes(settings)
        for start in range(0, jobs, 500):
            await asyncio.gather(
                *(store.create(job, "a-submitters-key") for job in population[start : start + 500])
            )
        held = await _redis_bytes(settings) - used
        if containers is None:
            for container in made:
                await client.create_container(container)
            await _fill(azurite, made[1], _result_names(population, results), {})
        for job in population[:QUEUED]:
            meta = PackageMeta(uid=job.uid, attempt=1, owner=job.submitter).to_metadata()
            await _fill(azurite, made[0], [package_name(job.name)], meta)

        async def list_names() -> None:
            for container in made:
                async for _ in client.get_container_client(container).list_blob_names():
                    pass

        passes = service.scheduler.passes(Office(), tasks)
        yield Crowd(passes=passes, containers=made, list_names=list_names, redis_bytes=held)


async def _redis_bytes(settings: Settings) -> int:
    assert settings.redis_url is not None
    async with Redis.from_url(settings.redis_url.get_secret_value()) as client:
        return int((await client.info("memory"))["used_memory"])


def _population(count: int) -> list[Job]:
    start = datetime.now(UTC) - timedelta(hours=1)
    states = [State.QUEUED] * QUEUED
    states += [State.WAITING if n % 2 else State.FAILED for n in range(count - QUEUED)]
    return [
        make_job(
            state=state,
            submitter=f"user-{n % 50}",
            submitted_at=start + timedelta(milliseconds=n),
            deadline=start + timedelta(days=1),
        )
        for n, state in enumerate(states)
    ]


def _result_names(jobs: Sequence[Job], count: int) -> list[str]:
    names: list[str] = []
    for job in jobs:
        if job.state is State.FAILED and len(names) < count:
            names += [result_name(job.name, Ending.FAILED), sidecar_name(job.name, Ending.FAILED)]
    return names


async def _fill(azurite: Azurite, container: str, names: Sequence[str], metadata: dict[str, str]) -> None:
    """Make small blobs of these names, many at once, past the SDK."""
    sas = generate_container_sas(
        azurite.account,
        container,
        account_key=azurite.key,
        permission=ContainerSasPermissions(write=True, create=True),
        expiry=datetime.now(UTC) + timedelta(hours=1),
    )
    headers = {"x-ms-blob-type": "BlockBlob", **{f"x-ms-meta-{k}": v for k, v in metadata.items()}}
    pending = iter(names)

    async def put(session: aiohttp.ClientSession) -> None:
        for name in pending:
            url = f"{azurite.endpoint}/{container}/{name}?{sas}"
            async with session.put(url, data=b"{}", headers=headers) as answer:
                answer.raise_for_status()

    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(put(session) for _ in range(AT_ONCE)))
