"""What a benchmark finds: figures of ours beside their limit, round by round, and what they are held to."""

from __future__ import annotations

import asyncio
import gc
import resource
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Literal, TypeVar

import psutil

from tests.support.parts import Part, find
from tests.support.servers import Azurite, RedisServer

KIB, MIB, GIB = 1024, 1024**2, 1024**3
T = TypeVar("T")


class NotMeasured(Exception):
    """What a benchmark needs is not here; its text says what."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One comparison. `ours` and `limit` have a figure a round, in `unit`.

    What is held to `goal` is ours / limit (`ratio`), ours - limit (`difference`), or ours alone (`value`);
    without a goal it is told only.
    """

    goal: str
    what: str
    unit: str
    ours: Sequence[float]
    limit: Sequence[float] = ()
    by: Literal["ratio", "difference", "value"] = "ratio"
    most: float | None = None
    least: float | None = None
    note: str = ""

    @property
    def result(self) -> float:
        return self._compare(median(self.ours), median(self.limit) if self.limit else 0.0)

    @property
    def spread(self) -> tuple[float, float]:
        """The smallest and the largest result of single rounds."""
        if self.by == "value":
            return min(self.ours), max(self.ours)
        if len(self.ours) == len(self.limit):
            results = [self._compare(a, b) for a, b in zip(self.ours, self.limit, strict=True)]
        else:
            results = [self._compare(a, median(self.limit)) for a in self.ours]
        return min(results), max(results)

    @property
    def reached(self) -> bool | None:
        if self.most is None and self.least is None:
            return None
        return (self.most is None or self.result <= self.most) and (
            self.least is None or self.result >= self.least
        )

    def _compare(self, ours: float, limit: float) -> float:
        if self.by == "ratio":
            return ours / limit if limit else float("inf")
        return ours - limit if self.by == "difference" else ours

    def to_json(self) -> dict[str, Any]:
        return {
            "goal": self.goal,
            "what": self.what,
            "unit": self.unit,
            "ours": list(self.ours),
            "limit": list(self.limit),
            "by": self.by,
            "result": self.result,
            "spread": list(self.spread),
            "most": self.most,
            "least": self.least,
            "reached": self.reached,
            "note": self.note,
        }


@dataclass(kw_only=True)
class Bench:
    """What benchmarks are given: a folder, and real parts, each started when it is first asked for."""

    folder: Path
    quick: bool
    stack: AsyncExitStack
    _parts: dict[str, Any] = field(default_factory=dict)
    _names: int = 0

    def pick(self, quick: T, whole: T) -> T:
        return quick if self.quick else whole

    @property
    def rounds(self) -> int:
        return self.pick(3, 5)

    def fresh(self, name: str) -> str:
        """A name that no other benchmark has."""
        self._names += 1
        return f"bench-{name}-{self._names}"

    def new_folder(self, name: str) -> Path:
        folder = self.folder / self.fresh(name)
        folder.mkdir()
        return folder

    def require(self, part: Part) -> str:
        found = find(part)
        if not found:
            raise NotMeasured(f"{part} is missing; try: scripts/services up")
        return found

    def redis(self) -> RedisServer:
        if "redis" not in self._parts:
            program = find("redis-server") or self.require("valkey")
            self._parts["redis"] = self.stack.enter_context(RedisServer(program))
        return self._parts["redis"]  # type: ignore[no-any-return]

    def azurite(self) -> Azurite:
        if "azurite" not in self._parts:
            self._parts["azurite"] = self.stack.enter_context(Azurite(self.require("azurite")))
        return self._parts["azurite"]  # type: ignore[no-any-return]


async def seconds(work: Callable[[], Awaitable[Any]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


async def alternated(rounds: int, **works: Callable[[], Awaitable[Any]]) -> dict[str, list[float]]:
    """The seconds that each of `works` takes, in turns, so that all see the same machine."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            gc.collect()
            found[name].append(await seconds(work))
    return found


class Spent:
    """CPU seconds of some processes and of the whole machine, in each of the works that it has seen."""

    def __init__(self, pids: Mapping[str, int] | None = None) -> None:
        self._pids = dict(pids or {})
        self.machine: list[float] = []
        self.by: dict[str, list[float]] = {name: [] for name in self._pids}

    @contextmanager
    def watched(self) -> Iterator[None]:
        """The block is the next work."""
        before = self._now()
        yield
        machine, *each = (after - then for then, after in zip(before, self._now(), strict=True))
        self.machine.append(machine)
        for name, figure in zip(self._pids, each, strict=True):
            self.by[name].append(figure)

    def by_work(self, work: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[None]]:
        """The same work, looked at each time."""

        async def looked_at() -> None:
            with self.watched():
                await work()

        return looked_at

    def _now(self) -> list[float]:
        whole = psutil.cpu_times()
        times = [psutil.Process(pid).cpu_times() for pid in self._pids.values()]
        busy = sum(whole) - whole.idle - whole.iowait - whole.guest - whole.guest_nice
        return [busy, *(each.user + each.system for each in times)]


def resident_bytes(pid: int | None = None) -> int:
    return int(psutil.Process(pid).memory_info().rss)


def own_peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB


@asynccontextmanager
async def watched_memory(pid: int, *, every: float = 0.05) -> AsyncIterator[Callable[[], int]]:
    """Samples a process meanwhile; what it yields gives the growth of its peak so far, in bytes."""
    process = psutil.Process(pid)
    start = process.memory_info().rss
    peak = start

    async def sample() -> None:
        nonlocal peak
        while True:
            peak = max(peak, process.memory_info().rss)
            await asyncio.sleep(every)

    task = asyncio.create_task(sample(), name="memory")
    try:
        yield lambda: peak - start
    finally:
        task.cancel()
        await asyncio.wait({task})
