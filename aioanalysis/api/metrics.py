"""What the process has done, as Prometheus reads it (text format 0.0.4)."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from aiohttp import web

from aioanalysis import logs
from aioanalysis.api.context import CONTEXT, Gauge, Trace
from aioanalysis.api.downloads import DOWNLOADS
from aioanalysis.api.endpoints import Endpoint
from aioanalysis.errors import AnalysisError

PREFIX: Final = "aioanalysis_"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS: Final = (0.005, 0.02, 0.1, 0.5, 2.5, 10.0, 60.0)
NO_ROUTE: Final = "none"

log = logs.get()


@dataclass(slots=True)
class _Durations:
    """A histogram of seconds; `counts` are of those between two bounds, the last of those above all."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        self.total += seconds
        self.counts[bisect_left(BUCKETS, seconds)] += 1


class Metrics:
    """Counts of requests by method, route and status: names of routes, never addresses."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._durations: defaultdict[str, _Durations] = defaultdict(_Durations)
        self._cut: Counter[str] = Counter()
        self._sent_bytes = 0

    def count(self, method: str, route: str, status: int, seconds: float, trace: Trace) -> None:
        """A request that is over; its `route` as it is declared, or NO_ROUTE, whatever the method."""
        self._requests[NO_ROUTE if route == NO_ROUTE else method, route, status] += 1
        self._durations[route].add(seconds)
        self._sent_bytes += trace.sent_bytes
        if trace.cut is not None:
            self._cut[trace.cut] += 1

    def gauges(self) -> Iterator[Gauge]:
        for (method, route, status), count in sorted(self._requests.items()):
            labels = {"method": method, "route": route, "status": str(status)}
            yield Gauge("http_requests_total", count, "Requests answered.", labels, "counter")
        for route, durations in sorted(self._durations.items()):
            yield from _histogram(route, durations)
        yield Gauge("http_sent_bytes_total", self._sent_bytes, "Bytes of stored files sent.", {}, "counter")
        for why, count in sorted(self._cut.items()):
            yield Gauge("http_cut_total", count, "Answers cut short, by cause.", {"cause": why}, "counter")


METRICS: Final = web.AppKey("metrics", Metrics)


def _histogram(route: str, durations: _Durations) -> Iterator[Gauge]:
    name, text = "http_request_seconds", "Seconds from a request to the end of its answer."
    bounds = [*map(str, BUCKETS), "+Inf"]
    for bound, count in zip(bounds, accumulate(durations.counts), strict=True):
        yield Gauge(f"{name}_bucket", count, text, {"route": route, "le": bound}, "histogram")
    yield Gauge(f"{name}_sum", durations.total, text, {"route": route}, "histogram")
    yield Gauge(f"{name}_count", sum(durations.counts), text, {"route": route}, "histogram")


async def show(request: web.Request) -> web.StreamResponse:
    """Our own counts, and whatever the process's other parts tell."""
    app = request.app
    found = [*app[METRICS].gauges()]
    found.append(Gauge("http_downloads", app[DOWNLOADS].running, "Downloads under way."))
    try:
        found += await app[CONTEXT].gauges()
    except AnalysisError as error:
        log.warning("gauges_missing", error=str(error))
    return web.Response(
        body="".join(_lines(found)).encode(),
        headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"},
    )


def _lines(gauges: list[Gauge]) -> Iterator[str]:
    told: set[str] = set()
    for gauge in gauges:
        family = gauge.name
        if gauge.kind == "histogram":
            family = family.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
        if family not in told:
            told.add(family)
            yield f"# HELP {PREFIX}{family} {gauge.help}\n# TYPE {PREFIX}{family} {gauge.kind}\n"
        yield f"{PREFIX}{gauge.name}{_labels(gauge.labels)} {gauge.value!r}\n"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


ENDPOINTS: Final = (
    Endpoint(method="GET", path="/metrics", handler=show, summary="Prometheus metrics", answer="text/plain"),
)
