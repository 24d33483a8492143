"""The workers that have given a sign of life: what they are, what they run, and whether they still live."""

from __future__ import annotations

from datetime import datetime, timedelta
from heapq import nlargest
from typing import Final, Self

from aiohttp import web

from aioanalysis.api.access import require_all
from aioanalysis.api.cached import Cached
from aioanalysis.api.context import ApiContext
from aioanalysis.api.endpoints import Endpoint
from aioanalysis.api.responses import answer
from aioanalysis.api.runviews import Time, View
from aioanalysis.domain.exchange import WORKERS, Container, parse_stem
from aioanalysis.domain.presence import RunSign, WorkerSign
from aioanalysis.signs import read_signs

WORKERS_MAX: Final = 500
KEPT_SECONDS: Final = 2.0
ALIVE_SECONDS: Final = 60.0
"""How long a sign of life counts at least; with long sample intervals, three of them."""


class WorkerRunView(View):
    """A run that a worker is at; `frame` is null for a job of one run."""

    stem: str
    job: str | None
    title: str | None
    frame: int | None
    attempt: int | None
    since: Time | None

    @classmethod
    def of(cls, run: RunSign) -> Self:
        parsed = parse_stem(run.stem)
        return cls(
            stem=run.stem,
            job=parsed.job_id if parsed else None,
            title=parsed.title if parsed else None,
            frame=parsed.frame if parsed else None,
            attempt=run.attempt,
            since=run.since,
        )


class WorkerMethodView(View):
    title: str
    version: str | None
    digest: str | None


class WorkerDiskView(View):
    """Below the reserve a worker claims nothing."""

    free_bytes: int | None
    reserve_bytes: int | None


class WorkerView(View):
    """A worker by its last sign of life; what that does not tell is null.

    `state` is what it said of itself: running, low_disk, draining or stopped. `alive`: it has not stopped,
    and its sign is fresh. `running` take slots; `finishing` have run, and are being committed beside them.
    """

    worker: str
    alive: bool
    state: str
    seen_at: Time
    started_at: Time | None
    host: str | None
    service_version: str | None
    runtime: str | None
    engine: str | None
    slots: int | None
    running: tuple[WorkerRunView, ...]
    finishing: tuple[WorkerRunView, ...]
    methods: tuple[WorkerMethodView, ...]
    disk: WorkerDiskView

    @classmethod
    def of(cls, sign: WorkerSign, seen_at: datetime, *, alive: bool) -> Self:
        return cls(
            worker=sign.worker,
            alive=alive and sign.state != "stopped",
            state=sign.state,
            seen_at=seen_at,
            started_at=sign.started_at,
            host=sign.host,
            service_version=sign.service_version,
            runtime=sign.runtime,
            engine=sign.engine,
            slots=sign.slots,
            running=tuple(WorkerRunView.of(run) for run in sign.running),
            finishing=tuple(WorkerRunView.of(run) for run in sign.finishing),
            methods=tuple(WorkerMethodView.model_validate(method) for method in sign.methods),
            disk=WorkerDiskView.model_validate(sign),
        )


class WorkerList(View):
    """Those that were seen last first; of more than 500 the others are left out.

    `unreadable` names the files of workers whose sign of life cannot be read.
    """

    at: Time
    workers: tuple[WorkerView, ...]
    unreadable: tuple[str, ...]


def make(context: ApiContext) -> Cached[WorkerList]:
    return Cached(lambda: _look(context), KEPT_SECONDS)


SIGNS: Final = web.AppKey("workers", Cached[WorkerList])


async def listing(request: web.Request) -> web.StreamResponse:
    """Workers are seen by the file that each keeps in storage; one that is long gone stays until swept."""
    require_all(request, "The list of workers")
    return answer(await request.app[SIGNS].get())


async def _look(context: ApiContext) -> WorkerList:
    blobs = [blob async for blob in context.storage.list(Container.RESULTS, WORKERS)]
    latest = nlargest(WORKERS_MAX, blobs, key=lambda blob: blob.modified_at)
    signs = await read_signs(context.storage, latest)
    now = context.operations.clock()
    fresh = now - timedelta(seconds=max(ALIVE_SECONDS, 3 * context.settings.sample_interval))
    found = list(zip(latest, signs, strict=True))
    return WorkerList(
        at=now,
        workers=tuple(
            WorkerView.of(sign, blob.modified_at, alive=blob.modified_at >= fresh)
            for blob, sign in found
            if sign is not None
        ),
        unreadable=tuple(blob.name for blob, sign in found if sign is None),
    )


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/v1/workers",
        handler=listing,
        summary="Workers seen, and what they run",
        answer=WorkerList,
        problems=(403,),
    ),
)
