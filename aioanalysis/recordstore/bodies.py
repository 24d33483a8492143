"""A reply's body: received whole or as an error, its gzip taken off, a piece at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from http import HTTPStatus

from aiohttp import ClientError, ClientResponse

from aioanalysis.errors import Unavailable
from aioanalysis.recordstore import replies
from aioanalysis.recordstore.pieces import MAGIC, BadGzip, Pieces, Unzipped


class HttpRecords:
    """One reply's records: what was looked at already, then the rest."""

    def __init__(self, head: bytes, rest: Pieces, *, announced: int | None) -> None:
        self.announced = announced
        self._head = head
        self._rest = rest

    async def chunks(self) -> AsyncIterator[bytes]:
        """Raises `Unavailable`."""
        if self._head:
            yield self._head
        while piece := await self._rest.read():
            yield piece


class Received:
    """A reply's body as received; its early end is an error. `counted`: its reader knows what must come."""

    def __init__(self, response: ClientResponse, *, counted: bool = False) -> None:
        headers = response.headers
        self._content = response.content
        self._ends_by_itself = (
            counted
            or "Content-Length" in headers
            or "chunked" in headers.get("Transfer-Encoding", "").lower()
            or response.status == HTTPStatus.NO_CONTENT
            or replies.announced(headers) is not None
        )
        self._start = b""

    async def read(self) -> bytes:
        """Raises `Unavailable`."""
        try:
            data = await self._content.readany()
        except (ClientError, OSError) as error:
            raise Unavailable("the reply of the record store broke off") from cause(error)
        if len(self._start) < len(MAGIC):
            self._start += data[: len(MAGIC)]
        if not data and not self._ends_by_itself and not self._start.startswith(MAGIC):
            raise Unavailable(
                "the reply of the record store ends with its connection and tells neither length nor count:"
                " nobody can know whether all of it came"
            )
        return data


class Body:
    """A reply's body without its gzip: that of the transfer, and that of a .gz file sent as it is."""

    def __init__(self, response: ClientResponse, *, counted: bool = False) -> None:
        self._pieces = Unzipped(Unzipped(Received(response, counted=counted)))

    async def read(self) -> bytes:
        """Raises `Unavailable`."""
        try:
            return await self._pieces.read()
        except BadGzip as error:
            raise Unavailable(f"the reply of the record store broke off: {error}") from error


def cause(error: Exception) -> Exception | None:
    """The library's error as a cause, unless it carries the request: its headers hold the key."""
    return None if hasattr(error, "request_info") else error
