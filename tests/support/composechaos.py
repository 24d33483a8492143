"""Faults of the compose stack's containers while jobs flow through it: `scripts/chaos --compose`."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from aioanalysis.client import open_client
from tests.support.composestack import Stack, composed, output
from tests.support.flow import Flow, Restart, problems
from tests.support.waiting import eventually

LEASE_SECONDS, GRACE_SECONDS = 15, 3
LOST_SECONDS = LEASE_SECONDS + GRACE_SECONDS + 7  # away so long, a worker has lost what it held
SETTINGS = {
    "WORKERS": "2",
    "AIOANALYSIS_WORKER_JOBS": "2",
    "AIOANALYSIS_SAMPLE_INTERVAL": "1",
    "AIOANALYSIS_LEASE_SECONDS": str(LEASE_SECONDS),
    "AIOANALYSIS_LEASE_GRACE_SECONDS": str(GRACE_SECONDS),
    "AIOANALYSIS_MAX_RECOVERIES": "10",
}
PASSING = ("claimed/", "control/", "progress/")


def kill(stack: Stack, service: str, number: int = 0) -> None:
    """As a crash; compose starts it again."""
    output("docker", "kill", stack.containers(service)[number])
    stack.run("up", "--detach", "--no-recreate")


def restart(stack: Stack, service: str, number: int = 0) -> None:
    """In order: SIGTERM, and the time to drain."""
    output("docker", "restart", "--time", "60", stack.containers(service)[number])


def stall(stack: Stack, service: str) -> None:
    """Frozen for longer than its lease."""
    container = stack.containers(service)[0]
    output("docker", "pause", container)
    time.sleep(LOST_SECONDS)
    output("docker", "unpause", container)


def cut_off(stack: Stack, service: str) -> None:
    """Without its network for longer than its lease."""
    network, container = f"{stack.project}_storage", stack.containers(service)[0]
    output("docker", "network", "disconnect", network, container)
    time.sleep(LOST_SECONDS)
    output("docker", "network", "connect", network, container)


def faults(stack: Stack) -> dict[str, Callable[[], None]]:
    """Azurite is never killed: it loses what it acknowledged in its last seconds."""
    return {
        "worker killed": partial(kill, stack, "worker"),
        "API killed": partial(kill, stack, "api"),
        "Redis killed": partial(kill, stack, "redis"),
        "worker cut off storage": partial(cut_off, stack, "worker"),
        "worker frozen": partial(stall, stack, "worker"),
        "Azurite restarted": partial(restart, stack, "azurite"),
        "Redis restarted": partial(restart, stack, "redis"),
        "rolling restart: worker 1": partial(restart, stack, "worker", 0),
        "rolling restart: worker 2": partial(restart, stack, "worker", 1),
        "rolling restart: API": partial(restart, stack, "api"),
    }


async def chaos(stack: Stack, folder: Path) -> list[str]:
    """Every fault, one after the other, under flowing jobs; what is wrong in the end."""
    key = stack.run("exec", "-T", "api", "aioanalysis", "keys", "add", "ada").strip()
    hiccups: list[str] = []

    def struck(name: str, fault: Callable[[], None]) -> Restart:
        async def strike() -> None:
            began = time.monotonic()
            await asyncio.to_thread(fault)
            print(f"{name:30} {time.monotonic() - began:5.1f} s", flush=True)

        return strike

    async with open_client(stack.server, key, patience=120, on_retry=hiccups.append) as client:
        await eventually(client.ready, within=90, every=1, what="the stack is ready")
        flow = Flow(
            clients=[client],
            title="slow",
            recordset="records",
            params={"seconds": 3},
            folder=folder,
            count=60,
            at_once=8,
        )
        jobs = await flow.through([struck(name, fault) for name, fault in faults(stack).items()])
        again = sum(job["attempt"] > 1 for job in jobs)
        print(f"{len(jobs)} jobs, {again} of them run more than once; calls tried again: {len(hiccups)}")
        return await problems(client, jobs) + await leftovers(stack)


async def leftovers(stack: Stack) -> list[str]:
    """Packages, claims, control and progress files, and runs' containers that stay."""

    def left() -> list[str]:
        listed = json.loads(stack.inside("api", "aioanalysis", "storage", "ls", "--json"))
        names = [f"{file['container']}/{file['name']}" for file in listed]
        found = [n for n in names if n.startswith(("queue/", *(f"results/{p}" for p in PASSING)))]
        for container in output(
            "docker", "ps", "--all", "--quiet", "--filter", "label=aioanalysis=run"
        ).split():
            if f"{stack.project}_worker" in output(
                "docker", "inspect", "--format", "{{json .Mounts}}", container
            ):
                found.append(container)
        return found

    try:
        await eventually(lambda: not left(), within=60, every=2)
    except AssertionError:
        return [f"left behind: {name}" for name in left()]
    return []


def main(script: str) -> int:
    """Start the stack, strike it, say what came of it; the exit code."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        folder = Path(name)
        with composed(script, folder, SETTINGS) as stack:
            found = asyncio.run(chaos(stack, folder))
            if found:
                log = Path(tempfile.gettempdir(), "chaos-compose.log")
                log.write_text(stack.run("logs", "--no-color"))
                print(f"the containers' logs: {log}")
    for problem in found:
        print(f"PROBLEM  {problem}")
    verdict = f"{len(found)} problems" if found else "nothing lost, nothing doubled, nothing left"
    print(f"{verdict}; {time.monotonic() - began:.0f} s")
    return 1 if found else 0
