"""What the API is given, and the keys under which app and request carry what belongs to them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Literal

from aiohttp import web

from aioanalysis.errors import Unavailable
from aioanalysis.interfaces import (
    ExchangeStorage,
    Glances,
    Identity,
    JobEvents,
    JobStore,
    Outlooks,
    ProgressBoard,
    Session,
    Sessions,
    User,
)
from aioanalysis.operations import Operations
from aioanalysis.settings import Settings

STORE_SECONDS: Final = 3.0
RETRY_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Gauge:
    """One figure for /metrics; `name` without the service's prefix."""

    name: str
    value: float
    help: str
    labels: Mapping[str, str] = field(default_factory=dict)
    kind: Literal["gauge", "counter", "histogram"] = "gauge"


async def no_gauges() -> Sequence[Gauge]:
    return ()


@dataclass(frozen=True, kw_only=True)
class ApiContext:
    """The parts behind the API, opened and closed by whoever runs it.

    `methods_dir` is None where there is none: titles and params then go unchecked. `ready` looks at the
    parts and gives name -> None, or what is wrong; it raises nothing. `gauges` are the figures of the
    process's other parts for /metrics.
    """

    operations: Operations
    jobs: JobStore
    storage: ExchangeStorage
    identity: Identity
    events: JobEvents
    progress: ProgressBoard
    outlooks: Outlooks
    glances: Glances
    sessions: Sessions
    settings: Settings
    ready: Callable[[], Awaitable[Mapping[str, str | None]]]
    methods_dir: Path | None = None
    gauges: Callable[[], Awaitable[Sequence[Gauge]]] = no_gauges


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """Who makes a request, and with which key; with a `link` nobody, who may see what it was signed for."""

    user: User
    key: str
    session: Session | None = None
    link: str | None = None


@dataclass(kw_only=True, slots=True)
class Trace:
    """What is known of a request's answer so far, for the log line."""

    request_id: str
    started: web.StreamResponse | None = None
    sent_bytes: int = 0
    cut: str | None = None


CONTEXT: Final = web.AppKey("context", ApiContext)
CALLER: Final = web.RequestKey("caller", Caller)
TRACE: Final = web.RequestKey("trace", Trace)


class job_store_time:  # noqa: N801 - used as a function
    """Bounds a use of the job store; raises `Unavailable` when it takes too long."""

    __slots__ = ("_timeout",)

    async def __aenter__(self) -> None:
        self._timeout = await asyncio.timeout(STORE_SECONDS).__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            raise Unavailable("the job store does not answer", retry_after=RETRY_SECONDS) from None
