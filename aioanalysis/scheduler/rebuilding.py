"""Makes job records again from what is in storage, after Redis was lost with its data (PROTOCOL 4)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from aioanalysis import logs
from aioanalysis.domain.exchange import (
    CLAIMED,
    SIDECAR_MAX_BYTES,
    Container,
    PackageMeta,
    RunMark,
    parse_result,
    parse_stem,
    stem_of_package,
)
from aioanalysis.domain.frames import Frame, aggregate
from aioanalysis.domain.job import HistoryEvent, Job, Source
from aioanalysis.domain.planning import SCHEDULER
from aioanalysis.domain.states import State
from aioanalysis.errors import AnalysisError, Contested
from aioanalysis.interfaces import BlobInfo, ExchangeStorage, JobStore

LEAST_TIME: Final = timedelta(minutes=1)
log = logs.get()


@dataclass(kw_only=True, slots=True)
class Rebuilt:
    """What came of it: ids of jobs made again, known already, expired; and files that say too little."""

    made: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    expired: list[str] = field(default_factory=list)
    unusable: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Trace:
    """One run's trace in storage."""

    stem: str
    meta: PackageMeta
    phase: State


async def rebuild(storage: ExchangeStorage, jobs: JobStore, now: datetime) -> Rebuilt:
    """Make a record for each job that storage knows and the job store does not.

    Records begin as queued or running; the next pass gives them the state that storage shows. What was only
    waiting has left no trace and is lost, as are parameters' sources and submitters' keys: such a job
    can be read, run on and removed, but not packaged anew. Repeatable.
    """
    rebuilt = Rebuilt()
    traces: dict[str, dict[int | None, _Trace]] = defaultdict(dict)
    for trace in await _traces(storage, rebuilt):
        parts = parse_stem(trace.stem)
        if parts is not None:
            traces[parts.job_id].setdefault(parts.frame, trace)
    for job_id, runs in traces.items():
        await _make(jobs, job_id, runs, now, rebuilt)
    return rebuilt


async def _traces(storage: ExchangeStorage, rebuilt: Rebuilt) -> list[_Trace]:
    """Packages first, then claims, then sidecars: the first trace of a run says how far it is."""
    traces = []
    for container, prefix, phase in (
        (Container.QUEUE, "", State.QUEUED),
        (Container.RESULTS, CLAIMED, State.RUNNING),
    ):
        root_only = container is Container.QUEUE
        async for blob in storage.list(container, prefix, root_only=root_only):
            stem = stem_of_package(blob.name)
            if stem is not None:
                meta = PackageMeta.from_metadata(blob.metadata)
                traces.append(_Trace(stem=stem, meta=meta, phase=phase))
    async for blob in storage.list(Container.RESULTS, root_only=True):
        parsed = parse_result(blob.name)
        if parsed is not None and parsed[2]:
            try:
                meta = await _sidecar_meta(storage, blob)
            except (AnalysisError, ValueError, TypeError) as error:
                rebuilt.unusable.append(blob.name)
                log.warning("sidecar_unusable", name=blob.name, error=str(error))
            else:
                traces.append(_Trace(stem=parsed[0], meta=meta, phase=State.RUNNING))
    return traces


async def _sidecar_meta(storage: ExchangeStorage, blob: BlobInfo) -> PackageMeta:
    """What a sidecar tells of the package it came from; raises ValueError for what is no such thing."""
    async with storage.open(Container.RESULTS, blob.name, end=SIDECAR_MAX_BYTES) as stream:
        body = json.loads(b"".join([chunk async for chunk in stream.chunks()]))
    told: Mapping[str, Any] = (body.get("job") if isinstance(body, dict) else None) or {}
    metadata = {name: str(value) for name, value in told.items() if value is not None and name != "owner"}
    mark, records = RunMark.from_metadata(blob.metadata), body.get("records")
    return replace(
        PackageMeta.from_metadata(metadata),
        uid=mark.uid,
        attempt=mark.attempt or 1,
        owner=told.get("owner"),
        records=records if isinstance(records, int) else None,
    )


async def _make(
    jobs: JobStore, job_id: str, runs: Mapping[int | None, _Trace], now: datetime, rebuilt: Rebuilt
) -> None:
    first = next(iter(runs.values()))
    meta = first.meta
    if meta.uid is None or meta.owner is None or meta.submitted_at is None or meta.expires_at is None:
        rebuilt.unusable.append(first.stem)
        return
    if meta.expires_at - now < LEAST_TIME:
        rebuilt.expired.append(job_id)
        return
    if await jobs.get(job_id) is not None:
        rebuilt.known.append(job_id)
        return
    parts = parse_stem(first.stem)
    frames = tuple(
        Frame(
            number=number,
            phase=trace.phase,
            attempt=trace.meta.attempt,
            packaged_count=trace.meta.records,
        )
        for number, trace in sorted(runs.items(), key=lambda run: run[0] or 0)
    )
    job = Job(
        id=job_id,
        uid=meta.uid,
        title=parts.title if parts else "",
        params={},
        source=Source(kind="lost"),
        submitter=meta.owner,
        submitted_at=meta.submitted_at,
        expires_at=meta.expires_at,
        deadline=meta.deadline or meta.expires_at,
        state_changed_at=now,
        last_updated=now,
        frames=frames,
        state=aggregate(frames),
        history=(
            HistoryEvent(at=now, event="rebuild", from_state=None, to_state=aggregate(frames), by=SCHEDULER),
        ),
    )
    try:
        await jobs.create(job, "")
    except Contested:
        rebuilt.known.append(job_id)
        return
    rebuilt.made.append(job_id)
    log.info("job_rebuilt", job_id=job_id, title=job.title, state=job.state.value)
