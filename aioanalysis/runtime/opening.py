"""Opens the runtime that the settings ask for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from aioanalysis import logs
from aioanalysis.errors import Unavailable
from aioanalysis.interfaces import WorkerRuntime
from aioanalysis.runtime.docker import DockerRuntime
from aioanalysis.runtime.engine import Engine, open_engine
from aioanalysis.runtime.hostpaths import HostPaths
from aioanalysis.runtime.images import Images
from aioanalysis.runtime.process import open_process_runtime
from aioanalysis.settings import Settings

ANSWER_SECONDS: Final = 2.0
NOBODY: Final = 65534

log = logs.get()


@asynccontextmanager
async def open_runtime(settings: Settings) -> AsyncIterator[WorkerRuntime]:
    """The runtime by the setting RUNTIME; auto is docker if the engine answers within two seconds.

    Raises `Unavailable` when it is to be docker and no address of an engine is known.
    """
    async with AsyncExitStack() as stack:
        engine = await _engine(settings, stack) if settings.runtime != "process" else None
        if engine is None:
            yield await stack.enter_async_context(open_process_runtime(settings.data_dir / "runs"))
        else:
            images = Images(
                engine,
                base_image=settings.base_image,
                network=settings.build_network,
                max_bytes=settings.images_max_bytes,
            )
            paths = HostPaths(engine, settings.data_dir, settings.host_data_dir)
            yield DockerRuntime(engine, images, user=run_user(settings), paths=paths)


async def _engine(settings: Settings, stack: AsyncExitStack) -> Engine | None:
    if settings.runtime == "docker":
        return await stack.enter_async_context(open_engine(settings.docker_host))
    async with AsyncExitStack() as trial:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                engine = await trial.enter_async_context(open_engine(settings.docker_host))
                await engine.version()
        except (Unavailable, TimeoutError) as error:
            log.warning("no_engine", runtime="process", isolation="none", error=str(error) or "no answer")
            return None
        await stack.enter_async_context(trial.pop_all())
        return engine


def run_user(settings: Settings) -> tuple[int, int]:
    """The uid and gid of runs: as set, else the worker's own, never root's."""
    if settings.run_user is not None:
        uid, _, gid = settings.run_user.partition(":")
        return int(uid), int(gid)
    return (os.getuid(), os.getgid()) if os.getuid() else (NOBODY, NOBODY)
