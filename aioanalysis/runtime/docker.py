"""Runs methods in containers of a Docker engine."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from aiodocker.exceptions import DockerError

from aioanalysis import logs
from aioanalysis.aio import finish, in_thread
from aioanalysis.domain.outcomes import Reason
from aioanalysis.domain.usage import Sample
from aioanalysis.errors import MethodFailure, Unavailable
from aioanalysis.interfaces import Exit, Image, MethodDirectory, RunSpec
from aioanalysis.runtime.container import (
    KIND_LABEL,
    RUN,
    clearing_config,
    container_config,
    exit_of,
    give_to,
    log_tail,
    sample_of,
)
from aioanalysis.runtime.engine import ENDLESS, SLOW, Engine
from aioanalysis.runtime.hostpaths import HostPaths
from aioanalysis.runtime.images import Images

WAIT_SECONDS: Final = 60.0  # of one wait call: an end that the engine did not tell is seen after that
REMOVE_SECONDS: Final = 60.0
CLEAR_SECONDS: Final = 120.0
CLEAR_IMAGES: Final = 3
OUTPUT_SHOWN: Final = 500
STOP_SECONDS: Final = 2  # from SIGTERM to SIGKILL
SAMPLE_SECONDS: Final = 10.0
FIRST_PAUSE: Final = 0.02
LONGEST_PAUSE: Final = 2.0

log = logs.get()


class DockerRuntime:
    """`WorkerRuntime` on a Docker engine. A run's id is its container's.

    `user` is the uid and gid that runs get: the worker's own, so that it can clean up after them, or for a
    worker that is root an unprivileged one that job directories are given to (root without capabilities
    could not even write into them). `paths` tells where the engine's host has job directories, if elsewhere.
    """

    name = "docker"

    def __init__(
        self, engine: Engine, images: Images, *, user: tuple[int, int], paths: HostPaths | None = None
    ) -> None:
        self._engine = engine
        self._paths = paths
        self._images = images
        self._user = user
        self._cpus: int | None = None

    async def check(self) -> str:
        version = await self._engine.version()
        if self._paths is not None:
            await self._paths.check()
        return version

    async def build(self, directory: MethodDirectory) -> Image:
        return await self._images.build(directory)

    async def start(self, image: Image, spec: RunSpec) -> str:
        try:
            await in_thread(give_to, spec.job_dir, self._user)
        except OSError as error:
            raise Unavailable(f"The job directory cannot be given to the run: {error}") from error
        config = container_config(
            image,
            spec,
            user=self._user,
            host_cpus=await self._host_cpus(),
            source=await self._paths.of(spec.job_dir) if self._paths else None,
        )
        try:
            run = await finish(self._create(spec.name, config), name=f"create {spec.name}")
            await self._engine.call("POST", f"containers/{run}/start", patience=SLOW)
        except BaseException as error:
            await finish(self._discard(spec.name), name=f"discard {spec.name}")
            fault = _start_fault(error)
            if fault is error:
                raise
            raise fault from error
        return run

    async def _create(self, name: str, config: Mapping[str, Any]) -> str:
        for last in (False, True):
            try:
                answer = await self._engine.call(
                    "POST", "containers/create", params={"name": name}, body=config, patience=SLOW
                )
                return str(answer["Id"])
            except DockerError as error:
                if last or error.status != 409:
                    raise
                await self._discard(name)  # of a start whose reply was lost, or before a crash
        raise AssertionError  # not reached

    async def _discard(self, name: str) -> None:
        """Remove the container of that name if it is ours; an engine that is away keeps it for later."""
        try:
            facts = await self._engine.find(f"containers/{name}/json")
            if facts and ((facts.get("Config") or {}).get("Labels") or {}).get(KIND_LABEL) == RUN:
                await self.remove(str(facts["Id"]))
        except Unavailable as error:
            log.warning("container_left", container=name, error=str(error))

    async def _host_cpus(self) -> int | None:
        if self._cpus is None:
            facts = await self._engine.find("info")
            self._cpus = (facts or {}).get("NCPU")
        return self._cpus

    async def wait(self, run: str) -> Exit:
        away, pause = False, FIRST_PAUSE
        while True:
            try:
                in_time = await self._wait_call(run)
                facts = await self._engine.find(f"containers/{run}/json")
            except Unavailable as error:
                (log.debug if away else log.warning)("engine_away", run=run, error=str(error))
                away, in_time = True, True
            else:
                if facts is None:
                    return Exit(code=None, detail="The container has vanished from the engine.")
                ended = exit_of(facts, engine_was_away=away)
                if ended is not None:
                    return await self._with_output(run, ended)
            pause = min(2 * pause, LONGEST_PAUSE) if in_time else FIRST_PAUSE
            await asyncio.sleep(pause)

    async def _wait_call(self, run: str) -> bool:
        """Return when the container may have ended: only looking at it tells (HAZARDS H10).

        False: it has not, for as long as one call waits.
        """
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._engine.call("POST", f"containers/{run}/wait", patience=ENDLESS)
        except TimeoutError:
            return False
        except DockerError as error:
            log.debug("wait_refused", run=run, error=error.message)
        return True

    async def _with_output(self, run: str, ended: Exit) -> Exit:
        params = {"stdout": "1", "stderr": "1", "tail": "200"}
        try:
            async with self._engine.request("GET", f"containers/{run}/logs", params=params) as response:
                return replace(ended, output_tail=log_tail(await response.read()))
        except (DockerError, Unavailable) as error:
            log.warning("container_log_lost", run=run, error=str(error))
            return ended

    async def sample(self, run: str) -> Sample | None:
        params = {"stream": "0", "one-shot": "1"}
        try:
            async with asyncio.timeout(SAMPLE_SECONDS):
                stats = await self._engine.call("GET", f"containers/{run}/stats", params=params)
        except (DockerError, Unavailable, TimeoutError) as error:
            log.debug("no_sample", run=run, error=str(error))
            return None
        return sample_of(stats) if isinstance(stats, dict) else None

    async def kill(self, run: str) -> None:
        params = {"t": str(STOP_SECONDS)}
        try:
            await self._engine.call("POST", f"containers/{run}/stop", params=params, patience=SLOW)
        except DockerError as error:
            if error.status not in {304, 404, 409}:
                raise Unavailable(f"The run cannot be ended: {error.message}") from error

    async def remove(self, run: str) -> None:
        pause = 0.02
        try:
            async with asyncio.timeout(REMOVE_SECONDS):
                while not await self._removed(run):
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)
        except TimeoutError:
            raise Unavailable(f"The container {run} cannot be removed within {REMOVE_SECONDS:g} s.") from None

    async def _removed(self, run: str) -> bool:
        try:
            await self._engine.call(
                "DELETE", f"containers/{run}", params={"force": "1", "v": "1"}, patience=SLOW
            )
        except DockerError as error:
            return error.status == 404  # 409: somebody is at it
        except Unavailable as error:
            if isinstance(error.__cause__, DockerError) and error.__cause__.status == 500:
                return False  # "device or resource busy" passes
            raise
        return True

    async def leftovers(self, label: str, value: str) -> Sequence[str]:
        filters = {"label": [f"{KIND_LABEL}={RUN}", f"{label}={value}"]}
        params = {"all": "1", "filters": json.dumps(filters)}
        try:
            found = await self._engine.call("GET", "containers/json", params=params)
        except DockerError as error:
            raise Unavailable(f"The engine does not list its containers: {error.message}") from error
        return [str(container["Id"]) for container in found or []]

    async def clear(self, folder: Path) -> None:
        """As root in a container of a method's image: all have Python, for the orchestrator."""
        source = await self._paths.of(folder) if self._paths else str(folder)
        trouble = "there is no image of a method here to do it with"
        for image in await self._images.newest(CLEAR_IMAGES):
            try:
                ended = await self._run_once(clearing_config(image, source), f"clearing-{uuid4().hex[:12]}")
            except (DockerError, TimeoutError) as error:
                trouble = str(error) or "it takes too long"
                continue
            if ended.code == 0:
                return
            trouble = ended.output_tail[-OUTPUT_SHOWN:] or ended.detail
        raise Unavailable(f"{folder} cannot be cleared: {trouble}")

    async def _run_once(self, config: Mapping[str, Any], name: str) -> Exit:
        run = await finish(self._create(name, config), name=f"create {name}")
        try:
            await self._engine.call("POST", f"containers/{run}/start", patience=SLOW)
            async with asyncio.timeout(CLEAR_SECONDS):
                return await self.wait(run)
        finally:
            await finish(self.remove(run), name=f"remove {name}")


def _start_fault(error: BaseException) -> BaseException:
    """What a failed start raises: the method's fault where the engine could run something, but not this."""
    refusal = error if isinstance(error, DockerError) else error.__cause__
    if not isinstance(refusal, DockerError):
        return error
    if refusal.status == 404:
        return Unavailable(f"The image has gone; it is to be built again: {refusal.message}")
    if refusal.status < 500 or (refusal.status == 500 and re.search(r"OCI|runc|mount", refusal.message)):
        return MethodFailure(Reason.CONTAINER, f"The container does not start: {refusal.message}")
    return error
