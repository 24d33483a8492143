"""API processes and workers restarted one by one while jobs flow: nothing is lost or done twice."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from aioanalysis.client import open_client
from tests.support.deployment import Deployment
from tests.support.flow import Flow, Restart, problems
from tests.support.servers import free_port
from tests.support.waiting import until


async def test_a_rolling_restart_loses_nothing_and_does_nothing_twice(quick: Deployment) -> None:
    hiccups: list[str] = []
    ports = {"api1": free_port(), "api2": free_port()}
    api = {"watch_interval": 0.3, "pass_interval": 2, "lock_seconds": 4, "drain_seconds": 4}
    # One worker lets its runs finish; the other has no time for it, and puts them back.
    drains = {"w1": 20.0, "w2": 0.2}
    running = {name: quick.serve(name, port=port, **api) for name, port in ports.items()}
    running |= {name: quick.worker(name, worker_jobs=2, drain_seconds=drains[name]) for name in drains}

    def restart(name: str) -> Restart:
        def now() -> None:
            if name == "w2":
                until(
                    lambda: any(quick.folder.glob(f"{name}/worker/*/runs/*")), within=60, what="it has a run"
                )
            assert running[name].stop() == 0, running[name].log[-2000:]
            if name in ports:
                running[name] = quick.serve(name, port=ports[name], **api)
            else:
                running[name] = quick.worker(name, worker_jobs=2, drain_seconds=drains[name])

        return lambda: asyncio.to_thread(now)

    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                open_client(f"http://127.0.0.1:{port}", quick.keys["ada"], on_retry=hiccups.append)
            )
            for port in ports.values()
        ]
        flow = Flow(
            clients=clients,
            title="slow",
            recordset="DS-TWO",
            params={"seconds": 2},
            folder=quick.folder,
            count=8,
            at_once=8,
        )
        jobs = await flow.through([restart(name) for name in ("w2", "api1", "w1", "api2")])
        assert await problems(clients[0], jobs) == []
    assert len(jobs) == 16
    assert hiccups, "no client saw a restart"
    assert any(job["attempt"] > 1 for job in jobs), "no run was put back"
