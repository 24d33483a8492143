"""Calls for administrators: workers, figures over all jobs, what lies in storage."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote

from aioanalysis.client.downloads import Downloaded, OnProgress, download
from aioanalysis.client.models import BlobJson, OrphansJson, StatisticsJson, SweepJson, WorkerJson
from aioanalysis.client.transport import Transport

PAGE: Final = 500
Container = Literal["queue", "results"]


class AdministrationCalls:
    """The part of the client that is about the service as a whole."""

    _transport: Transport

    async def workers(self) -> list[WorkerJson]:
        """The workers that were seen, those seen last first."""
        answer = await self._transport.call("GET", "/v1/workers")
        workers: list[WorkerJson] = answer["workers"]
        return workers

    async def statistics(self, *, hours: Literal[1, 3, 6, 12, 24] = 1) -> StatisticsJson:
        """Figures over all jobs, the last 7 days parted into buckets of so many hours."""
        query = [("hours", str(hours))]
        statistics: StatisticsJson = await self._transport.call("GET", "/v1/statistics", query=query)
        return statistics

    async def packages(
        self, container: Container = "queue", *, prefix: str = "", limit: int = PAGE
    ) -> list[BlobJson]:
        """Files in queue or results whose names begin with `prefix`, in order of name, `limit` at most."""
        found: list[BlobJson] = []
        after: str | None = None
        while len(found) < limit:
            size = str(min(PAGE, limit - len(found)))
            query = [("container", container), ("prefix", prefix), ("limit", size), ("after", after)]
            answer = await self._transport.call("GET", "/v1/packages", query=query)
            found += answer["files"]
            after = answer["after"]
            if after is None:
                break
        return found

    async def package(
        self, container: Container, name: str, target: Path, *, on_progress: OnProgress | None = None
    ) -> Downloaded:
        """Download a file by its storage name, as `result` does; a job's owner may, too."""
        path = f"/v1/packages/{container}/{quote(name)}"
        return await download(self._transport, path, target, on_progress=on_progress)

    async def orphans(self) -> OrphansJson:
        """What storage holds, and the files that belong to no job."""
        orphans: OrphansJson = await self._transport.call("GET", "/v1/orphans")
        return orphans

    async def sweep(self, reasons: Sequence[str] = (), *, limit: int = 1000) -> SweepJson:
        """Remove orphans for these reasons, if none is given for those that are sure; `limit` at most."""
        body = {"limit": limit, **({"reasons": list(reasons)} if reasons else {})}
        path = "/v1/orphans/sweep"
        swept: SweepJson = await self._transport.call("POST", path, body=body)
        return swept
