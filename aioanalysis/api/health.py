"""Whether the process lives, and whether the parts that it needs answer."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web

from aioanalysis import logs
from aioanalysis.api.context import CONTEXT
from aioanalysis.api.endpoints import Endpoint
from aioanalysis.api.problems import HttpProblem
from aioanalysis.api.responses import answer
from aioanalysis.api.runviews import View

READY_SECONDS: Final = 5.0
log = logs.get()


class Alive(View):
    status: str = "ok"


class Readiness(View):
    """The parts looked at; each is `ok` or `failing`."""

    status: str
    checks: dict[str, str]


async def alive(request: web.Request) -> web.StreamResponse:
    return answer(Alive())


async def ready(request: web.Request) -> web.StreamResponse:
    """What is wrong with a part goes to the log only: this address is open to everybody."""
    try:
        async with asyncio.timeout(READY_SECONDS):
            found = dict(await request.app[CONTEXT].ready())
    except TimeoutError:
        found = {"all": f"no answer within {READY_SECONDS:g} s"}
    wrong = {name: problem for name, problem in found.items() if problem is not None}
    checks = {name: "failing" if name in wrong else "ok" for name in found}
    if wrong:
        log.warning("not_ready", **wrong)
        raise HttpProblem(
            503,
            f"Not ready: {', '.join(sorted(wrong))}.",
            headers={"Retry-After": "5"},
            members={"checks": checks},
        )
    return answer(Readiness(status="ok", checks=checks))


ENDPOINTS: Final = (
    Endpoint(method="GET", path="/healthz", handler=alive, summary="The process lives", answer=Alive),
    Endpoint(
        method="GET",
        path="/readyz",
        handler=ready,
        summary="Job store and storage answer, the scheduler is at work",
        answer=Readiness,
        problems=(503,),
    ),
)
