"""Record store on data.boldsystems.org: the process ids of a code, BIN or set, then their records in batches.

The submitter's key must be one of BOLD's, a UUID; another is not sent. Each page of records is received
whole, into a file, before any of it goes on: a page that breaks off is asked for again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from operator import methodcaller
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final

from aiohttp import ClientSession

from aioanalysis import logs
from aioanalysis.aio import in_thread, opened
from aioanalysis.domain.job import Source
from aioanalysis.domain.outcomes import Reason
from aioanalysis.errors import JobFailure, Unavailable
from aioanalysis.interfaces import RecordStream
from aioanalysis.recordstore.batches import Batch, Page, batches
from aioanalysis.recordstore.bold_api import PAGE_RECORDS, BoldApi
from aioanalysis.recordstore.patience import Patience
from aioanalysis.recordstore.pieces import PIECE_BYTES
from aioanalysis.recordstore.transport import Transport, checked_base

DATA: Final = "https://data.boldsystems.org/api"
KEY: Final = re.compile(r"[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
CODE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,199}")
TOKEN: Final = re.compile(r"[!-~]{1,512}")
PAGE_SECONDS: Final = 900.0
MISSING_NAMED: Final = 20

log = logs.get()


class BoldData:
    """The API at `base`; pages are kept in the folder `spool` while they come.

    `longest` seconds is what one set may take, `page_seconds` what one page may.
    """

    def __init__(
        self,
        session: ClientSession,
        base: str = DATA,
        *,
        spool: Path,
        longest: float = 6 * 3600.0,
        page_seconds: float = PAGE_SECONDS,
        first_pause: float = 1.0,
    ) -> None:
        self._base = checked_base(base)
        self._transport = Transport(session, self._base)
        self._spool = spool
        self._longest = longest
        self._page_seconds = page_seconds
        self._first_pause = first_pause

    async def check(self) -> str:
        """Raises `Unavailable` when nothing answers there; no key is sent."""
        await self._transport.check()
        return f"BOLD data API at {self._transport.origin} (api-key)"

    @asynccontextmanager
    async def open(self, source: Source, key: str) -> AsyncIterator[RecordStream]:
        """Find the set's process ids; their records are asked for while they are read.

        Raises `JobFailure` also for a key that is none of BOLD's.
        """
        if not KEY.fullmatch(key):
            raise JobFailure(Reason.RECORDS, "the submitter's key is none of BOLD's, a UUID: it was not sent")
        _require_name(source)
        patience = Patience(longest=self._longest, first_pause=self._first_pause)
        api = BoldApi(self._transport, self._base, key)
        ids = await _ids(source, api, patience)
        async with opened(partial(_spool_file, self._spool), methodcaller("close")) as file:
            yield BoldRecords(api, ids, file, patience, page_seconds=self._page_seconds)


class BoldRecords:
    """The records of `ids`, a page at a time; how many there are is not known beforehand."""

    announced: int | None = None

    def __init__(
        self, api: BoldApi, ids: Sequence[str], file: IO[bytes], patience: Patience, *, page_seconds: float
    ) -> None:
        self._api = api
        self._ids = ids
        self._file = file
        self._patience = patience
        self._page_seconds = page_seconds

    async def chunks(self) -> AsyncIterator[bytes]:
        """Raises `Unavailable`, and `JobFailure` when there are ids but not one record."""
        records = duplicates = 0
        missing: list[str] = []
        for batch in batches(self._ids):
            async for piece in self._batch(batch):
                yield piece
            records += batch.records
            duplicates += batch.duplicates
            missing += batch.missing
        log.info(
            "bold_data_received",
            asked=len(self._ids),
            records=records,
            duplicates=duplicates,
            missing=len(missing),
            missing_ids=missing[:MISSING_NAMED],
        )
        if self._ids and not records:
            raise JobFailure(
                Reason.RECORDS,
                f"BOLD has no records that this key may see of any of the set's {len(self._ids)} samples",
            )

    async def _batch(self, batch: Batch) -> AsyncIterator[bytes]:
        offset = 0
        while True:
            page = await self._patience.insist(partial(self._receive, batch, offset))
            batch.take(page)
            while piece := await in_thread(self._file.read, PIECE_BYTES):
                yield piece
            if page.lines < PAGE_RECORDS:
                return
            if not page.fresh:
                raise Unavailable(f"the record store sends the same page again at offset {offset}")
            offset += PAGE_RECORDS

    async def _receive(self, batch: Batch, offset: int) -> Page:
        """Fill the file with a page's new records, ready to be read."""
        await in_thread(_empty, self._file)
        page = Page(batch, self._api.spoken)
        try:
            async with (
                asyncio.timeout(self._page_seconds),
                self._api.records(batch.ids, offset) as stream,
            ):
                async for chunk in stream.chunks():
                    await in_thread(self._keep, page.feed, chunk)
        except TimeoutError as error:
            raise Unavailable("a page of records took too long") from error
        await in_thread(self._keep, page.close)
        await in_thread(self._file.seek, 0)
        return page

    def _keep(self, sift: Callable[..., bytes], *chunk: bytes) -> None:
        self._file.write(sift(*chunk))


async def _ids(source: Source, api: BoldApi, patience: Patience) -> Sequence[str]:
    name = source.value or ""
    tokens = [name] if source.kind == "set_token" else await patience.insist(partial(api.sets, name))
    found: dict[str, None] = {}
    for token in tokens:
        found.update(dict.fromkeys(await patience.insist(partial(api.processids, token))))
    return list(found)


def _require_name(source: Source) -> None:
    wanted = {"recordset": CODE, "set_token": TOKEN}.get(source.kind)
    name = source.value or ""
    if wanted is None or not wanted.fullmatch(name) or name in {".", ".."}:
        raise JobFailure(Reason.RECORDS, f"{name[:200]!r} is no recordset code, BIN or set token of BOLD")


def _spool_file(folder: Path) -> IO[bytes]:
    folder.mkdir(parents=True, exist_ok=True)
    return TemporaryFile(dir=folder)


def _empty(file: IO[bytes]) -> None:
    file.seek(0)
    file.truncate()
