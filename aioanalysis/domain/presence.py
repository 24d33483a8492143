"""What a worker says of itself in `workers/<worker>.json`, read with tolerance: versions may differ."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from aioanalysis.domain import foreign
from aioanalysis.errors import Damaged

SIGN_MAX_BYTES: Final = 1024 * 1024
LISTED_MAX: Final = 1000
"""Runs and methods that are read of one worker at most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSign:
    """A run that the worker is at."""

    stem: str
    attempt: int | None
    since: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class MethodSign:
    """A method as the worker has it; `digest` is that of its directory."""

    title: str
    version: str | None
    digest: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerSign:
    """One worker's sign of life; what it does not tell is None.

    `state`: running, low_disk, draining or stopped. `running` take slots; `finishing` have run, and are being
    committed beside them.
    """

    worker: str
    host: str | None
    service_version: str | None
    runtime: str | None
    engine: str | None
    state: str
    slots: int | None
    running: tuple[RunSign, ...]
    finishing: tuple[RunSign, ...]
    methods: tuple[MethodSign, ...]
    free_bytes: int | None
    reserve_bytes: int | None
    started_at: datetime | None
    at: datetime | None  # by the worker's clock


def parse_sign(data: bytes) -> WorkerSign:
    """Raises `Damaged` for what is no JSON object, or names no worker."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"not JSON: {error}") from error
    worker = _text(body.get("worker")) if isinstance(body, dict) else None
    if worker is None:
        raise Damaged("names no worker")
    runtime, disk = foreign.mapping(body.get("runtime")), foreign.mapping(body.get("disk"))
    return WorkerSign(
        worker=worker,
        host=_text(body.get("host")),
        service_version=_text(body.get("service_version")),
        runtime=_text(runtime.get("name")),
        engine=_text(runtime.get("engine")),
        state=_text(body.get("state")) or "running",
        slots=foreign.whole(body.get("slots")),
        running=_runs(body.get("running")),
        finishing=_runs(body.get("finishing")),
        methods=tuple(
            MethodSign(title=title, version=_text(one.get("version")), digest=_text(one.get("digest")))
            for one in _mappings(body.get("methods"))
            if (title := _text(one.get("title"))) is not None
        ),
        free_bytes=foreign.whole(disk.get("free_bytes")),
        reserve_bytes=foreign.whole(disk.get("reserve_bytes")),
        started_at=foreign.moment(body.get("started_at")),
        at=foreign.moment(body.get("at")),
    )


def _runs(value: object) -> tuple[RunSign, ...]:
    return tuple(
        RunSign(stem=stem, attempt=foreign.whole(run.get("attempt")), since=foreign.moment(run.get("since")))
        for run in _mappings(value)
        if (stem := _text(run.get("stem"))) is not None
    )


def _mappings(value: object) -> Iterable[Mapping[str, Any]]:
    items = value[:LISTED_MAX] if isinstance(value, list) else []
    return (item for item in items if isinstance(item, Mapping))


def _text(value: object) -> str | None:
    """`value` as text that UTF-8 can carry."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None
