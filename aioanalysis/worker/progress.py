"""What a worker says of itself and its runs while they last: `progress/` and `workers/` blobs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from aioanalysis import __version__, logs
from aioanalysis.aio import in_thread
from aioanalysis.domain.exchange import (
    PROGRESS_MAX_BYTES,
    VERSION,
    Container,
    progress_log_name,
    progress_name,
    worker_name,
)
from aioanalysis.domain.method import Limits
from aioanalysis.domain.progress import TEXT_MAX
from aioanalysis.domain.usage import Sample, Usage
from aioanalysis.errors import AnalysisError
from aioanalysis.interfaces import PackageStorage
from aioanalysis.methods import list_methods
from aioanalysis.settings import Settings
from aioanalysis.worker.claims import Claim
from aioanalysis.worker.jobtree import read_small, tail
from aioanalysis.worker.workspace import Instance

LOG_TAIL_BYTES: Final = 256 * 1024
GOODBYE_SECONDS: Final = 5.0
SETTLE_SECONDS: Final = 1.0  # changes that come together are told together
STAGE_FIELDS: Final = ("stage", "stages", "script", "message", "records_done", "records_total")

log = logs.get()


def now() -> datetime:
    return datetime.now(UTC)


class Progress:
    """One run's `progress/<stem>.json` and `.log`."""

    def __init__(self, storage: PackageStorage, claim: Claim, worker: Mapping[str, str]) -> None:
        self._storage = storage
        self._claim = claim
        self._worker = dict(worker)
        self._started_at = now()
        self._log_size = -1
        self._told = False
        self.phase = "claimed"

    async def tell(
        self, job_dir: Path, sample: Sample | None, usage: Usage, limits: Limits | None = None
    ) -> None:
        """Upload both as they are now, the log only if it has grown. Raises `Unavailable`.

        `usage` is that of the run so far, `limits` those in force.
        """
        stage, lines, size = await in_thread(_look, job_dir, self._log_size)
        claim, package = self._claim, self._claim.package
        body = {
            "version": VERSION,
            "uid": package.uid,
            "attempt": package.attempt,
            "nonce": claim.nonce,
            "worker": self._worker,
            "phase": self.phase,
            **{key: _said(stage.get(key)) for key in STAGE_FIELDS},
            "started_at": self._started_at.isoformat(),
            "at": now().isoformat(),
            "sample": _sample(sample),
            "usage": usage.to_json(),
            "limits": asdict(limits) if limits else None,
        }
        metadata = {"attempt": str(package.attempt), **({"uid": package.uid} if package.uid else {})}
        self._told = True
        await self._write(progress_name(claim.stem), json.dumps(body).encode(), metadata)
        if lines is not None:
            await self._write(progress_log_name(claim.stem), lines, metadata)
            self._log_size = size

    async def _write(self, name: str, data: bytes, metadata: Mapping[str, str]) -> None:
        await self._storage.write(Container.RESULTS, name, data, metadata=metadata)

    async def drop(self) -> None:
        """Delete both; whatever goes wrong, the scheduler does it again."""
        if not self._told:
            return
        with contextlib.suppress(AnalysisError):
            for name in (progress_name(self._claim.stem), progress_log_name(self._claim.stem)):
                await self._storage.delete(Container.RESULTS, name)


def _look(job_dir: Path, known_size: int) -> tuple[dict[str, Any], bytes | None, int]:
    try:
        stage = json.loads(read_small(job_dir, "progress.json", PROGRESS_MAX_BYTES) or b"{}")
    except ValueError:
        stage = {}
    try:
        size = (job_dir / "job.log").lstat().st_size
    except OSError:
        return stage if isinstance(stage, dict) else {}, None, known_size
    lines = tail(job_dir, "job.log", LOG_TAIL_BYTES) if size != known_size else None
    return stage if isinstance(stage, dict) else {}, lines, size


def _said(value: object) -> str | int | None:
    """What a method says of itself, no more than is read of it."""
    return value[:TEXT_MAX] if isinstance(value, str) else value if isinstance(value, int) else None


def _sample(sample: Sample | None) -> dict[str, Any] | None:
    if sample is None:
        return None
    return {
        "at": sample.at.isoformat(),
        "cpu_seconds": sample.cpu_seconds,
        "memory_bytes": sample.memory_bytes,
        "network_bytes": sample.network_bytes,
        "block_bytes": sample.block_bytes,
    }


class Presence:
    """`workers/<worker>.json`: rewritten at every sample interval and soon after a change."""

    def __init__(
        self, storage: PackageStorage, settings: Settings, instance: Instance, *, runtime: str, engine: str
    ) -> None:
        self._storage = storage
        self._settings = settings
        self._instance = instance
        self._runtime = {"name": runtime, "engine": engine}
        self._started_at = now()
        self._changed = asyncio.Event()
        self._running: dict[str, dict[str, Any]] = {}
        self._finishing: dict[str, dict[str, Any]] = {}
        self._state = "running"

    @property
    def state(self) -> str:
        """`running`, `low_disk`, `draining` or `stopped`."""
        return self._state

    @state.setter
    def state(self, state: str) -> None:
        if state != self._state:
            self._state = state
            self._changed.set()

    def runs(self, claim: Claim) -> None:
        """A run has begun."""
        self._running[claim.nonce] = {
            "stem": claim.stem,
            "attempt": claim.package.attempt,
            "since": now().isoformat(),
        }
        self._changed.set()

    def finishes(self, claim: Claim) -> None:
        """A run has left its slot; its commit is what remains."""
        self._finishing[claim.nonce] = self._running.pop(claim.nonce)
        self._changed.set()

    def ended(self, claim: Claim) -> None:
        """Nothing of a run is left here."""
        self._running.pop(claim.nonce, None)
        self._finishing.pop(claim.nonce, None)
        self._changed.set()

    async def keep(self) -> None:
        """Tell until cancelled; a failure is told in the log and made good by the next one."""
        while True:
            self._changed.clear()
            await self.tell()
            due = time.monotonic() + self._settings.sample_interval
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, due - time.monotonic())):
                    await self._changed.wait()
                    await asyncio.sleep(SETTLE_SECONDS)

    async def say_goodbye(self) -> None:
        """The last word of a worker that stops, if it can be said soon."""
        self._state = "stopped"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GOODBYE_SECONDS):
                await self.tell()

    async def tell(self) -> None:
        try:
            body = json.dumps(await self._body()).encode()
            await self._storage.write(Container.RESULTS, worker_name(self._instance.name), body)
            self._instance.sign_of_life()
        except Exception as error:
            log.warning("presence_not_told", cause=f"{type(error).__name__}: {error}")

    async def _body(self) -> dict[str, Any]:
        methods, _ = await list_methods(self._settings.methods_dir, base_image=self._settings.base_image)
        return {
            "version": VERSION,
            "worker": self._instance.name,
            "host": self._instance.host,
            "service_version": __version__,
            "runtime": self._runtime,
            "state": self._state,
            "slots": self._settings.worker_jobs,
            "running": list(self._running.values()),
            "finishing": list(self._finishing.values()),
            "methods": [
                {"title": m.method.title, "version": m.method.version, "digest": m.digest} for m in methods
            ],
            "disk": {
                "free_bytes": self._instance.free_bytes(),
                "reserve_bytes": self._settings.disk_reserve_bytes,
            },
            "started_at": self._started_at.isoformat(),
            "at": now().isoformat(),
        }
