"""Around every request: its id and log line, its errors as problems, and who makes it: one middleware."""

from __future__ import annotations

import os
import re
import time
from typing import Final

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from aioanalysis import logs
from aioanalysis.api.context import CALLER, TRACE, Trace
from aioanalysis.api.metrics import METRICS, NO_ROUTE
from aioanalysis.api.problems import problem_of
from aioanalysis.api.signin import caller_of

REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
PATH_CHARACTERS: Final = 200
PROTECTED: Final = "/v1"

log = logs.get()


@web.middleware
async def serving(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Gives the request its id, finds out who makes it, makes a problem of every error, and tells of it.

    Nobody gets to a protected route without a key that somebody holds.
    """
    began = time.perf_counter()
    trace = request[TRACE] = Trace(request_id=_request_id(request))
    structlog.contextvars.bind_contextvars(request_id=trace.request_id)  # the task is the request's own
    resource = request.match_info.route.resource
    route = NO_ROUTE if resource is None else resource.canonical
    try:
        if route.startswith(PROTECTED):
            request[CALLER] = await caller_of(request)
        response = await handler(request)
    except Exception as error:
        response = _failed(trace, request, error)
    seconds = time.perf_counter() - began
    _write_line(request, response, trace, seconds)
    request.app[METRICS].count(request.method, route, response.status, seconds, trace)
    return response


def _request_id(request: web.Request) -> str:
    given = request.headers.get("X-Request-ID")
    return given if given is not None and REQUEST_ID.fullmatch(given) else os.urandom(16).hex()


def _failed(trace: Trace, request: web.Request, error: Exception) -> web.StreamResponse:
    """The problem; once an answer has begun, that answer, cut off: nothing may follow its bytes."""
    if trace.started is not None:
        log.exception("answer_cut")
        trace.cut = trace.cut or "fault"
        if request.transport is not None:
            request.transport.abort()
        return trace.started
    problem = problem_of(error)
    if problem.status == web.HTTPInternalServerError.status_code:
        log.exception("request_failed")
    return problem.response()


def _write_line(request: web.Request, response: web.StreamResponse, trace: Trace, seconds: float) -> None:
    caller = request.get(CALLER)
    logs.tell(
        "request",
        request_id=trace.request_id,
        method=request.method,
        path=request.rel_url.raw_path[:PATH_CHARACTERS],
        status=response.status,
        ms=round(seconds * 1000, 1),
        user=caller.user.name if caller else None,
        **({"sent_bytes": trace.sent_bytes} if trace.sent_bytes else {}),
        **({"cut": trace.cut} if trace.cut else {}),
    )


async def mark_answer(request: web.Request, response: web.StreamResponse) -> None:
    """Signal `on_response_prepare`: notes that headers go out now, and adds those of every answer."""
    trace = request.get(TRACE)
    if trace is not None:
        trace.started = response
        response.headers["X-Request-ID"] = trace.request_id
    response.headers["Server"] = "aioanalysis"
    response.headers.setdefault("X-Content-Type-Options", "nosniff")
