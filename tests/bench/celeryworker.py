"""A peer: the bare container as a task of Celery, prefork workers on the bench's own Redis.

Module of the Celery app for `celery -A tests.bench.celeryworker`; its settings are environment variables.
"""

from __future__ import annotations

import asyncio
import os
from functools import cache
from pathlib import Path

from aiodocker import Docker
from celery import Celery

from tests.bench.bare import run_bare

BROKER = os.environ["BENCH_BROKER"]

app = Celery("bench", broker=BROKER, backend=BROKER)


@cache
def _runner() -> tuple[asyncio.Runner, Docker]:
    """One loop and one connection to the engine a process, as a Docker client would be kept."""
    runner = asyncio.Runner()

    async def connect() -> Docker:
        return Docker()

    return runner, runner.run(connect())


def _container(name: str) -> None:
    runner, docker = _runner()
    runner.run(run_bare(docker, Path(os.environ["BENCH_FOLDER"]), name))


container = app.task(name="container")(_container)
