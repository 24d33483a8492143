"""Where records come from: an HTTP record store or a folder of record sets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aioanalysis.interfaces import RecordStore
from aioanalysis.recordstore.absent import NoRecordStore
from aioanalysis.recordstore.directory import DirectoryRecordStore
from aioanalysis.recordstore.http import HttpRecordStore, open_session
from aioanalysis.settings import Settings


@asynccontextmanager
async def open_record_store(settings: Settings) -> AsyncIterator[RecordStore]:
    """The record store that `settings` name; without one a store that refuses all but attached records.

    Raises `Misconfigured` for an address that is none; whether the store is there, its `check` tells.
    """
    if settings.records_url:
        async with open_session() as session:
            yield HttpRecordStore(session, settings.records_url, settings.records_auth)
    elif settings.records_directory:
        yield DirectoryRecordStore(settings.records_directory)
    else:
        yield NoRecordStore()
