"""HTTP calls of the service as typed coroutines; problems come back as `ApiProblem`."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypedDict

import aiofiles
import aiohttp
from aiofiles.threadpool.binary import AsyncBufferedIOBase

from aioanalysis.aio import in_thread
from aioanalysis.errors import AnalysisError, Unavailable

UNFINISHED: Final = frozenset({"waiting", "queued", "running", "blocked", "failing", "retrying"})
FIRST_POLL, LONGEST_POLL = 0.2, 2.0
CHUNK: Final = 1024 * 1024


class JobJson(TypedDict, total=False):
    """A job as the service tells it; times are RFC 3339 UTC."""

    id: str
    title: str
    params: dict[str, Any]
    recordset: str | None
    set_token: str | None
    record_count: int | None
    packaged_count: int | None
    tags: list[str]
    submitter: str
    state: str
    submitted_at: str
    expires_at: str
    deadline: str
    last_updated: str
    state_changed_at: str
    attempt: int
    retries: int
    frames: dict[str, Any] | None
    holds: list[str]
    actions: list[str]
    after: list[dict[str, Any]]
    split: dict[str, Any] | None
    wrangled: str | None
    attempts: list[dict[str, Any]]
    resubmitted_from: str | None
    error: dict[str, Any] | None
    usage: dict[str, Any] | None
    why: dict[str, Any] | None
    history: list[dict[str, Any]]


class ApiProblem(AnalysisError):
    """The service refused: its problem document, as attributes."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.status = status
        self.problem = dict(problem)
        details = [f"{e.get('pointer') or '/'}: {e.get('detail')}" for e in problem.get("errors") or ()]
        text = str(problem.get("detail") or problem.get("title") or "no reason given")
        super().__init__(f"{text} ({'; '.join(details)})" if details else text)


@dataclass(frozen=True, kw_only=True, slots=True)
class Downloaded:
    """A downloaded package; `verified` tells that its SHA-256 is what the service said."""

    path: Path
    size: int
    sha256: str
    verified: bool


class AnalysisClient:
    """One service, one key. Made by `open_client`."""

    def __init__(self, session: aiohttp.ClientSession, server: str) -> None:
        self._session = session
        self._server = server.rstrip("/")

    async def submit(
        self,
        title: str,
        *,
        recordset: str | None = None,
        set_token: str | None = None,
        params: Mapping[str, Any] | None = None,
        selection: Mapping[str, Sequence[str]] | None = None,
        record_count: int | None = None,
        tags: Sequence[str] = (),
        frames: Sequence[Mapping[str, Any]] | None = None,
        split: Mapping[str, int | str] | None = None,
        after: Sequence[str | Mapping[str, Any]] = (),
        hold: bool = False,
        retries: int = 0,
        file: Path | None = None,
        idempotency_key: str | None = None,
    ) -> JobJson:
        """Submit a job over a recordset, a set token or the records of `file`; returns it as recorded.

        `file` is JSON Lines, plain or gzip. `frames` are what differs in params, one run each; `split` is
        {"records": N} or {"by": field}; `after` are ids, or {"job": id, "when": end, "each": bool}.
        """
        fields = {
            "title": title,
            "recordset": recordset,
            "set_token": set_token,
            "params": dict(params or {}),
            "selection": dict(selection) if selection else None,
            "record_count": record_count,
            "tags": list(tags) or None,
            "frames": [dict(frame) for frame in frames] if frames is not None else None,
            "split": dict(split) if split else None,
            "after": list(after) or None,
            "hold": hold or None,
            "retries": retries or None,
        }
        body = {name: value for name, value in fields.items() if value is not None}
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        if file is None:
            job: JobJson = await self._call("POST", "/v1/jobs", body=body, headers=headers)
            return job
        with await in_thread(file.open, "rb") as records:
            parts = aiohttp.MultipartWriter("form-data")
            parts.append_json(body).set_content_disposition("form-data", name="job")
            part = parts.append(records, {"Content-Type": "application/octet-stream"})
            part.set_content_disposition("form-data", name="records", filename="records.jsonl")
            attached: JobJson = await self._call("POST", "/v1/jobs", data=parts, headers=headers)
            return attached

    async def job(self, job_id: str) -> JobJson:
        """One job."""
        job: JobJson = await self._call("GET", f"/v1/jobs/{job_id}")
        return job

    async def jobs(self, *, limit: int = 50, **filters: str | Sequence[str]) -> list[JobJson]:
        """Own jobs (an administrator's: all), newest first; filters are the query's parameters."""
        query: list[tuple[str, str]] = []
        for name, value in filters.items():
            query += [(name, value)] if isinstance(value, str) else [(name, each) for each in value]
        found: list[JobJson] = []
        cursor: str | None = None
        while len(found) < limit:
            page = [*query, ("limit", str(min(500, limit - len(found))))]
            answer = await self._call(
                "GET", "/v1/jobs", query=[*page, ("cursor", cursor)] if cursor else page
            )
            found += answer["jobs"]
            cursor = answer.get("cursor")
            if cursor is None:
                break
        return found

    async def remove(self, job_id: str, *, force: bool = False) -> None:
        """Remove a job with all its files."""
        await self._call("DELETE", f"/v1/jobs/{job_id}", query=[("force", "true")] if force else [])

    async def override(self, job_id: str, state: str) -> JobJson:
        """Set a job's state by hand (system token)."""
        job: JobJson = await self._call("PUT", f"/v1/jobs/{job_id}/state", body={"state": state})
        return job

    async def action(
        self, job_id: str, action: str, *, now: bool = False, all_frames: bool = False
    ) -> JobJson:
        """Block, unblock, interrupt, suspend, kill or retry a job; the job as it is then.

        `now`: a block ends what runs, too. `all_frames`: a retry is of complete ones, too.
        """
        query = [("when", "now" if now else None), ("all", "true" if all_frames else None)]
        job: JobJson = await self._call("POST", f"/v1/jobs/{job_id}/actions/{action}", query=query)
        return job

    async def act_on(self, action: str, **wanted: Any) -> list[dict[str, Any]]:
        """An action on all jobs of `ids`, or that the list's filters find; the outcome for each."""
        outcomes: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            body = {**wanted, "cursor": cursor} if cursor else wanted
            page = await self._call("POST", f"/v1/actions/{action}", body=body)
            outcomes += page["outcomes"]
            cursor = page["cursor"]
            if cursor is None:
                return outcomes

    async def resubmit(self, job_id: str, **changes: Any) -> JobJson:
        """A new job from the definition of another, with these of its fields changed."""
        job: JobJson = await self._call("POST", f"/v1/jobs/{job_id}/actions/resubmit", body=changes)
        return job

    async def frames(self, job_id: str, *, states: Sequence[str] = ()) -> list[dict[str, Any]]:
        """A job's frames, in these states only if any are given."""
        query = [("state", state) for state in states]
        answer = await self._call("GET", f"/v1/jobs/{job_id}/frames", query=query)
        frames: list[dict[str, Any]] = answer["frames"]
        return frames

    async def frame(self, job_id: str, number: int) -> dict[str, Any]:
        """One frame, with its attempts."""
        frame: dict[str, Any] = await self._call("GET", f"/v1/jobs/{job_id}/frames/{number}")
        return frame

    async def methods(self) -> list[dict[str, Any]]:
        """The methods that can be submitted."""
        answer = await self._call("GET", "/v1/methods")
        methods: list[dict[str, Any]] = answer["methods"]
        return methods

    async def wait(
        self, job_id: str, *, on_change: Callable[[JobJson], None] | None = None, timeout: float | None = None
    ) -> JobJson:
        """Wait until the job has finished; `on_change` sees it whenever state or reason have changed.

        Raises `TimeoutError`.
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

    async def result(
        self,
        job_id: str,
        target: Path,
        *,
        failed: bool = False,
        frame: int | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Downloaded:
        """Download the result package (or the failed one) to `target`, appearing there only when whole.

        Of a job with frames that of one, or a zip of all.
        """
        path = f"/v1/jobs/{job_id}/{'failed-result' if failed else 'result'}"
        part = target.with_name(target.name + ".part")
        async with (
            self._request("GET", path, query=_of_frame(frame)) as response,
            aiofiles.open(part, "wb") as file,
        ):
            size, sha256 = await _save(response, file, on_progress)
        told = response.headers.get("ETag", "").strip('"')
        verified = told == sha256
        if len(told) == len(sha256) and not verified:
            await in_thread(part.unlink)
            raise Unavailable("the package arrived damaged: its checksum differs; download it again")
        await in_thread(part.replace, target)
        return Downloaded(path=target, size=size, sha256=sha256, verified=verified)

    async def report(self, job_id: str, *, frame: int | None = None) -> bytes:
        """The report, one HTML file."""
        path = f"/v1/jobs/{job_id}/report"
        async with self._request("GET", path, query=_of_frame(frame)) as response:
            return await response.read()

    async def ready(self) -> bool:
        """Whether the service says that it is ready."""
        try:
            async with self._session.get(f"{self._server}/readyz") as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    async def _call(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        data: aiohttp.MultipartWriter | None = None,
        query: Sequence[tuple[str, str | None]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        async with self._request(
            method, path, body=body, data=data, query=query, headers=headers
        ) as response:
            return await response.json() if response.status != 204 else None

    @asynccontextmanager
    async def _request(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        data: aiohttp.MultipartWriter | None = None,
        query: Sequence[tuple[str, str | None]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        params = [(name, value) for name, value in query if value is not None]
        try:
            async with self._session.request(
                method, self._server + path, params=params, json=body, data=data, headers=headers
            ) as response:
                if response.status >= 400:
                    raise ApiProblem(response.status, _problem(await response.read(), response.reason))
                yield response
        except aiohttp.ClientError as error:
            raise Unavailable(f"the service at {self._server} cannot be reached: {error}") from error


async def _save(
    response: aiohttp.ClientResponse,
    file: AsyncBufferedIOBase,
    on_progress: Callable[[int, int], None] | None,
) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    async for chunk in response.content.iter_chunked(CHUNK):
        digest.update(chunk)
        await file.write(chunk)
        size += len(chunk)
        if on_progress is not None:
            on_progress(size, response.content_length or size)
    return size, digest.hexdigest()


def _of_frame(frame: int | None) -> list[tuple[str, str]]:
    return [] if frame is None else [("frame", str(frame))]


def _problem(data: bytes, reason: str | None) -> Mapping[str, Any]:
    try:
        problem = json.loads(data)
    except ValueError:
        problem = None
    return problem if isinstance(problem, dict) else {"title": reason or "no reason given"}


@asynccontextmanager
async def open_client(server: str, key: str | None) -> AsyncIterator[AnalysisClient]:
    """A client of the service at `server`, signed in with `key`."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=60)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout) as session:
        yield AnalysisClient(session, server)
