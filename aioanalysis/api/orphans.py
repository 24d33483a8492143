"""What the two containers hold in all, the files that belong to no job, and their removal."""

from __future__ import annotations

from typing import Annotated, Final, Self
from urllib.parse import quote

from aiohttp import web
from pydantic import Field

from aioanalysis import logs
from aioanalysis.api.access import require_all
from aioanalysis.api.bodies import read_body
from aioanalysis.api.cached import Cached
from aioanalysis.api.context import CALLER, ApiContext
from aioanalysis.api.endpoints import Endpoint
from aioanalysis.api.requests import Body
from aioanalysis.api.responses import answer
from aioanalysis.api.runrequests import Whole
from aioanalysis.api.runviews import Time, View
from aioanalysis.domain.exchange import Container
from aioanalysis.domain.orphans import REMOVABLE, SURE, Kind, OrphanReason
from aioanalysis.orphans import Amount, Orphan, Orphans, Stocktaking

LISTED_MAX: Final = 1000
KEPT_SECONDS: Final = 30.0
log = logs.get()


class SweepRequest(Body):
    """Orphans for which reasons to remove, and how many at most; `unknown` only when it is named."""

    reasons: list[Annotated[OrphanReason, Field(strict=False)]] = Field(
        default_factory=lambda: sorted(SURE), min_length=1, max_length=len(OrphanReason)
    )
    limit: Whole = Field(LISTED_MAX, ge=1, le=LISTED_MAX)


class HoldingView(View):
    """So many files of one kind."""

    container: Container
    kind: Kind
    files: int
    bytes: int


class ReasonView(View):
    """So many orphans for one reason; a sweep takes them (`removable`), unasked even (`sure`)."""

    reason: OrphanReason
    removable: bool
    sure: bool
    files: int
    bytes: int

    @classmethod
    def of(cls, reason: OrphanReason, amount: Amount) -> Self:
        return cls(
            reason=reason,
            removable=reason in REMOVABLE,
            sure=reason in SURE,
            files=amount.files,
            bytes=amount.bytes,
        )


class OrphanView(View):
    """A file that belongs to no job. `job` is the id in its name."""

    container: Container
    name: str
    kind: Kind
    reason: OrphanReason
    job: str | None
    size: int
    modified_at: Time
    link: str

    @classmethod
    def of(cls, orphan: Orphan) -> Self:
        return cls(
            container=orphan.container,
            name=orphan.blob.name,
            kind=orphan.kind,
            reason=orphan.reason,
            job=orphan.job_id,
            size=orphan.blob.size,
            modified_at=orphan.blob.modified_at,
            link=f"/v1/packages/{orphan.container}/{quote(orphan.blob.name)}",
        )


class OrphanList(View):
    """What storage held at `at`: all files by kind, the orphans by reason, and the first 1,000 one by one.

    Files younger than `safe_seconds`, or held by a worker, are no orphans yet.
    """

    at: Time
    safe_seconds: float
    holdings: tuple[HoldingView, ...]
    reasons: tuple[ReasonView, ...]
    files: tuple[OrphanView, ...]

    @classmethod
    def of(cls, stock: Stocktaking, safe_seconds: float) -> Self:
        return cls(
            at=stock.at,
            safe_seconds=safe_seconds,
            holdings=tuple(
                HoldingView(container=container, kind=kind, files=amount.files, bytes=amount.bytes)
                for (container, kind), amount in sorted(stock.kinds.items())
            ),
            reasons=tuple(
                ReasonView.of(reason, stock.reasons[reason])
                for reason in OrphanReason
                if reason in stock.reasons
            ),
            files=tuple(OrphanView.of(orphan) for orphan in stock.orphans),
        )


class SweepView(View):
    """What was removed; `changed` are files that stayed because they had been written or taken meanwhile.

    `failed` says of files with what their removal failed. `more`: there are more than the limit; sweep again.
    """

    removed_files: int
    removed_bytes: int
    changed: tuple[str, ...]
    failed: dict[str, str]
    more: bool


def make(context: ApiContext) -> Orphans:
    operations, settings = context.operations, context.settings
    return Orphans(
        context.storage,
        operations.jobs,
        safe_seconds=settings.orphan_seconds,
        job_expiry=settings.job_expiry,
        clock=operations.clock,
    )


def make_stock(orphans: Orphans, context: ApiContext) -> Cached[OrphanList]:
    async def take() -> OrphanList:
        stock = await orphans.take_stock(keep=LISTED_MAX)
        return OrphanList.of(stock, context.settings.orphan_seconds)

    return Cached(take, KEPT_SECONDS)


ORPHANS: Final = web.AppKey("orphans", Orphans)
STOCK: Final = web.AppKey("stock", Cached[OrphanList])


async def listing(request: web.Request) -> web.StreamResponse:
    """Both containers are listed whole for it, at most every 30 s. Nothing is changed."""
    require_all(request, "The list of orphans")
    return answer(await request.app[STOCK].get())


async def sweep(request: web.Request) -> web.StreamResponse:
    """Looks anew, then removes; neither a file of a job that is there, nor one by no name of ours.

    Orphans for the reason `unknown` may be of jobs whose records were lost: `aioanalysis rebuild` first.
    """
    require_all(request, "A sweep")
    wanted = await read_body(request, SweepRequest)
    by = request[CALLER].user.name
    found = await request.app[ORPHANS].sweep(wanted.reasons, limit=wanted.limit, by=by)
    request.app[STOCK].drop()
    log.info(
        "orphans_swept",
        by=by,
        reasons=[reason.value for reason in wanted.reasons],
        files=found.removed.files,
        bytes=found.removed.bytes,
        changed=len(found.changed),
        failed=len(found.failed),
    )
    return answer(
        SweepView(
            removed_files=found.removed.files,
            removed_bytes=found.removed.bytes,
            changed=tuple(found.changed),
            failed=found.failed,
            more=found.more,
        )
    )


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/v1/orphans",
        handler=listing,
        summary="What storage holds, and files of no job",
        answer=OrphanList,
        problems=(403,),
    ),
    Endpoint(
        method="POST",
        path="/v1/orphans/sweep",
        handler=sweep,
        summary="Remove files of no job",
        body=SweepRequest,
        answer=SweepView,
        problems=(400, 403, 408, 413, 415, 422),
    ),
)
