"""Calls about what a job leaves: its package, report, files, sidecar and output."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from aioanalysis.client.downloads import Downloaded, OnProgress, download
from aioanalysis.client.models import UNFINISHED, FileJson, KeptJson, LinkJson, RunUsageJson
from aioanalysis.client.outputs import follow
from aioanalysis.client.transport import ApiProblem, Query, Transport
from aioanalysis.errors import NotFound

Target = Literal["result", "failed-result", "report", "file", "metadata", "log"]


class PackageCalls:
    """The part of the client that is about jobs' packages. `frame` counts from 1, for jobs with frames."""

    _transport: Transport

    async def result(
        self,
        job_id: str,
        target: Path,
        *,
        failed: bool = False,
        frame: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> Downloaded:
        """Download the result package (or the failed one) to `target`, appearing there only when whole.

        It goes on where a cut download, also one of an earlier process, has ended, and is held against the
        checksum in the job's sidecar. Of a job with frames the package of one, or a zip of all, which is held
        against its members' CRC-32. Raises `Damaged`, with nothing kept, when it differs; `OSError`.
        """
        path = f"/v1/jobs/{job_id}/{'failed-result' if failed else 'result'}"
        return await download(
            self._transport,
            path,
            target,
            query=_of_frame(frame),
            sha256=await self._checksum(job_id, frame),
            on_progress=on_progress,
        )

    async def _checksum(self, job_id: str, frame: int | None) -> str | None:
        """The package's SHA-256 as the sidecar tells it; None where there is no one sidecar."""
        try:
            sidecar = await self.metadata(job_id, frame=frame)
        except ApiProblem as problem:
            if problem.status in {404, 409, 422}:
                return None
            raise
        result = sidecar.get("result")
        told = result.get("sha256") if isinstance(result, dict) else None
        return told if isinstance(told, str) else None

    async def metadata(self, job_id: str, *, frame: int | None = None) -> dict[str, Any]:
        """The sidecar of an ended job: what ran, on which host, within which limits."""
        path = f"/v1/jobs/{job_id}/metadata"
        sidecar: dict[str, Any] = await self._transport.call("GET", path, query=_of_frame(frame))
        return sidecar

    async def report(self, job_id: str, *, frame: int | None = None) -> bytes:
        """The report, one HTML file."""
        return await self._bytes(f"/v1/jobs/{job_id}/report", _of_frame(frame))

    async def files(self, job_id: str, *, frame: int | None = None) -> list[FileJson]:
        """The members of the package that the job left."""
        path = f"/v1/jobs/{job_id}/files"
        answer = await self._transport.call("GET", path, query=_of_frame(frame))
        files: list[FileJson] = answer["files"]
        return files

    async def file(
        self,
        job_id: str,
        name: str,
        target: Path,
        *,
        frame: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> Downloaded:
        """Download one member of the package to `target`, as `result` does.

        It is held against the CRC-32 that the package tells of it. Raises `NotFound`, `Damaged`, `OSError`.
        """
        crc32 = {file["path"]: file["crc32"] for file in await self.files(job_id, frame=frame)}
        if name not in crc32:
            raise NotFound(f"the package holds no {name}")
        return await download(
            self._transport,
            f"/v1/jobs/{job_id}/files/{quote(name)}",
            target,
            query=_of_frame(frame),
            crc32=crc32[name],
            on_progress=on_progress,
        )

    async def attempts(self, job_id: str, *, frame: int | None = None) -> list[KeptJson]:
        """The packages of earlier attempts that were kept, by attempt; `package` downloads one of them."""
        answer = await self._transport.call("GET", f"/v1/jobs/{job_id}/attempts", query=_of_frame(frame))
        kept: list[KeptJson] = answer["packages"]
        return kept

    async def usage(self, job_id: str, *, frame: int | None = None) -> RunUsageJson:
        """CPU and memory over time, of a run that has ended or so far, and the limits in force."""
        path = f"/v1/jobs/{job_id}/usage"
        usage: RunUsageJson = await self._transport.call("GET", path, query=_of_frame(frame))
        return usage

    async def link(
        self,
        job_id: str,
        target: Target,
        *,
        path: str | None = None,
        frame: int | None = None,
        seconds: int = 300,
    ) -> LinkJson:
        """An address that needs no key for so many seconds; `path` is a member of the package, for `file`.

        It is whole: with the service's address before it.
        """
        fields = {"target": target, "path": path, "frame": frame, "seconds": seconds}
        body = {name: value for name, value in fields.items() if value is not None}
        link: LinkJson = await self._transport.call(
            "POST", f"/v1/jobs/{job_id}/links", body=body, repeatable=True
        )
        return {**link, "link": self._transport.server + link["link"]}

    async def log(self, job_id: str, *, frame: int | None = None) -> bytes:
        """The output: of a job that has ended all of it, of one that runs the last part so far."""
        return await self._bytes(f"/v1/jobs/{job_id}/log", _of_frame(frame))

    async def follow_log(self, job_id: str, *, frame: int | None = None) -> AsyncGenerator[bytes, None]:
        """The output as it comes, until the job has ended."""

        async def ended() -> bool:
            job = await self._transport.call("GET", f"/v1/jobs/{job_id}")
            return job["state"] not in UNFINISHED

        path = f"/v1/jobs/{job_id}/log"
        async with aclosing(follow(self._transport, path, _of_frame(frame), ended)) as pieces:
            async for piece in pieces:
                yield piece

    async def _bytes(self, path: str, query: Query) -> bytes:
        async def once() -> bytes:
            async with self._transport.opened("GET", path, query=query) as response:
                return await response.read()

        return await self._transport.repeated(once)


def _of_frame(frame: int | None) -> list[tuple[str, str | None]]:
    return [("frame", None if frame is None else str(frame))]
