"""Makes signed links to what a job has left."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from aiohttp import web

from aioanalysis.api.access import job_of
from aioanalysis.api.bodies import read_body
from aioanalysis.api.context import CONTEXT
from aioanalysis.api.endpoints import Endpoint
from aioanalysis.api.links import LINKS, LinkRequest, LinkView, signed
from aioanalysis.api.responses import answer
from aioanalysis.errors import Invalid


async def make(request: web.Request) -> web.StreamResponse:
    """Bound to the job, the one file and the time; whoever has it needs no key."""
    context = request.app[CONTEXT]
    job = await job_of(request)
    wanted = await read_body(request, LinkRequest)
    most = context.settings.link_max_seconds
    if wanted.seconds > most:
        raise Invalid("A link cannot hold that long.", [("/seconds", f"may be {most} at most")])
    until = min(context.operations.clock() + timedelta(seconds=wanted.seconds), job.expires_at)
    until = until.replace(microsecond=0)
    link = signed(request.app[LINKS], job, wanted, int(until.timestamp()))
    return answer(LinkView(link=link, expires_at=until))


ENDPOINTS: Final = (
    Endpoint(
        method="POST",
        path="/v1/jobs/{id}/links",
        handler=make,
        summary="A short-lived link to a file of the job",
        body=LinkRequest,
        answer=LinkView,
        problems=(400, 404, 408, 413, 415, 422),
    ),
)
