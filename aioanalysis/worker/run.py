"""Runs one claimed package, step by step, up to what it came to; commits nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from uuid import uuid4

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from aioanalysis import __version__, logs
from aioanalysis.aio import in_thread
from aioanalysis.domain.outcomes import JobError, Reason
from aioanalysis.domain.usage import LIVE_POINTS, Sample
from aioanalysis.errors import AnalysisError, JobFailure, MethodFailure, Missing, Unavailable
from aioanalysis.interfaces import ExchangeStorage, Exit, Image, RunSpec, WorkerRuntime
from aioanalysis.methods import load_method
from aioanalysis.settings import Settings
from aioanalysis.worker.claims import Claim, cancel
from aioanalysis.worker.inputs import download, unpack_package
from aioanalysis.worker.outcome import Facts, draft
from aioanalysis.worker.progress import Progress, now
from aioanalysis.worker.sampler import Watch
from aioanalysis.worker.verdict import clean, judge, read_report
from aioanalysis.worker.workspace import Instance, RunFolder

END_SECONDS: Final = 10.0  # for a run that is to end by itself
UNTOLD_SECONDS: Final = 0.5  # of a run's beginning: of one that ends within it no progress is written
ENGINE_SECONDS: Final = 60.0  # how long an engine that cannot be reached is waited for

LABEL: Final = "aioanalysis.worker"
NONCE_LABEL: Final = "aioanalysis.nonce"

T = TypeVar("T")
log = logs.get()


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """What all runs of one worker share."""

    storage: ExchangeStorage
    runtime: WorkerRuntime
    settings: Settings
    instance: Instance

    @property
    def worker(self) -> dict[str, str]:
        return {"id": self.instance.name, "host": self.instance.host, "version": __version__}

    async def discard(self, folder: RunFolder) -> None:
        """Delete a run's folder; what others own in it by way of the engine. What stays is logged."""
        if await in_thread(folder.remove):
            return
        try:
            await self.runtime.clear(folder.path)
        except AnalysisError as error:
            log.error("folder_left", path=str(folder.path), cause=str(error))
        else:
            await in_thread(folder.remove)


class Run:
    """One package on this host; `end` takes its container away, at any moment.

    `entered` hears of each phase; `ended` is awaited as soon as the container has ended, if it ended well.
    """

    def __init__(
        self,
        host: Host,
        claim: Claim,
        folder: RunFolder,
        progress: Progress,
        entered: Callable[[str], None],
        ended: Callable[[], Awaitable[None]],
    ) -> None:
        self._host = host
        self._claim = claim
        self._folder = folder
        self._progress = progress
        self._entered = entered
        self._ended = ended
        self._starting: asyncio.Task[str] | None = None
        self._began = 0.0
        self.facts = Facts(started_at=now())

    def draft(self) -> dict[str, Any]:
        """The sidecar of the run as far as it is known."""
        return draft(
            self._claim.stem,
            self._claim.package,
            self.facts,
            worker=self._host.worker,
            runtime=self._host.runtime.name,
            interval_seconds=self._host.settings.sample_interval,
        )

    async def perform(self) -> dict[str, Any]:
        """Everything up to the outcome. Only storage's word that the claim is gone gets out (`Missing`)."""
        try:
            await self._steps()
        except MethodFailure as failure:
            self._failed(failure, failure.output or None)
        except JobFailure as failure:
            self._failed(failure, None)
        except (Missing, Unavailable):
            raise
        except Exception as error:
            log.exception("run_crashed")
            text = f"the worker failed: {type(error).__name__}: {error}"
            self._failed(JobFailure(Reason.CONTAINER, text), None)
        self.facts.finished_at = now()
        return self.draft()

    def _failed(self, failure: JobFailure, output: str | None) -> None:
        reason = Reason(failure.reason)
        self.facts.error = JobError(reason=reason, message=failure.text, error=clean(output))

    async def _steps(self) -> None:
        host, facts, stem = self._host, self.facts, self._claim.stem
        most = host.settings.package_max_bytes
        self._enter("download")
        facts.package = await download(host.storage, self._claim, self._folder, max_bytes=most)
        self._enter("unpack")
        facts.package = await unpack_package(self._folder, stem, facts.package, max_bytes=most)
        self._enter("image")
        base = host.settings.base_image
        title = stem.partition(".")[0]
        facts.method = await load_method(host.settings.methods_dir, title, base_image=base)
        facts.limits = facts.method.method.limits.capped(host.settings.host_limits)
        method = facts.method
        facts.image = await self._engine(lambda: host.runtime.build(method))
        self._enter("run")
        await self._execute(facts.image)

    def _enter(self, phase: str) -> None:
        self._progress.phase = phase
        self._entered(phase)

    # --- the container ---

    async def _execute(self, image: Image) -> None:
        host, facts = self._host, self.facts
        spec = self._spec()
        self._claim.alive = self._folder.job / ".alive"
        self._claim.touch()
        self._starting = asyncio.create_task(self._start(image, spec), name=f"start {spec.name}")
        run = await asyncio.shield(self._starting)
        self._began = time.monotonic()
        watch = Watch(
            host.runtime,
            run,
            self._folder.job,
            spec.limits,
            seconds=host.settings.sample_interval,
            tell=self._tell,
        )
        facts.samples = watch.sampler.samples
        facts.ended = await self._end_of(run, watch, spec.alive_seconds)
        if facts.ended.code == 0:
            await self._ended()
        facts.report, *_ = await asyncio.gather(
            in_thread(read_report, self._folder.job),
            watch.check_left(),
            self._engine(lambda: host.runtime.remove(run)),
        )
        self._starting = None
        facts.error = judge(facts.ended, facts.report, spec.limits, watch.broken, disk_full=watch.disk_full)

    async def _tell(self, sample: Sample | None) -> None:
        await asyncio.sleep(max(0.0, self._began + UNTOLD_SECONDS - time.monotonic()))
        usage = self.facts.usage(self._host.settings.sample_interval, points=LIVE_POINTS)
        await self._progress.tell(self._folder.job, sample, usage, self.facts.limits)

    async def _start(self, image: Image, spec: RunSpec) -> str:
        try:
            return await self._host.runtime.start(image, spec)
        except Unavailable as error:
            raise JobFailure(Reason.CONTAINER, f"the container could not be started: {error}") from error

    async def _end_of(self, run: str, watch: Watch, alive_seconds: float) -> Exit:
        """The run's end. Its watch ends with it, and can do it no harm.

        When the engine is gone for good, the run ends for want of signs of life, and nobody tells its code.
        """
        watching = asyncio.create_task(watch.run(), name=f"watch {self._claim.stem}")
        waiting = asyncio.ensure_future(self._engine(lambda: self._host.runtime.wait(run)))
        gone = asyncio.create_task(watch.engine_gone.wait(), name=f"engine {self._claim.stem}")
        try:
            await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                log.error("engine_gone")
                self._claim.alive = None
                await asyncio.wait({waiting}, timeout=alive_seconds + END_SECONDS)
            if not waiting.done():
                return Exit(code=None, detail="the container engine cannot be reached any more")
            return waiting.result()
        finally:
            await cancel({watching, waiting, gone})
            log.debug("container_ended", seconds=round(time.monotonic() - self._began, 3))

    def _spec(self) -> RunSpec:
        claim, settings, facts = self._claim, self._host.settings, self.facts
        if facts.method is None or facts.limits is None:
            raise AssertionError("a run begins after its image")
        job = claim.stem.partition(".")[2]
        return RunSpec(
            name=f"aioanalysis-{job}-{claim.package.attempt}-{uuid4().hex[:8]}",
            labels={
                LABEL: self._host.instance.key,
                NONCE_LABEL: claim.nonce,
                "aioanalysis.stem": claim.stem,
                "aioanalysis.attempt": str(claim.package.attempt),
            },
            job_dir=self._folder.job,
            method=facts.method,
            limits=facts.limits,
            alive_seconds=settings.lease_seconds + settings.lease_grace_seconds,
        )

    async def _engine(self, call: Callable[[], Awaitable[T]]) -> T:
        """A repeatable call to the engine, again while it cannot be reached, for a minute."""
        tries = AsyncRetrying(
            retry=retry_if_exception_type(Unavailable),
            wait=wait_random_exponential(multiplier=0.2, max=5),
            stop=stop_after_delay(ENGINE_SECONDS),
            reraise=True,
        )
        try:
            async for attempt in tries:
                with attempt:
                    return await call()
        except Unavailable as error:
            raise JobFailure(Reason.CONTAINER, f"the container engine cannot be reached: {error}") from error
        raise AssertionError("tries end with a value or an error")

    async def end(self) -> None:
        """Kill and remove the container, if there is one or one is just being started. Repeatable.

        What cannot be ended now is logged: it ends by itself without signs of life, and the next start of
        this worker finds it by its label.
        """
        if self._starting is None:
            return
        await asyncio.wait({self._starting})
        runtime = self._host.runtime
        try:
            if self._starting.cancelled() or self._starting.exception() is not None:
                runs = await runtime.leftovers(NONCE_LABEL, self._claim.nonce)
            else:
                runs = [self._starting.result()]
            for run in runs:
                await runtime.kill(run)
                await runtime.remove(run)
        except AnalysisError as error:
            log.error("container_left", cause=str(error))
        else:
            self._starting = None
