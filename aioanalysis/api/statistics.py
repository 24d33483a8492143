"""Figures over all recorded jobs, by one walk over their records that all share who ask within seconds."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Final, Literal, Self

from aiohttp import web
from pydantic import Field

from aioanalysis.api.access import require_all
from aioanalysis.api.cached import Cached
from aioanalysis.api.context import CONTEXT, ApiContext, job_store_time
from aioanalysis.api.endpoints import Endpoint
from aioanalysis.api.requests import Query, read_query
from aioanalysis.api.responses import answer
from aioanalysis.api.runviews import Time, View
from aioanalysis.domain.outcomes import Reason
from aioanalysis.domain.states import State
from aioanalysis.domain.tally import Bucket, Tally, Waiting
from aioanalysis.domain.wrangling import MethodHealth
from aioanalysis.interfaces import JobFilter

PAGE: Final = 500
CHUNK: Final = 50  # some 1 ms of counting between two looks at the event loop
KEPT_SECONDS: Final = 5.0


class StatisticsQuery(Query):
    """How the 7 days are parted."""

    hours: Literal["1", "3", "6", "12", "24"] = Field(
        "1", description="Length of a bucket, whole ones by UTC."
    )


class WaitingView(View):
    """Seconds from submission to the first run's start, over so many jobs."""

    jobs: int
    median: float
    p95: float

    @classmethod
    def of(cls, waiting: Waiting | None) -> Self | None:
        if waiting is None:
            return None
        return cls(jobs=waiting.jobs, median=round(waiting.median, 3), p95=round(waiting.p95, 3))


class BucketView(View):
    """What happened from `start` on: jobs submitted, jobs ended by how, and what those waited that began."""

    start: Time
    submitted: int
    complete: int
    failed: int
    killed: int
    waiting: WaitingView | None

    @classmethod
    def of(cls, bucket: Bucket) -> Self:
        return cls(
            start=bucket.start,
            submitted=bucket.submitted,
            complete=bucket.ended.get(State.COMPLETE, 0),
            failed=bucket.ended.get(State.FAILED, 0),
            killed=bucket.ended.get(State.KILLED, 0),
            waiting=WaitingView.of(bucket.waiting),
        )


class FailureView(View):
    """Runs that have failed for good, by method and reason, in so many jobs; and the job that failed last."""

    title: str
    reason: Reason
    runs: int
    jobs: int
    last_at: Time
    last_job: str


class LoadView(View):
    """One submitter's jobs, and what their runs used, failed ones too, as far as it is known."""

    submitter: str
    unfinished: int
    ended: int
    failed: int
    cpu_seconds: float
    run_seconds: float
    result_bytes: int


class HeldMethodView(View):
    """A method whose new jobs start blocked, since when, and on which evidence."""

    title: str
    since: Time
    evidence: str


class Statistics(View):
    """All recorded jobs as they were at `at`. Of removed and expired jobs nothing is counted.

    `buckets` cover the last 7 days, oldest first, empty ones too; `waiting` is over all of them. `submitters`
    and `failures` name the 500 with the most.
    """

    at: Time
    jobs: int
    states: dict[State, int]
    bucket_hours: int
    buckets: tuple[BucketView, ...]
    waiting: WaitingView | None
    failures: tuple[FailureView, ...]
    submitters: tuple[LoadView, ...]
    held_methods: tuple[HeldMethodView, ...]


def make(context: ApiContext) -> Cached[Tally]:
    return Cached(lambda: _walk(context), KEPT_SECONDS)


TALLY: Final = web.AppKey("tally", Cached[Tally])


async def show(request: web.Request) -> web.StreamResponse:
    """States, throughput, waiting times, failures by method and reason, and who uses how much."""
    require_all(request, "The summary of all jobs")
    hours = int(read_query(request, StatisticsQuery).hours)
    tally = await request.app[TALLY].get()
    async with job_store_time():
        health = await request.app[CONTEXT].operations.jobs.method_health()
    return answer(
        Statistics(
            at=tally.now,
            jobs=tally.jobs,
            states={state: tally.states[state] for state in State},
            bucket_hours=hours,
            buckets=tuple(BucketView.of(bucket) for bucket in tally.buckets(hours)),
            waiting=WaitingView.of(tally.waiting()),
            failures=tuple(FailureView.model_validate(failure) for failure in tally.failures()),
            submitters=tuple(LoadView.model_validate(load) for load in tally.loads()),
            held_methods=tuple(
                _held(one, one.held_since) for one in health.values() if one.held_since is not None
            ),
        )
    )


def _held(health: MethodHealth, since: datetime) -> HeldMethodView:
    return HeldMethodView(title=health.title, since=since, evidence=health.evidence)


async def _walk(context: ApiContext) -> Tally:
    """Every job once, and others get their turn between."""
    tally, cursor = Tally(context.operations.clock()), None
    while True:
        async with job_store_time():
            page = await context.jobs.page(JobFilter(), limit=PAGE, cursor=cursor)
        for number, job in enumerate(page.jobs):
            tally.add(job)
            if number % CHUNK == 0:
                await asyncio.sleep(0)
        if page.cursor is None:
            return tally
        cursor = page.cursor


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/v1/statistics",
        handler=show,
        summary="Figures over all jobs",
        query=StatisticsQuery,
        answer=Statistics,
        problems=(403, 422),
    ),
)
