"""The record store of a service that has none: only attached records can be analysed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aioanalysis.domain.job import Source
from aioanalysis.domain.outcomes import Reason
from aioanalysis.errors import JobFailure
from aioanalysis.interfaces import RecordStream


class NoRecordStore:
    """Refuses every source."""

    async def check(self) -> str:
        return "no record store: jobs must bring their records"

    @asynccontextmanager
    async def open(self, source: Source, key: str) -> AsyncIterator[RecordStream]:
        raise JobFailure(
            Reason.RECORDS, "this service has no record store: attach the records to the job instead"
        )
        yield  # makes it a generator
