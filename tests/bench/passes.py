"""P6: a pass over many unfinished jobs that changes nothing, held to listing the containers' names."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import islice

from azure.storage.blob.aio import BlobServiceClient, ContainerClient
from cryptography.fernet import Fernet
from redis.asyncio import Redis

from aioanalysis.aio import Tasks
from aioanalysis.domain.exchange import Container, PackageMeta, package_name
from aioanalysis.domain.states import State
from aioanalysis.interfaces import ExchangeStorage
from aioanalysis.scheduler.passes import Passes
from aioanalysis.settings import load
from aioanalysis.wiring import open_service
from tests.bench.measuring import KIB, Bench, Finding, alternated, resident_bytes
from tests.bench.population import QUEUED, multiply_blob, result_names, store_jobs, unfinished_jobs
from tests.support.jobs import make_job
from tests.support.servers import Azurite

WARM = 100


async def measure(bench: Bench) -> AsyncIterator[Finding]:
    sizes = bench.pick((1_000, 3_000), (1_000, 10_000, 100_000))
    whole: dict[int, float] = {}
    async with AsyncExitStack() as stack:
        crowd = await stack.enter_async_context(crowded(bench))
        for size in sizes:
            await crowd.grow(size)
            held = await crowd.first_pass()
            found = await alternated(
                2 if size > 10_000 else bench.rounds,
                listing=crowd.list_names,
                full=lambda: crowd.passes.run(full=True),
                watch=lambda: crowd.passes.run(full=False),
            )
            whole[size] = min(found["full"])
            for finding in _of_size(size, found, held):
                yield finding
        yield Finding(
            goal="P6",
            what="memory of Redis a job",
            unit="KiB",
            ours=[await crowd.redis_bytes() / KIB],
            by="value",
        )
        yield Finding(
            goal="P6",
            what=f"time a job of {sizes[-1]:,} to that of {sizes[0]:,} (linear: 1)",
            unit="us",
            ours=[whole[sizes[-1]] / sizes[-1] * 1e6],
            limit=[whole[sizes[0]] / sizes[0] * 1e6],
        )
    async for finding in _beside_old_results(bench):
        yield finding


def _of_size(size: int, found: Mapping[str, Sequence[float]], held: float) -> Iterator[Finding]:
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
        goal="P6", what=f"memory a job, {size:,}", unit="KiB", ours=[held / KIB], by="value", most=2
    )


async def _beside_old_results(bench: Bench) -> AsyncIterator[Finding]:
    """1,000 jobs, with as many results and then with 100 times as many that nobody took away."""
    async with crowded(bench) as crowd:
        await crowd.grow(1_000)
        await crowd.first_pass()
        works = {"watch": lambda: crowd.passes.run(full=False), "look": crowd.list_queue}
        rounds = bench.pick(5, 15)
        few = await alternated(rounds, **works)
        count = bench.pick(10_000, 100_000)
        old = (make_job(state=State.COMPLETE, title="old") for _ in range(count // 2))
        crowd.add_results([name for job in old for name in result_names(job)])
        many = await alternated(rounds, **works)
        many |= await alternated(1, full=lambda: crowd.passes.run(full=True), listing=crowd.list_names)
    yield Finding(
        goal="P6",
        what=f"watch pass over 1,000 with {count:,} old results, to the same with 1,000",
        unit="s",
        ours=many["watch"],
        limit=few["watch"],
        most=1.5,
    )
    yield Finding(
        goal="P6",
        what=f"list of the {QUEUED} names in the queue by the SDK alone, as before",
        unit="s",
        ours=many["look"],
        limit=few["look"],
        note="what the storage itself adds",
    )
    yield Finding(
        goal="P6",
        what=f"full pass over 1,000 with {count:,} old results",
        unit="s",
        ours=many["full"],
        limit=many["listing"],
        most=1.5,
    )


@dataclass
class Office:
    """A `Holding` without a lock: nobody else passes here."""

    fence: int = 0
    lost: bool = False

    async def wait_lost(self) -> None:
        await asyncio.Event().wait()


@asynccontextmanager
async def crowded(bench: Bench) -> AsyncIterator[Crowd]:
    """A small crowd, in storage and a job store of its own."""
    redis, name = bench.redis(), bench.fresh("crowd")
    queue, results = f"{name}-queue", f"{name}-results"
    async with AsyncExitStack() as stack:
        # Azurite of its own: the more blobs it holds, the slower is every call of everybody.
        azurite = stack.enter_context(Azurite(bench.require("azurite")))
        settings = load(
            redis_url=redis.url,
            redis_prefix=f"{name}:",
            system_token="a-token",
            job_key_secret=Fernet.generate_key().decode(),
            azure_connection_string=azurite.connection_string,
            queue_container=queue,
            results_container=results,
            records_directory=bench.new_folder("records"),
            data_dir=bench.new_folder("data"),
        )
        service = await stack.enter_async_context(open_service(settings))
        tasks = await stack.enter_async_context(Tasks())
        client = await stack.enter_async_context(
            BlobServiceClient.from_connection_string(azurite.connection_string)
        )
        containers = [client.get_container_client(container) for container in (queue, results)]
        for container in containers:
            await container.create_container()
        crowd = Crowd(
            azurite=azurite,
            storage=service.operations.storage,
            containers=containers,
            store=await stack.enter_async_context(Redis.from_url(redis.url)),
            prefix=f"{name}:",
            passes=service.scheduler.passes(Office(), tasks),
        )
        await crowd.grow(WARM)
        await crowd.passes.run(full=True)  # what it imports, and what it needs once, is no job's
        await crowd.begin()
        yield crowd


class Crowd:
    """A scheduler over many unfinished jobs of which nothing is to be done, and what they take."""

    def __init__(
        self,
        *,
        azurite: Azurite,
        storage: ExchangeStorage,
        containers: Sequence[ContainerClient],
        store: Redis,
        prefix: str,
        passes: Passes,
    ) -> None:
        self.passes = passes
        self._azurite = azurite
        self._storage = storage
        self._containers = containers
        self._store = store
        self._prefix = prefix
        self._people = unfinished_jobs()
        self._count = 0
        self._redis_before = self._resident_before = 0

    async def begin(self) -> None:
        """Count what is used from here on."""
        gc.collect()
        self._resident_before = resident_bytes()
        self._redis_before = await self._used()

    async def grow(self, size: int) -> None:
        """Make it `size` jobs, a failed one with its package, a queued one with its own."""
        new = list(islice(self._people, size - self._count))
        self._count = size
        await store_jobs(self._store, self._prefix, new)
        for job in new:
            if job.state is State.QUEUED:
                meta = PackageMeta(uid=job.uid, attempt=1, owner=job.submitter).to_metadata()
                await self._storage.write(Container.QUEUE, package_name(job.name), b"{}", metadata=meta)
        self.add_results([name for job in new if job.state is State.FAILED for name in result_names(job)])

    def add_results(self, names: Sequence[str]) -> None:
        multiply_blob(self._azurite, self._containers[1].container_name, names)

    async def first_pass(self) -> float:
        """The bytes that the process holds for each job, after a pass that has read them."""
        await self.passes.run(full=True)
        gc.collect()
        return (resident_bytes() - self._resident_before) / (self._count - WARM)

    async def list_names(self) -> None:
        for container in self._containers:
            async for _ in container.list_blob_names():
                pass

    async def list_queue(self) -> None:
        async for _ in self._containers[0].list_blob_names():
            pass

    async def redis_bytes(self) -> float:
        """What a job takes in Redis."""
        return (await self._used() - self._redis_before) / (self._count - WARM)

    async def _used(self) -> int:
        return int((await self._store.info("memory"))["used_memory"])
