"""P1, P2, P3, P10: jobs that do nothing, from submission to `complete`, held to their bare container."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, aclosing, asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import aiodocker
import psutil

from aioanalysis.client import UNFINISHED, AnalysisClient, JobJson, open_client
from tests.bench.bare import run_bare
from tests.bench.celerypeer import celery_workers
from tests.bench.deployments import METHODS, RECORDS, Backend, deployed, running_dev
from tests.bench.measuring import MIB, Bench, Finding, NotMeasured, Spent, seconds
from tests.support.parts import BASE_IMAGE
from tests.support.waiting import eventually

WATCH = 0.1  # of a client that waits for many: what it costs is the machine's, too
END_WITHIN = 120.0
SLOTS = 2
Run = Callable[[], Awaitable[Any]]


async def latency_in_dev(bench: Bench) -> AsyncIterator[Finding]:
    bench.require("base-image")
    async with _dev(bench) as client, _bare(bench) as bare:
        ours, limit = await _in_turns(bench.pick(5, 20), lambda: _one(client), bare)
    yield Finding(
        goal="P1",
        what="no-op job in dev, from submission until seen complete, to its bare container",
        unit="s",
        ours=ours,
        limit=limit,
        most=1.2,
    )


async def latency_in_processes(bench: Bench) -> AsyncIterator[Finding]:
    bench.require("base-image")
    with deployed(bench, "azurite") as deployment:
        deployment.serve()
        deployment.worker("w1")
        async with deployment.client() as client, _bare(bench) as bare:
            ours, limit = await _in_turns(bench.pick(5, 20), lambda: _one(client), bare)
    late = sorted(ours)[min(int(len(ours) * 0.95), len(ours) - 1)]
    text = "no-op job on Redis, Azurite and two processes, beyond its bare container"
    yield Finding(goal="P2", what=text, unit="s", ours=ours, limit=limit, by="difference", most=0.5)
    yield Finding(
        goal="P2", what=f"{text}, p95", unit="s", ours=[late], limit=limit, by="difference", most=1.0
    )


async def throughput(bench: Bench) -> AsyncIterator[Finding]:
    bench.require("base-image")
    count, rounds = bench.pick(6, 50), bench.pick(1, 2)
    least: dict[Backend, float] = {"directory": 0.95, "azurite": 0.75}
    with _celery(bench) as (celery, reason):
        for backend in least:
            with deployed(bench, backend) as deployment:
                api = deployment.serve()
                worker = deployment.worker("w1", worker_jobs=SLOTS)
                parts = {"API and scheduler": api.process.pid, "worker": worker.process.pid}
                if backend == "azurite":
                    parts["Azurite"] = bench.azurite().pid
                spent, spent_bare = Spent(parts), Spent()
                async with deployment.client() as client, _bare(bench) as bare:
                    await _one(client)
                    works: list[Run] = [
                        spent.by_work(partial(_many, client, count)),
                        spent_bare.by_work(partial(_at_once, bare, count)),
                    ]
                    if celery is not None:
                        works.append(partial(_by_celery, celery, count))
                    times = await _in_turns(rounds, *works, before=lambda: _one(client))
            ours, limit, *peer = [[count / one for one in each] for each in times]
            what = f"{count} no-op jobs, {SLOTS} at a time, {backend}, to as many"
            yield Finding(
                goal="P3",
                what=f"{what} bare containers",
                unit="jobs/s",
                ours=ours,
                limit=limit,
                least=least[backend],
                note="a job before each round: how soon an idle worker looks is P2's",
            )
            for figures in peer:
                yield Finding(
                    goal="P3",
                    what=f"{what} by Celery, prefork",
                    unit="jobs/s",
                    ours=ours,
                    limit=figures,
                    least=1.0 if backend == "directory" else None,
                )
            yield Finding(
                goal="P3",
                what=f"CPU of the whole machine a job, {backend}, to that of a bare container",
                unit="ms",
                ours=[one / count * 1000 for one in spent.machine[1:]],
                limit=[one / count * 1000 for one in spent_bare.machine[1:]],
            )
            for part, figures in spent.by.items():
                yield Finding(
                    goal="P3",
                    what=f"of that {part}",
                    unit="ms",
                    ours=[one / count * 1000 for one in figures[1:]],
                    by="value",
                )
    if celery is None:
        raise NotMeasured(reason)


async def _by_celery(run: Callable[[int], None], count: int) -> None:
    """Its client is for one thread only; nothing else is to be done meanwhile."""
    run(count)


@contextmanager
def _celery(bench: Bench) -> Iterator[tuple[Callable[[int], None] | None, str]]:
    """What runs containers by Celery; None, and why, when that is not here."""
    with ExitStack() as stack:
        try:
            celery = stack.enter_context(celery_workers(bench, SLOTS))
        except NotMeasured as reason:
            yield None, str(reason)
        else:
            yield celery, ""


async def idle_and_sampling(bench: Bench) -> AsyncIterator[Finding]:
    bench.require("base-image")
    window = bench.pick(4.0, 20.0)
    with deployed(bench, "directory") as deployment:
        deployment.serve()
        worker = deployment.worker("w1")
        async with deployment.client() as client:
            await _one(client)
            idle = await _cpu_percent(worker.process.pid, window)
            memory = psutil.Process(worker.process.pid).memory_info().rss
            job = await client.submit("slow", recordset="DS", params={"seconds": int(window) + 10})

            async def running() -> bool:
                return (await client.job(job["id"]))["state"] == "running"

            await eventually(running, within=END_WITHIN, every=0.2)
            busy = await _cpu_percent(worker.process.pid, window)
            await client.action(job["id"], "kill")
    yield Finding(goal="P10", what="an idle worker", unit="% of a core", ours=[idle], by="value", most=0.5)
    yield Finding(goal="P10", what="its memory", unit="MiB", ours=[memory / MIB], by="value", most=80)
    yield Finding(
        goal="P10",
        what="a worker with one container: samples, lease, progress",
        unit="% of a core",
        ours=[busy],
        by="value",
        most=1,
    )


async def _in_turns(rounds: int, *works: Run, before: Run | None = None) -> list[list[float]]:
    """The seconds of each, in turns, after one of each that does not count; each turn after a `before`."""
    for work in works:
        await work()
    found: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        if before is not None:
            await before()
        for times, work in zip(found, works, strict=True):
            times.append(await seconds(work))
    return found


async def _one(client: AnalysisClient) -> None:
    """Seen by its events, as `AnalysisClient.run` and `aioanalysis submit --wait` do."""
    job = await client.submit("noop", recordset="DS")
    async with asyncio.timeout(END_WITHIN), aclosing(client.watch(job["id"])) as updates:
        async for update in updates:
            job = update.job
    _require_complete(job)


async def _many(client: AnalysisClient, count: int) -> None:
    jobs = await asyncio.gather(*(client.submit("noop", recordset="DS") for _ in range(count)))
    for job in jobs:  # the last to be seen ends the time; the others ended before

        async def over(job_id: str = job["id"]) -> bool:
            return (await client.job(job_id))["state"] not in UNFINISHED

        await eventually(over, within=END_WITHIN, every=WATCH)
        _require_complete(await client.job(job["id"]))


def _require_complete(job: JobJson) -> None:
    if job["state"] != "complete":
        raise RuntimeError(f"{job['id']} is {job['state']}: {job['error']}")


async def _at_once(bare: Run, count: int) -> None:
    left = iter(range(count))

    async def slot() -> None:
        for _ in left:
            await bare()

    await asyncio.gather(*(slot() for _ in range(SLOTS)))


async def _cpu_percent(pid: int, window: float) -> float:
    """Of one core, over `window` seconds."""
    process = psutil.Process(pid)
    before = process.cpu_times()
    await asyncio.sleep(window)
    after = process.cpu_times()
    return max(0.0, after.user + after.system - before.user - before.system) / window * 100


@asynccontextmanager
async def _bare(bench: Bench) -> AsyncIterator[Run]:
    folder = bench.new_folder("bare")
    async with aiodocker.Docker() as docker:
        yield lambda: run_bare(docker, folder, bench.fresh("job"))


@asynccontextmanager
async def _dev(bench: Bench) -> AsyncIterator[AnalysisClient]:
    """`aioanalysis dev` as a process, with a client for it."""
    folder = bench.new_folder("dev")
    (folder / "recordsets").mkdir()
    (folder / "recordsets" / "DS.jsonl").write_text(RECORDS)
    with running_dev(folder, METHODS, runtime="docker", base_image=BASE_IMAGE):
        await eventually(lambda: (folder / "dev.json").exists(), within=60, what="dev listens")
        found = json.loads((folder / "dev.json").read_text())
        async with open_client(found["server"], found["key"]) as client:
            yield client
