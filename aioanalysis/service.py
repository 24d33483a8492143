"""The processes: `serve` (API and scheduler), `work` (a worker), `dev` (everything in one)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

from aiohttp import web

from aioanalysis import logs
from aioanalysis.aio import Tasks
from aioanalysis.api.app import create_app, make_runner
from aioanalysis.api.context import ApiContext
from aioanalysis.development import Development, prepared
from aioanalysis.errors import Misconfigured, SystemFault
from aioanalysis.methods import list_methods
from aioanalysis.scheduler.rebuilding import Rebuilt
from aioanalysis.scheduler.rebuilding import rebuild as make_records
from aioanalysis.settings import PREFIX, Settings
from aioanalysis.wiring import Service, open_runtime, open_service, open_storage
from aioanalysis.worker.loop import run_worker

STOPPING_SECONDS = 10.0
log = logs.get()


async def serve(settings: Settings) -> int:
    """Run API and scheduler until a signal; returns the exit code."""
    async with open_service(settings) as service:
        await service.check()
        with _signals() as (stop, _):
            async with Tasks() as tasks, _listening(service) as address:
                log.info("serving", address=address)
                scheduler = tasks.start(service.scheduler.run(stop), name="scheduler")
                code = await _until(stop, tasks)
                await asyncio.wait([scheduler], timeout=STOPPING_SECONDS)
                return code


async def work(settings: Settings, *, once: bool = False) -> int:
    """Run a worker until a signal, or for one package; returns the exit code.

    Raises `Misconfigured` when METHODS_DIR cannot be read: every package would fail.
    """
    await list_methods(settings.methods_dir, base_image=settings.base_image)
    async with open_storage(settings) as storage, open_runtime(settings) as runtime:
        with _signals() as (stop, abort):
            return await run_worker(storage, runtime, settings, stop, abort=abort, once=once)


async def rebuild(settings: Settings) -> Rebuilt:
    """Make job records again from storage."""
    async with open_service(settings) as service:
        await service.check()
        operations = service.operations
        rebuilt = await make_records(service.storage, operations.jobs, operations.clock())
        await operations.bell.ring()
        return rebuilt


async def dev(settings: Settings, say: Callable[[Development, str], None]) -> int:
    """Run everything in this process on embedded parts; `say` is told when it is ready, and where."""
    async with prepared(settings) as development:
        settings = development.settings
        wake = asyncio.Event()
        async with (
            open_service(settings, packaged=wake.set) as service,
            open_runtime(settings) as runtime,
        ):
            await service.check()
            log.info("part_ready", part="runtime", what=await runtime.check())
            with _signals() as (stop, abort):
                async with Tasks() as tasks, _listening(service) as address:
                    parts = [
                        tasks.start(service.scheduler.run(stop), name="scheduler"),
                        tasks.start(
                            run_worker(
                                service.storage,
                                runtime,
                                settings,
                                stop,
                                abort=abort,
                                wake=wake,
                                committed=service.operations.bell.ring,
                            ),
                            name="worker",
                        ),
                    ]
                    development.announce(address)
                    say(development, address)
                    code = await _until(stop, tasks)
                    await asyncio.wait(parts, timeout=settings.drain_seconds + STOPPING_SECONDS)
                    return code


@asynccontextmanager
async def _listening(service: Service) -> AsyncIterator[str]:
    """The API, listening; gives its address. A stop waits for running requests."""
    settings = service.settings
    app = create_app(
        ApiContext(
            operations=service.operations,
            jobs=service.operations.jobs,
            storage=service.storage,
            identity=service.identity,
            events=service.events,
            progress=service.progress,
            outlooks=service.outlooks,
            glances=service.glances,
            sessions=service.sessions,
            settings=settings,
            ready=service.ready,
            gauges=service.gauges,
            methods_dir=settings.methods_dir if settings.methods_dir.is_dir() else None,
        )
    )
    runner = make_runner(app, shutdown_seconds=settings.drain_seconds / 2)
    try:
        await runner.setup()
        site = web.TCPSite(runner, settings.host, settings.port)
        try:
            await site.start()
        except OSError as error:
            where = f"{settings.host}:{settings.port}"
            raise Misconfigured(
                f"{PREFIX}PORT: cannot listen on {where} ({error.strerror}); set another"
            ) from error
        host, port = runner.addresses[0][:2]
        yield f"http://{f'[{host}]' if ':' in host else host}:{port}"
    finally:
        await runner.cleanup()


async def _until(stop: asyncio.Event, tasks: Tasks) -> int:
    """Wait for the stop (0), or for a side task to die, which stops the process (1)."""
    stopped = asyncio.create_task(stop.wait(), name="wait for the stop")
    crashed = asyncio.create_task(tasks.wait_crash(), name="wait for a crash")
    try:
        await asyncio.wait([stopped, crashed], return_when=asyncio.FIRST_COMPLETED)
        if not crashed.done():
            return 0
        error = crashed.result()
        log.error("part_died", error=repr(error), exc_info=error)
        stop.set()
        if isinstance(error, SystemFault):
            raise error
        return 1
    finally:
        stopped.cancel()
        crashed.cancel()


@contextmanager
def _signals() -> Iterator[tuple[asyncio.Event, asyncio.Event]]:
    """(stop, abort): the first SIGTERM or SIGINT sets the one, a second the other."""
    loop = asyncio.get_running_loop()
    stop, abort = asyncio.Event(), asyncio.Event()

    def ring(name: str) -> None:
        (abort if stop.is_set() else stop).set()
        log.info("stopping", signal=name, at_once=abort.is_set())

    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, ring, number.name)
    try:
        yield stop, abort
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
