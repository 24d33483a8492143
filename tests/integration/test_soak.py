"""Many jobs through one worker: nothing of it grows. SOAK_JOBS=100 is the whole soak, 30 a short one."""

from __future__ import annotations

import gc
import os
import threading
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from aioanalysis.runtime.engine import open_engine
from tests.support.packages import enqueue
from tests.support.waiting import eventually
from tests.support.workers import Parts, worker_parts

JOBS = int(os.environ.get("SOAK_JOBS", "30"))
WARM = max(10, JOBS // 5)
MEMORY_BYTES = 12 << 20  # of growth: an allocator's, not a leak's of a hundred jobs


@dataclass(frozen=True, kw_only=True)
class Footprint:
    memory: int
    files: int
    threads: int
    connections: int
    containers: int
    images: int
    disk: int


async def footprint(parts: Parts, docker_engine: str) -> Footprint:
    """Of this process, its worker's folder, and the engine's containers and images of the method.

    `connections` are those to the engine that are in use: one that leaks stays so (HAZARDS H8).
    """
    gc.collect()
    process = psutil.Process()
    key = (parts.settings.data_dir / "worker/w/key").read_text()
    async with open_engine(docker_engine) as engine:
        filters = '{"label": ["aioanalysis.title=noop"]}'
        images = await engine.call("GET", "images/json", params={"filters": filters})
    own = [
        path for path in parts.settings.data_dir.rglob("*") if path.is_file() and path.parent.name != "logs"
    ]
    return Footprint(
        memory=process.memory_info().rss,
        files=process.num_fds(),
        threads=threading.active_count(),
        connections=parts.runtime._engine.connections,  # type: ignore[attr-defined]
        containers=len(await parts.runtime.leftovers("aioanalysis.worker", key)),
        images=len(images),
        disk=sum(path.stat().st_size for path in own),
    )


async def test_after_many_jobs_a_worker_holds_no_more_than_after_a_few(
    tmp_path: Path, docker_engine: str, base_image: str
) -> None:
    settings = {"runtime": "docker", "docker_host": docker_engine, "base_image": base_image}
    async with (
        worker_parts(tmp_path, **settings, build_network="none", worker_jobs=4, host_cpus=8) as parts,
        parts.worker(),
    ):
        seen = []
        for count in (WARM, JOBS - WARM):
            stems = [await enqueue(parts.storage) for _ in range(count)]
            for stem in stems:
                assert (await parts.ended(stem, within=300)).error is None
            seen.append(await settled(parts, docker_engine))
    for name, before in asdict(seen[0]).items():
        print(f"{name:10} after {WARM:3} jobs {before:12,}   after {JOBS:3} jobs {asdict(seen[1])[name]:12,}")
    first, last = seen
    assert last.memory - first.memory < MEMORY_BYTES
    assert last.files <= first.files + 4  # connections kept for the next call
    assert last.threads <= first.threads + 2  # the pools are filled as need be
    assert (last.connections, last.containers, last.images) == (0, 0, first.images)
    assert last.disk <= first.disk + (64 << 10)


async def settled(parts: Parts, docker_engine: str) -> Footprint:
    """Once the last run's folder has gone."""
    runs = parts.settings.data_dir / "worker/w/runs"
    await eventually(lambda: not list(runs.iterdir()), within=30)
    return await footprint(parts, docker_engine)
