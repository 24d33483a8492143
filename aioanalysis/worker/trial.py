"""Runs one method on local records, as a worker runs it but with no service at all."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from aioanalysis.aio import finish, in_thread
from aioanalysis.domain.members import PARAMS_MEMBER, RECORDS_MEMBER
from aioanalysis.domain.method import Limits
from aioanalysis.domain.outcomes import JobError
from aioanalysis.domain.usage import Sample
from aioanalysis.errors import Invalid
from aioanalysis.interfaces import MethodDirectory, RunSpec, Runtime
from aioanalysis.worker.claims import cancel
from aioanalysis.worker.jobtree import read_small
from aioanalysis.worker.outcome import Facts
from aioanalysis.worker.progress import now
from aioanalysis.worker.sampler import Watch
from aioanalysis.worker.verdict import Report, judge, read_report
from aioanalysis.worker.workspace import remove_tree

SAMPLE_SECONDS: Final = 0.5
ALIVE_SECONDS: Final = 60.0
PROGRESS_MAX_BYTES: Final = 64 << 10
LABEL: Final = "aioanalysis.trial"

Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """What came of it; the files are in `job_dir`."""

    job_dir: Path
    error: JobError | None
    report: Report
    usage: dict[str, Any]


async def try_method(
    runtime: Runtime,
    method: MethodDirectory,
    records: bytes,
    params: dict[str, Any],
    job_dir: Path,
    limits: Limits,
    tell: Tell,
) -> Trial:
    """Build and run `method` in `job_dir`, which is emptied first; `tell` hears of each step.

    Raises `MethodFailure` (image, container), `Unavailable` (engine), `Invalid` (the folder).
    """
    try:
        await in_thread(_prepare, job_dir, records, params)
    except OSError as error:
        raise Invalid(f"{job_dir} cannot be written: {error.strerror}") from error
    facts = Facts(started_at=now(), limits=limits)
    tell("building the image" if runtime.name == "docker" else "no image: child processes of this one")
    image = await runtime.build(method)
    spec = RunSpec(
        name=f"aioanalysis-trial-{uuid4().hex[:12]}",
        labels={LABEL: method.method.title},
        job_dir=job_dir,
        method=method,
        limits=limits,
        alive_seconds=ALIVE_SECONDS,
    )
    run = await runtime.start(image, spec)
    try:
        stages = _Stages(job_dir, tell)
        watch = Watch(runtime, run, job_dir, limits, seconds=SAMPLE_SECONDS, tell=stages.look)
        watching = asyncio.create_task(watch.run(), name="watch")
        try:
            facts.ended = await runtime.wait(run)
        finally:
            await cancel({watching})
        await watch.check_left()
    finally:
        await finish(_remove(runtime, run), name="remove run")
    facts.samples, facts.finished_at = watch.sampler.samples, now()
    facts.report = await in_thread(read_report, job_dir)
    verdict = judge(facts.ended, facts.report, limits, watch.broken, disk_full=watch.disk_full)
    usage = facts.usage(SAMPLE_SECONDS).to_json()
    return Trial(job_dir=job_dir, error=verdict, report=facts.report, usage=usage)


def _prepare(job_dir: Path, records: bytes, params: dict[str, Any]) -> None:
    remove_tree(job_dir)
    job_dir.mkdir(parents=True)
    (job_dir / RECORDS_MEMBER).write_bytes(records)
    (job_dir / PARAMS_MEMBER).write_text(json.dumps(params), encoding="utf-8")
    (job_dir / ".alive").touch()


async def _remove(runtime: Runtime, run: str) -> None:
    await runtime.kill(run)
    await runtime.remove(run)


class _Stages:
    """Tells when another stage has begun, and shows the run that we live."""

    def __init__(self, job_dir: Path, tell: Tell) -> None:
        self._job_dir = job_dir
        self._tell = tell
        self._script: str | None = None

    async def look(self, _: Sample | None) -> None:
        self._look()

    def _look(self) -> None:
        (self._job_dir / ".alive").touch()
        with suppress(ValueError):
            body = json.loads(read_small(self._job_dir, "progress.json", PROGRESS_MAX_BYTES) or b"{}")
            if isinstance(body, dict) and body.get("script") != self._script:
                self._script = body.get("script")
                self._tell(f"stage {body.get('stage')} of {body.get('stages')}: {self._script}")
