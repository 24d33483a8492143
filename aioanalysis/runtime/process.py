"""Runs methods as child processes, where there is no engine: the same orchestrator, nothing isolated."""

from __future__ import annotations

import asyncio
import os
import platform
import re
import sys
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from aioanalysis import logs
from aioanalysis.aio import finish, in_thread
from aioanalysis.buildcontext import ORCHESTRATOR, SHARED
from aioanalysis.domain.outcomes import Reason
from aioanalysis.domain.usage import Sample
from aioanalysis.errors import MethodFailure, Unavailable
from aioanalysis.interfaces import Exit, Image, MethodDirectory, RunSpec
from aioanalysis.runtime import processes
from aioanalysis.runtime.processes import MARK, RunFiles, RunRecord

GRACE_SECONDS: Final = 2.0
TERM_SECONDS: Final = 1
KILL_SECONDS: Final = 10.0
POLL_SECONDS: Final = 0.05

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
_PASSED_ON = re.compile(r"LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|LD_LIBRARY_PATH|DYLD_\w+|R_\w+|\w+_NUM_THREADS")

log = logs.get()


class ProcessRuntime:
    """`Runtime` on child processes. A run's id is its name; what is known of it is kept in `state_dir`.

    Limits of memory and CPU are not held; `check` says so.
    """

    name = "process"

    def __init__(self, state_dir: Path) -> None:
        self._files = RunFiles(state_dir)
        self._children: dict[str, asyncio.subprocess.Process] = {}
        self._exits: dict[str, Exit] = {}

    async def check(self) -> str:
        return (
            f"child processes on this host, Python {platform.python_version()}: nothing is isolated, methods"
            " run as this user, with its files and its network, and without limits of memory and CPU"
        )

    async def build(self, directory: MethodDirectory) -> Image:
        return Image(id=str(directory.path), digest=directory.digest)

    async def start(self, image: Image, spec: RunSpec) -> str:
        if not _NAME.fullmatch(spec.name):
            raise MethodFailure(Reason.CONTAINER, f"{spec.name!r} cannot be the name of a run.")
        await self.remove(spec.name)  # of a start before a crash
        record = RunRecord(
            name=spec.name,
            labels=dict(spec.labels),
            job_dir=str(spec.job_dir.absolute()),
            mark=uuid.uuid4().hex,
            started_at=datetime.now(UTC).isoformat(),
        )
        try:
            await in_thread(self._files.write, record)
            process = await self._spawn(record, spec)
            record = await in_thread(processes.identified, record, process.pid)
            await in_thread(self._files.write, record)
        except OSError as error:
            await self.remove(spec.name)
            raise MethodFailure(Reason.CONTAINER, f"The process does not start: {error}") from error
        except BaseException:
            await finish(self.remove(spec.name), name=f"discard {spec.name}")
            raise
        return spec.name

    async def _spawn(self, record: RunRecord, spec: RunSpec) -> asyncio.subprocess.Process:
        with self._files.output(record.name).open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(ORCHESTRATOR),
                cwd=spec.job_dir,
                env=self._environment(record, spec),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._children[record.name] = process
        return process

    def _environment(self, record: RunRecord, spec: RunSpec) -> dict[str, str]:
        """Little of the worker's own: its settings hold keys."""
        environment = {name: value for name, value in os.environ.items() if _PASSED_ON.fullmatch(name)}
        shared = spec.method.path.parent / SHARED
        if shared.is_dir():
            environment["PYTHONPATH"] = str(shared)
        interpreter = str(Path(sys.executable).parent)
        return {
            **environment,
            "PATH": os.pathsep.join([interpreter, os.environ.get("PATH", os.defpath)]),
            "HOME": str(self._files.home),
            "JOB_DIR": str(spec.job_dir.absolute()),
            "METHOD_DIR": str(spec.method.path),
            "ALIVE_TIMEOUT_SECONDS": f"{spec.alive_seconds:g}",
            "TERM_SECONDS": str(TERM_SECONDS),
            MARK: record.mark,
        }

    async def wait(self, run: str) -> Exit:
        if run in self._exits:
            return self._exits[run]
        record = await in_thread(self._files.read, run)
        if record is None:
            return Exit(code=None, detail="There is no such run, or it has been removed.")
        ended = await self._wait_end(record)
        tail = await in_thread(self._files.output_tail, run)
        ended = replace(ended, started_at=datetime.fromisoformat(record.started_at), output_tail=tail)
        if run in self._children:
            self._exits[run] = ended
        return ended

    async def _wait_end(self, record: RunRecord) -> Exit:
        child = self._children.get(record.name)
        if child is not None:
            code = await child.wait()
            code = code if code >= 0 else 128 - code  # as a shell and an engine tell of signals
            return Exit(code=code, finished_at=datetime.now(UTC))
        await _ended(record)  # another process's child, of before a crash
        told = await in_thread(processes.told_exit, Path(record.job_dir))
        return told or Exit(code=None, detail="The run ended unseen and left no status.json.")

    async def sample(self, run: str) -> Sample | None:
        record = await in_thread(self._files.read, run)
        return await in_thread(processes.measure, record) if record else None

    async def kill(self, run: str) -> None:
        record = await in_thread(self._files.read, run)
        if record is None:
            return
        await in_thread(processes.terminate, record)
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS):
                await _ended(record)
        try:
            async with asyncio.timeout(KILL_SECONDS):
                while await in_thread(processes.kill_family, record):  # noqa: ASYNC110
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            log.warning("processes_left", run=run)

    async def remove(self, run: str) -> None:
        await self.kill(run)
        child = self._children.pop(run, None)
        if child is not None:
            await child.wait()
        self._exits.pop(run, None)
        await in_thread(self._files.delete, run)

    async def leftovers(self, label: str, value: str) -> Sequence[str]:
        records = await in_thread(self._files.all)
        return [record.name for record in records if record.labels.get(label) == value]

    async def clear(self, folder: Path) -> None:
        raise Unavailable(f"{folder}: what this user cannot remove, no child process can.")

    async def close(self) -> None:
        """End what still runs of ours: nobody would wait for it."""
        for run, child in list(self._children.items()):
            if child.returncode is None:
                await self.kill(run)
                await child.wait()


async def _ended(record: RunRecord) -> None:
    # Nobody tells of the end of another process's child.
    while await in_thread(processes.main_process, record) is not None:  # noqa: ASYNC110
        await asyncio.sleep(POLL_SECONDS)


@asynccontextmanager
async def open_process_runtime(state_dir: Path) -> AsyncIterator[ProcessRuntime]:
    """A process runtime that keeps its notes in `state_dir`; runs still going at the end are ended."""
    runtime = ProcessRuntime(state_dir)
    try:
        yield runtime
    finally:
        await finish(runtime.close(), name="close process runtime")
