"""HTTP calls of the service as typed coroutines; problems come back as `ApiProblem`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import aiohttp

from aioanalysis import __version__
from aioanalysis.aio import in_thread
from aioanalysis.client.administration import AdministrationCalls
from aioanalysis.client.connection import find_connection
from aioanalysis.client.events import Event, listen
from aioanalysis.client.jobs import JobCalls
from aioanalysis.client.models import (
    UNFINISHED,
    JobJson,
    MethodJson,
    SessionJson,
)
from aioanalysis.client.packages import PackageCalls
from aioanalysis.client.results import Result
from aioanalysis.client.transport import Transport
from aioanalysis.errors import AnalysisError

FIRST_POLL, LONGEST_POLL = 0.2, 2.0
WATCH_SECONDS: Final = 10.0
PATIENCE_SECONDS: Final = 30.0

Records = str | os.PathLike[str] | Iterable[Mapping[str, Any]]
"""A recordset's code (a `str`), a file of JSON Lines (a `Path`), or the records themselves."""


class JobFailed(AnalysisError):
    """The job that was waited for did not complete; `job` is it as it ended."""

    def __init__(self, job: JobJson) -> None:
        self.job = job
        error = job["error"]
        text = f": {error['reason']}: {error['message']}" if error else ""
        super().__init__(f"{job['title']} {job['id']} is {job['state']}{text}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Update:
    """A job that is watched, as it is; `progress`, newer than the job's own, if that is what is new."""

    job: JobJson
    progress: Mapping[str, Any] | None = None


class AnalysisClient(JobCalls, PackageCalls, AdministrationCalls):
    """One service, one key. Made by `open_client`.

    A call that fails in passing (no connection, 429, 502 to 504) is made again for up to `patience` seconds
    if that can do no harm: submissions carry an idempotency key, reading changes nothing, and an action is
    repeated only when it cannot have arrived. Raises `ApiProblem` when the service refuses, `Unavailable`
    when it cannot be reached; both are `AnalysisError`.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @property
    def server(self) -> str:
        """The service's address."""
        return self._transport.server

    # --- one call, one result ---

    async def run(
        self,
        title: str,
        *,
        records: Records,
        params: Mapping[str, Any] | None = None,
        folder: Path | None = None,
        on_update: Callable[[Update], None] | None = None,
        timeout: float | None = None,
        **more: Any,
    ) -> Result:
        """Submit a job, wait until it has ended, and open its result: the whole way in one call.

        `records` is a recordset's code, the `Path` of a file of JSON Lines, or records as dictionaries;
        `more` goes to `submit`. The package is kept in `folder` if one is given, else until the result is
        closed. Raises `JobFailed` for any end but complete, `TimeoutError` after `timeout` seconds.
        """
        job = await self.submit(title, params=params, **_source(records), **more)
        async with asyncio.timeout(timeout), aclosing(self.watch(job["id"])) as updates:
            async for update in updates:
                job = update.job
                if on_update is not None:
                    on_update(update)
        if job["state"] != "complete":
            raise JobFailed(job)
        return await self.open_result(job["id"], folder=folder)

    async def open_result(
        self, job_id: str, *, frame: int | None = None, folder: Path | None = None
    ) -> Result:
        """Download the package of a complete job and open it; see `Result`.

        Of a job with frames that of `frame`, or one package that holds all frames' packages.
        """
        job = await self.job(job_id)
        name = f"{job['title']}.{job_id}{f'-{frame}' if frame else ''}.zip"
        if folder is not None:
            saved = await self.result(job_id, folder / name, frame=frame)
            return await in_thread(Result, job, saved.path)
        temporary = await in_thread(partial(TemporaryDirectory[str], prefix="aioanalysis-"))
        try:
            saved = await self.result(job_id, Path(temporary.name) / name, frame=frame)
            return await in_thread(Result, job, saved.path, temporary)
        except BaseException:
            temporary.cleanup()
            raise

    # --- waiting ---

    async def wait(
        self, job_id: str, *, on_change: Callable[[JobJson], None] | None = None, timeout: float | None = None
    ) -> JobJson:
        """Wait until the job has finished; `on_change` sees it whenever state or reason have changed.

        It asks every 2 s at most, and keeps no connection. Raises `TimeoutError`.
        """
        pause, before = FIRST_POLL, None
        async with asyncio.timeout(timeout):
            while True:
                job = await self.job(job_id)
                now = (job["state"], job.get("why"))
                if now != before and on_change is not None:
                    on_change(job)
                if job["state"] not in UNFINISHED:
                    return job
                pause = FIRST_POLL if now != before else min(pause * 1.3, LONGEST_POLL)
                before = now
                await asyncio.sleep(pause)

    async def events(self, *, since: str | None = None) -> AsyncGenerator[Event, None]:
        """Changes and progress of the jobs that the caller may see, as they happen; see `Event`.

        For ever, over as many connections as it takes, no event twice: one that is cut goes on where it
        ended, or with a `reset` when the service does not know any more what has been missed. Stop it by
        leaving `async with contextlib.aclosing(client.events()) as events`.
        """
        async with aclosing(listen(self._transport, since)) as events:
            async for event in events:
                yield event

    async def watch(self, job_id: str) -> AsyncGenerator[Update, None]:
        """The job now, then at every change and every bit of progress, until it has finished.

        Made of events; every 10 s it looks for itself.
        """
        async with aclosing(self.events()) as events:
            coming = asyncio.create_task(_next(events), name="next event")
            try:
                job = await self.job(job_id)
                yield Update(job=job)
                while job["state"] in UNFINISHED:
                    await asyncio.wait([coming], timeout=WATCH_SECONDS)
                    event = None
                    if coming.done():
                        event = coming.result()
                        coming = asyncio.create_task(_next(events), name="next event")
                        if event.job not in {job_id, None}:
                            continue
                    if event is not None and event.name == "progress":
                        yield Update(job=job, progress=event.data)
                        continue
                    job = await self.job(job_id)
                    yield Update(job=job)
            finally:
                coming.cancel()
                await asyncio.wait([coming])

    # --- the service ---

    async def methods(self) -> list[MethodJson]:
        """The methods that can be submitted."""
        answer = await self._transport.call("GET", "/v1/methods")
        methods: list[MethodJson] = answer["methods"]
        return methods

    async def method(self, title: str) -> MethodJson:
        """One method's definition."""
        method: MethodJson = await self._transport.call("GET", f"/v1/methods/{title}")
        return method

    async def who(self) -> SessionJson:
        """Who the holder of the key is."""
        session: SessionJson = await self._transport.call("GET", "/v1/session")
        return session

    async def ready(self) -> bool:
        """Whether the service says that it is ready."""
        try:
            async with self._transport.opened("GET", "/readyz"):
                return True
        except AnalysisError:
            return False


async def _next(events: AsyncGenerator[Event, None]) -> Event:
    return await anext(events)


def _source(records: Records) -> dict[str, Any]:
    if isinstance(records, str):
        return {"recordset": records}
    return {"file": Path(records)} if isinstance(records, os.PathLike) else {"records": records}


@asynccontextmanager
async def open_client(
    server: str | None = None,
    key: str | None = None,
    *,
    patience: float = PATIENCE_SECONDS,
    on_retry: Callable[[str], None] | None = None,
) -> AsyncIterator[AnalysisClient]:
    """A client of the service at `server`, signed in with `key`.

    Without a server it is the one that client commands speak to: of AIOANALYSIS_SERVER and AIOANALYSIS_KEY,
    of the `aioanalysis dev` that runs in this folder, or of the profile that `aioanalysis login` has made.
    Failed calls are made again for `patience` seconds; `on_retry` is told of each failure. Raises
    `Misconfigured`.
    """
    if server is None:
        found = await in_thread(find_connection, key=key)
        server, key = found.server, found.key
    headers = {"User-Agent": f"aioanalysis/{__version__}"} | (
        {"Authorization": f"Bearer {key}"} if key else {}
    )
    connector = aiohttp.TCPConnector(limit=0)  # streams of events would hold a limited number of them
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
        yield AnalysisClient(Transport(session, server, patience=patience, on_retry=on_retry))
