"""The API as an aiohttp application: its parts put together, its endpoints routed."""

from __future__ import annotations

import logging
import re
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from aioanalysis.api import (
    actions,
    attempts,
    events,
    frames,
    health,
    jobs,
    linking,
    methods,
    metrics,
    openapi,
    orphans,
    packages,
    page,
    results,
    signin,
    statistics,
    usage,
    workers,
)
from aioanalysis.api.addresses import ADDRESSES, Addresses
from aioanalysis.api.context import CONTEXT, ApiContext
from aioanalysis.api.downloads import DOWNLOADS, Downloads
from aioanalysis.api.endpoints import Endpoint
from aioanalysis.api.events import HUB, Hub
from aioanalysis.api.links import LINKS, Links
from aioanalysis.api.metrics import METRICS, Metrics
from aioanalysis.api.middlewares import mark_answer, serving
from aioanalysis.api.orphans import ORPHANS, STOCK
from aioanalysis.api.shown import SHOWN, Shown
from aioanalysis.api.signin import FAILURES, Failures
from aioanalysis.api.statistics import TALLY
from aioanalysis.api.workers import SIGNS

SERVED: Final[tuple[Endpoint, ...]] = (
    *jobs.ENDPOINTS,
    *frames.ENDPOINTS,
    *actions.ENDPOINTS,
    *results.ENDPOINTS,
    *usage.ENDPOINTS,
    *attempts.ENDPOINTS,
    *packages.ENDPOINTS,
    *orphans.ENDPOINTS,
    *workers.ENDPOINTS,
    *statistics.ENDPOINTS,
    *linking.ENDPOINTS,
    *events.ENDPOINTS,
    *signin.ENDPOINTS,
    *methods.ENDPOINTS,
    *health.ENDPOINTS,
    *metrics.ENDPOINTS,
    *page.ENDPOINTS,
)
ENDPOINTS: Final = (*SERVED, *openapi.endpoints(SERVED))

LINGERING_SECONDS: Final = 2.0
"""How long the rest of a refused body is read and thrown away, so that the client sees the answer."""


def create_app(context: ApiContext) -> web.Application:
    """The application over parts that somebody else opens and closes; to be run by `make_runner`."""
    app = web.Application(middlewares=[serving], client_max_size=context.settings.body_max_bytes)
    app[CONTEXT] = context
    app[DOWNLOADS] = Downloads(context.settings.downloads_max)
    app[METRICS] = Metrics()
    app[LINKS] = Links(context.settings)
    app[FAILURES] = Failures(context.settings.failed_signins_per_minute)
    app[ADDRESSES] = Addresses(context.settings.trusted_proxies)
    app[HUB] = Hub(context.events, context.progress)
    app[SHOWN] = Shown()
    app[SIGNS] = workers.make(context)
    app[TALLY] = statistics.make(context)
    app[ORPHANS] = orphans.make(context)
    app[STOCK] = orphans.make_stock(app[ORPHANS], context)
    app.on_cleanup.append(_end_caches)
    app.cleanup_ctx.append(events.running)
    app.cleanup_ctx.append(methods.checking)
    app.on_shutdown.append(events.end_streams)
    app.on_response_prepare.append(mark_answer)
    for endpoint in ENDPOINTS:
        path = re.sub(r"\{(path|name)\}", r"{\1:.+}", endpoint.path)
        if endpoint.method == "GET":
            app.router.add_get(path, endpoint.handler)  # HEAD too
        else:
            app.router.add_route(endpoint.method, path, endpoint.handler)
    return app


async def _end_caches(app: web.Application) -> None:
    for cached in (app[SIGNS], app[TALLY], app[STOCK]):
        await cached.close()


def make_runner(app: web.Application, *, shutdown_seconds: float) -> web.AppRunner:
    """The application's runner; a stop waits up to twice `shutdown_seconds` for running requests.

    Handlers are not cancelled when a client leaves (aiohttp's default), bodies are not inflated, and each
    request has its own line in the log already.
    """
    return web.AppRunner(
        app,
        handle_signals=False,
        access_log=None,
        auto_decompress=False,
        lingering_time=LINGERING_SECONDS,
        logger=_http_log(),
        shutdown_timeout=shutdown_seconds,
    )


def _http_log() -> logging.Logger:
    """The log of aiohttp's server."""
    log = logging.getLogger("aioanalysis.http")
    log.addFilter(_without_the_sent)
    return log


def _without_the_sent(record: logging.LogRecord) -> bool:
    """What is no HTTP is its sender's fault, in one line; its traceback would quote it, keys and all."""
    if record.exc_info and isinstance(record.exc_info[1], HttpProcessingError):
        record.exc_info = None
        record.levelno, record.levelname = logging.WARNING, "WARNING"
    return True
