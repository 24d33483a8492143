"""What a run uses of the machine: over time, and the limits in force."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Self

from aiohttp import web

from aioanalysis.aio import in_thread
from aioanalysis.api.context import CONTEXT
from aioanalysis.api.endpoints import Endpoint
from aioanalysis.api.methods import LimitsView
from aioanalysis.api.requests import FrameQuery
from aioanalysis.api.responses import answer
from aioanalysis.api.runs import ENDINGS, run_of, stat
from aioanalysis.api.runviews import UsageView, View
from aioanalysis.domain import foreign
from aioanalysis.domain.exchange import (
    SIDECAR_MAX_BYTES,
    Container,
    RunMark,
    progress_name,
    sidecar_name,
)
from aioanalysis.domain.usage import Usage
from aioanalysis.errors import Damaged, NotFound
from aioanalysis.interfaces import BlobInfo, PackageStorage


class RunUsage(View):
    """What a run used, so far if it is under way; and the limits in force, null where they are not known."""

    usage: UsageView | None
    limits: LimitsView

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Self:
        told, limits = body.get("usage"), foreign.mapping(body.get("limits"))
        used = Usage.from_json(told) if isinstance(told, Mapping) else None
        return cls(
            usage=UsageView.of(used),
            limits=LimitsView(
                run_seconds=foreign.number(limits.get("run_seconds")),
                silence_seconds=foreign.number(limits.get("silence_seconds")),
                memory_bytes=foreign.whole(limits.get("memory_bytes")),
                cpus=foreign.number(limits.get("cpus")),
                output_bytes=foreign.whole(limits.get("output_bytes")),
            ),
        )


async def usage(request: web.Request) -> web.StreamResponse:
    """Of a run that has ended from its sidecar, of one under way as its worker told with the last sample."""
    run = await run_of(request)
    if run.state in ENDINGS:
        told = await stat(request, run.job, sidecar_name(run.stem, run.ending()))
    else:
        told = await stat(request, run.job, progress_name(run.stem), "There are no figures yet.")
        if RunMark.from_metadata(told.metadata).attempt not in {None, run.attempt}:
            raise NotFound("There are no figures yet.")
    body = await _json(request.app[CONTEXT].storage, told)
    return answer(RunUsage.of(body))


async def _json(storage: PackageStorage, blob: BlobInfo) -> Mapping[str, Any]:
    """What a worker wrote, an object; raises `Damaged`."""
    if blob.size > SIDECAR_MAX_BYTES:
        raise Damaged(f"{blob.name} is larger than {SIDECAR_MAX_BYTES} bytes")
    data = bytearray()
    async with storage.open(Container.RESULTS, blob.name, etag=blob.etag) as stream:
        async for piece in stream.chunks():
            data += piece
    try:
        return foreign.mapping(await in_thread(json.loads, data))
    except (ValueError, RecursionError):
        raise Damaged(f"{blob.name} is not JSON") from None


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/v1/jobs/{id}/usage",
        handler=usage,
        summary="CPU and memory of a run, so far or whole",
        query=FrameQuery,
        answer=RunUsage,
        problems=(404, 422),
    ),
)
