"""Where records come from: an HTTP record store, BOLD's portal or data API, or a folder of record sets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aioanalysis.interfaces import RecordStore
from aioanalysis.recordstore.absent import NoRecordStore
from aioanalysis.recordstore.bold_data import DATA, BoldData
from aioanalysis.recordstore.bold_portal import PORTAL, BoldPortal
from aioanalysis.recordstore.directory import DirectoryRecordStore
from aioanalysis.recordstore.http import HttpRecordStore
from aioanalysis.recordstore.transport import open_session
from aioanalysis.settings import Settings


@asynccontextmanager
async def open_record_store(settings: Settings) -> AsyncIterator[RecordStore]:
    """The record store that `settings` name; without one a store that refuses all but attached records.

    Raises `Misconfigured` for an address that is none; whether the store is there, its `check` tells.
    """
    if settings.records_kind == "bold-portal":
        async with open_session() as session:
            yield BoldPortal(session, settings.records_url or PORTAL, longest=settings.time_limit)
    elif settings.records_kind == "bold-data":
        spool = settings.data_dir / "spool"
        async with open_session() as session:
            yield BoldData(session, settings.records_url or DATA, spool=spool, longest=settings.time_limit)
    elif settings.records_url:
        async with open_session() as session:
            yield HttpRecordStore(session, settings.records_url, settings.records_auth)
    elif settings.records_directory:
        yield DirectoryRecordStore(settings.records_directory)
    else:
        yield NoRecordStore()
