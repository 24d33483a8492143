"""Packages of a run's earlier attempts that were kept."""

from __future__ import annotations

import re
from typing import Final, Literal, Self
from urllib.parse import quote

from aiohttp import web

from aioanalysis.api.context import CONTEXT
from aioanalysis.api.endpoints import Endpoint
from aioanalysis.api.requests import FrameQuery
from aioanalysis.api.responses import answer
from aioanalysis.api.runs import run_of
from aioanalysis.api.runviews import Time, View
from aioanalysis.domain.exchange import ATTEMPTS, Container, RunMark
from aioanalysis.interfaces import BlobInfo

Kept = Literal["complete", "failed", "killed"]
PACKAGE: Final = re.compile(r"([0-9]{1,9})(\.zip|\.failed\.zip|\.killed\.zip)", re.ASCII)
ENDINGS: Final[dict[str, Kept]] = {".zip": "complete", ".failed.zip": "failed", ".killed.zip": "killed"}


class KeptView(View):
    """What an attempt left: its package, or what it had made until it was killed."""

    attempt: int
    ending: Kept
    name: str
    size: int
    modified_at: Time
    link: str

    @classmethod
    def of(cls, blob: BlobInfo, attempt: int, ending: Kept) -> Self:
        return cls(
            attempt=attempt,
            ending=ending,
            name=blob.name,
            size=blob.size,
            modified_at=blob.modified_at,
            link=f"/v1/packages/{Container.RESULTS}/{quote(blob.name)}",
        )


class KeptList(View):
    """By attempt."""

    packages: tuple[KeptView, ...]


async def listing(request: web.Request) -> web.StreamResponse:
    """As they lie in storage; that of the attempt that counts is the result or the failed result."""
    run = await run_of(request)
    prefix = f"{ATTEMPTS}{run.stem}."
    found = []
    async for blob in request.app[CONTEXT].storage.list(Container.RESULTS, prefix):
        match = PACKAGE.fullmatch(blob.name.removeprefix(prefix))
        if match and RunMark.from_metadata(blob.metadata).uid in {None, run.job.uid}:
            found.append(KeptView.of(blob, int(match[1]), ENDINGS[match[2]]))
    return answer(KeptList(packages=tuple(sorted(found, key=lambda one: one.attempt))))


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/v1/jobs/{id}/attempts",
        handler=listing,
        summary="Packages of earlier attempts that were kept",
        query=FrameQuery,
        answer=KeptList,
        problems=(404, 422),
    ),
)
