"""Admits runs to this host: the sum of their limits stays within its CPUs and memory, for all its workers."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

import psutil

from aioanalysis import logs
from aioanalysis.aio import in_thread
from aioanalysis.domain.method import Limits
from aioanalysis.errors import MethodFailure
from aioanalysis.methods import load_method
from aioanalysis.settings import Settings

MEMORY_SHARE: Final = 0.9  # of the host's, for runs
SMALLEST: Final = 1e-9

log = logs.get()


class Admission:
    """Reserves what a run may use before its package is claimed.

    A reservation is a locked file in `data_dir/room`: it ends with its process, whatever becomes of that.
    Workers of one host must have one `data_dir` to know of each other. A run that is too large for the host
    is admitted when nothing else runs.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = settings.data_dir.absolute() / "room"
        self._memory = settings.host_memory_bytes or int(psutil.virtual_memory().total * MEMORY_SHARE)
        self._cpus = settings.host_cpus or float(os.cpu_count() or 1)
        self._held: dict[str, tuple[Path, int]] = {}
        self._refused: str | None = None

    async def reserve(self, stem: str) -> bool:
        """Room for a run of the package `stem`; False when it must wait for others to end."""
        limits = await self._limits(stem)
        admitted = await in_thread(self._reserve, stem, limits)
        if not admitted and self._refused != stem:
            log.info("no_room", stem=stem, memory_bytes=limits.memory_bytes, cpus=limits.cpus)
        self._refused = None if admitted else stem
        return admitted

    def release(self, stem: str) -> None:
        """Give back what `stem` has, if it has anything."""
        path, handle = self._held.pop(stem, (None, None))
        if path is not None and handle is not None:
            path.unlink(missing_ok=True)
            os.close(handle)

    async def _limits(self, stem: str) -> Limits:
        settings, title = self._settings, stem.partition(".")[0]
        try:
            directory = await load_method(settings.methods_dir, title, base_image=settings.base_image)
        except MethodFailure:
            return Limits()  # it will not run
        return directory.method.limits.capped(settings.host_limits)

    def _reserve(self, stem: str, limits: Limits) -> bool:
        memory, cpus = limits.memory_bytes or 0, limits.cpus or 0.0
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._one_at_a_time():
            others = list(self._reserved())
            if others and (
                memory + sum(other[0] for other in others) > self._memory
                or cpus + sum(other[1] for other in others) > self._cpus + SMALLEST
            ):
                return False
            path = self._folder / f"{uuid4().hex}.json"
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            fcntl.flock(handle, fcntl.LOCK_EX)
            os.write(handle, json.dumps({"memory_bytes": memory, "cpus": cpus}).encode())
        self.release(stem)
        self._held[stem] = (path, handle)
        return True

    @contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        handle = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _reserved(self) -> Iterator[tuple[int, float]]:
        """(memory in bytes, CPUs) of every reservation whose process lives; the others' files are removed."""
        for path in self._folder.glob("*.json"):
            try:
                handle = os.open(path, os.O_RDONLY)
            except FileNotFoundError:
                continue
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                held = json.loads(os.read(handle, 1024))
                yield held["memory_bytes"], held["cpus"]
            else:
                path.unlink(missing_ok=True)
            finally:
                os.close(handle)
