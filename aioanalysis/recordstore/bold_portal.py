"""Record store on BOLD's public portal, where a set token is a query id and a recordset code a code or BIN.

The portal takes no key, so none is sent. Records are asked for as JSON Lines: its TSV damages ids and
numbers.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from aiohttp import ClientResponse, ClientSession
from yarl import URL

from aioanalysis.domain.job import Source
from aioanalysis.domain.outcomes import Reason
from aioanalysis.errors import JobFailure, Unavailable
from aioanalysis.interfaces import RecordStream
from aioanalysis.recordstore import queries, replies
from aioanalysis.recordstore.bodies import HttpRecords
from aioanalysis.recordstore.lines import LineCount
from aioanalysis.recordstore.patience import Pace
from aioanalysis.recordstore.transport import Transport, checked_base, documents, records, refusal

PORTAL: Final = "https://portal.boldsystems.org/api"
MOST_RECORDS: Final = 1_000_000
"""Where the portal's downloads end without a word."""
BIN: Final = re.compile(r"BOLD:[A-Z]{3}[0-9]{4}")
URL_LENGTH: Final = 2048
COUNT_BYTES: Final = 32 * 1024 * 1024
COUNT_SECONDS: Final = 120
CALL_SECONDS: Final = 1.0
BUSY_SECONDS: Final = 20.0
"""What the portal's own users found it to need: a second between calls, 20 when it was busy."""
HEADERS: Final = {"Accept": "application/json, text/plain;q=0.9, */*;q=0.5", "Accept-Encoding": "gzip"}
NO_KEY: Final = ""


class BoldPortal:
    """The portal's API at `base`. `longest` seconds is what one set may take."""

    def __init__(
        self,
        session: ClientSession,
        base: str = PORTAL,
        *,
        longest: float = 6 * 3600.0,
        call_seconds: float = CALL_SECONDS,
    ) -> None:
        self._base = checked_base(base)
        self._transport = Transport(session, self._base)
        self._longest = longest
        self._pace = Pace(call_seconds)

    async def check(self) -> str:
        """Raises `Unavailable` when nothing answers there."""
        await self._transport.check()
        return f"BOLD portal at {self._transport.origin} (public records, no key)"

    @asynccontextmanager
    async def open(self, source: Source, key: str) -> AsyncIterator[RecordStream]:
        """Ask how many records there are, then for them.

        Raises `JobFailure` also for a token that is none and for more records than the portal gives.
        """
        del key  # of no use to the portal, so it shall not see it
        token = _token(source)
        deadline = asyncio.get_running_loop().time() + self._longest
        total = await self._total(token)
        if total > MOST_RECORDS:
            raise JobFailure(
                Reason.RECORDS,
                f"the set holds {total:,} records and the BOLD portal's downloads end at {MOST_RECORDS:,}:"
                " ask for a smaller one",
            )
        if total == 0:
            yield PortalRecords(None, total=0, deadline=deadline)
            return
        url = self._address(token, "/download?format=json")
        async with self._ask(url) as response:
            reply = await _download(response, token, total)
            yield PortalRecords(reply, total=total, deadline=deadline)

    async def _total(self, token: str) -> int:
        try:
            async with (
                asyncio.timeout(COUNT_SECONDS),
                self._ask(self._address(token, "?length=1&start=0")) as response,
            ):
                return await _count(response, token)
        except TimeoutError as error:
            raise Unavailable("the BOLD portal did not say in time how many records there are") from error

    @asynccontextmanager
    async def _ask(self, url: URL) -> AsyncIterator[ClientResponse]:
        await self._pace.turn()
        async with self._transport.ask(url, HEADERS) as response:
            yield response

    def _address(self, token: str, rest: str) -> URL:
        url = URL(f"{self._base}/documents/{quote(token, safe='')}{rest}", encoded=True)
        if len(str(url)) > URL_LENGTH:
            raise JobFailure(Reason.RECORDS, f"the query is longer than the {URL_LENGTH} characters of a URL")
        return url


class PortalRecords:
    """A download as it comes, none if there is nothing to come; its end is checked against the total."""

    def __init__(self, reply: HttpRecords | None, *, total: int, deadline: float) -> None:
        self.announced: int | None = total
        self._reply = reply
        self._total = total
        self._deadline = deadline

    async def chunks(self) -> AsyncIterator[bytes]:
        """Raises `Unavailable` for a download that breaks off, is too slow, or is not whole."""
        if self._reply is None:
            return
        lines = LineCount()
        loop = asyncio.get_running_loop()
        async for piece in self._reply.chunks():
            lines.feed(piece)
            yield piece
            if loop.time() > self._deadline:
                raise Unavailable(f"the BOLD portal sent {lines.count} of {self._total} records in time")
        if complaint := replies.complaint(lines.last, whole=True, key=NO_KEY):
            raise Unavailable(
                f"the BOLD portal's download ends in an error after {lines.count - 1} records: {complaint}"
            )
        if lines.count < self._total:
            raise Unavailable(f"the BOLD portal announced {self._total} records and sent {lines.count}")


def _token(source: Source) -> str:
    value = source.value or ""
    if source.kind == "set_token" and re.fullmatch(r"[!-~]+", value) and value not in {".", ".."}:
        return queries.with_all(value)
    # A `;` would begin another triplet.
    if source.kind == "recordset" and re.fullmatch(r"[!-:<-~]+", value):
        scope = "bin:uri" if BIN.fullmatch(value) else "recordsetcode:code"
        return queries.query_id([f"{scope}:{value}"])
    raise JobFailure(Reason.RECORDS, f"{value[:200]!r} is no recordset code or query id of the BOLD portal")


async def _count(response: ClientResponse, token: str) -> int:
    await _require(response, token)
    try:
        return _records_total(await documents(response, NO_KEY, most_bytes=COUNT_BYTES))
    except Unavailable as error:
        raise _patient(error) from error


async def _download(response: ClientResponse, token: str, total: int) -> HttpRecords:
    await _require(response, token)
    try:
        return await records(response, NO_KEY, total=total)
    except Unavailable as error:
        raise _patient(error) from error


async def _require(response: ClientResponse, token: str) -> None:
    """Raise what a status other than 200 means here."""
    if response.status == HTTPStatus.OK:
        return
    if response.status == HTTPStatus.INTERNAL_SERVER_ERROR and queries.triplets_of(token) is None:
        raise JobFailure(
            Reason.RECORDS,
            f"the BOLD portal cannot read the set token {token[:80]!r}: it is no query id of its /api/query",
        )
    error = await refusal(response, NO_KEY)
    raise _patient(error) if isinstance(error, Unavailable) else error


def _patient(error: Unavailable) -> Unavailable:
    """The portal names no pause when it is busy."""
    return Unavailable(str(error), retry_after=error.retry_after or BUSY_SECONDS)


def _records_total(found: list[Any]) -> int:
    total = found[0].get("recordsTotal") if found and isinstance(found[0], dict) else None
    if not isinstance(total, int) or isinstance(total, bool) or total < 0:
        raise Unavailable("the BOLD portal did not say how many records there are")
    return total
