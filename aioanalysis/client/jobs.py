"""Calls about jobs: submission, listing, removal, control."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any, BinaryIO

import aiohttp

from aioanalysis.aio import in_thread, opened
from aioanalysis.client.models import FrameJson, FrameSummaryJson, JobJson, JobSummaryJson
from aioanalysis.client.transport import ApiProblem, Parts, Transport


class JobCalls:
    """The part of the client that is about jobs themselves."""

    _transport: Transport

    async def submit(
        self,
        title: str,
        *,
        recordset: str | None = None,
        set_token: str | None = None,
        file: Path | None = None,
        records: Iterable[Mapping[str, Any]] | None = None,
        params: Mapping[str, Any] | None = None,
        selection: Mapping[str, Sequence[str]] | None = None,
        record_count: int | None = None,
        tags: Sequence[str] = (),
        frames: Sequence[Mapping[str, Any]] | None = None,
        split: Mapping[str, int | str] | None = None,
        after: Sequence[str | Mapping[str, Any]] = (),
        hold: bool = False,
        retries: int = 0,
        idempotency_key: str | None = None,
    ) -> JobJson:
        """Submit a job over exactly one of a recordset, a set token, a file and records; as it is recorded.

        `file` is JSON Lines, plain or gzip. `frames` are what differs in params, one run each; `split` is
        {"records": N} or {"by": field}; `after` are ids, or {"job": id, "when": end, "each": bool}. A repeat
        with the same `idempotency_key` within a day gives the same job; each call makes its own if not given.
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
        lines = await in_thread(_jsonl, records) if records is not None else None
        attached = file if lines is None else lines
        job: JobJson = await self._transport.call(
            "POST",
            "/v1/jobs",
            body=body if attached is None else None,
            parts=None if attached is None else _parts(body, attached),
            headers={"Idempotency-Key": idempotency_key or uuid.uuid4().hex},
            repeatable=True,
        )
        return job

    async def job(self, job_id: str) -> JobJson:
        """One job."""
        job: JobJson = await self._transport.call("GET", f"/v1/jobs/{job_id}")
        return job

    async def jobs(self, *, limit: int = 50, **filters: str | Sequence[str]) -> list[JobSummaryJson]:
        """Own jobs (an administrator's: all), newest first, `limit` at most.

        Filters are the query's parameters: `state` (one or several), `title`, `recordset`, `since` (RFC
        3339), and for administrators `submitter`.
        """
        query: list[tuple[str, str]] = []
        for name, value in filters.items():
            query += [(name, value)] if isinstance(value, str) else [(name, each) for each in value]
        found: list[JobSummaryJson] = []
        cursor: str | None = None
        while len(found) < limit:
            page = [*query, ("limit", str(min(500, limit - len(found)))), ("cursor", cursor)]
            answer = await self._transport.call("GET", "/v1/jobs", query=page)
            found += answer["jobs"]
            cursor = answer.get("cursor")
            if cursor is None:
                break
        return found

    async def remove(self, job_id: str, *, force: bool = False) -> None:
        """Remove a job with all its files."""
        await self.job(job_id)  # from here on, that there is no such job means that it is done
        query = [("force", "true" if force else None)]
        try:
            await self._transport.call("DELETE", f"/v1/jobs/{job_id}", query=query)
        except ApiProblem as problem:
            if problem.status != 404:
                raise

    async def override(self, job_id: str, state: str) -> JobJson:
        """Set a job's state by hand (system token)."""
        job: JobJson = await self._transport.call("PUT", f"/v1/jobs/{job_id}/state", body={"state": state})
        return job

    # --- control ---

    async def action(
        self, job_id: str, action: str, *, now: bool = False, all_frames: bool = False
    ) -> JobJson:
        """Block, unblock, interrupt, suspend, kill or retry a job; the job as it is then.

        `now`: a block ends what runs, too. `all_frames`: a retry is of complete ones, too.
        """
        query = [("when", "now" if now else None), ("all", "true" if all_frames else None)]
        path = f"/v1/jobs/{job_id}/actions/{action}"
        job: JobJson = await self._transport.call("POST", path, query=query)
        return job

    async def act_on(self, action: str, **wanted: Any) -> list[dict[str, Any]]:
        """An action on all jobs of `ids`, or that the list's filters find; the outcome for each."""
        outcomes: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            body = {**wanted, "cursor": cursor} if cursor else wanted
            page = await self._transport.call("POST", f"/v1/actions/{action}", body=body)
            outcomes += page["outcomes"]
            cursor = page["cursor"]
            if cursor is None:
                return outcomes

    async def resubmit(self, job_id: str, *, idempotency_key: str | None = None, **changes: Any) -> JobJson:
        """A new job from the definition of another, with these of its fields changed.

        A repeat with the same `idempotency_key` gives the same job, as for `submit`.
        """
        job: JobJson = await self._transport.call(
            "POST",
            f"/v1/jobs/{job_id}/actions/resubmit",
            body=changes,
            headers={"Idempotency-Key": idempotency_key or uuid.uuid4().hex},
            repeatable=True,
        )
        return job

    async def frames(self, job_id: str, *, states: Sequence[str] = ()) -> list[FrameSummaryJson]:
        """A job's frames, in these states only if any are given."""
        query = [("state", state) for state in states]
        answer = await self._transport.call("GET", f"/v1/jobs/{job_id}/frames", query=query)
        frames: list[FrameSummaryJson] = answer["frames"]
        return frames

    async def frame(self, job_id: str, number: int) -> FrameJson:
        """One frame, with its attempts."""
        frame: FrameJson = await self._transport.call("GET", f"/v1/jobs/{job_id}/frames/{number}")
        return frame


def _jsonl(records: Iterable[Mapping[str, Any]]) -> bytes:
    return "".join(f"{json.dumps(dict(r), ensure_ascii=False, allow_nan=False)}\n" for r in records).encode()


def _parts(job: Mapping[str, Any], attached: Path | bytes) -> Parts:
    """A submission's parts: the job, then its records."""

    @asynccontextmanager
    async def open_parts() -> AsyncIterator[aiohttp.MultipartWriter]:
        if isinstance(attached, bytes):
            yield _multipart(job, attached)
        else:
            async with opened(partial(_readable, attached), methodcaller("close")) as file:
                yield _multipart(job, file)

    return open_parts


def _multipart(job: Mapping[str, Any], records: BinaryIO | bytes) -> aiohttp.MultipartWriter:
    parts = aiohttp.MultipartWriter("form-data")
    parts.append_json(job).set_content_disposition("form-data", name="job")
    part = parts.append(records, {"Content-Type": "application/octet-stream"})
    part.set_content_disposition("form-data", name="records", filename="records.jsonl")
    return parts


def _readable(path: Path) -> BinaryIO:
    return path.open("rb")
