"""Lists the names in an Azure container: a page is asked for before the names of the last are gone through.

(A list of a whole container then takes hardly more than Azure's own time. The SDK asks for a page when the
last is used up, and makes something of every field of every blob, a page in one go.)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final
from urllib.parse import quote, unquote, urlencode
from xml.parsers import expat

import aiohttp
from azure.storage.blob.aio import ContainerClient
from yarl import URL

from aioanalysis.errors import Unavailable
from aioanalysis.storage.azure_account import Account
from aioanalysis.storage.azure_faults import fault_of, faults

NAMES_A_PAGE: Final = 5_000  # as many as Azure gives
LIST: Final = "EnumerationResults"
TRIES: Final = 2
PAUSE: Final = 0.3

Page = tuple[list[str], str]
"""Names, and the marker of the next page: empty if there is none."""


async def list_names(
    session: aiohttp.ClientSession, account: Account, container: ContainerClient, prefix: str
) -> AsyncGenerator[str, None]:
    """The names in `container` that begin with `prefix`, in order. Raises `Unavailable`, `Misconfigured`."""

    def ask(marker: str) -> asyncio.Task[Page]:
        return asyncio.create_task(_page(session, account, container, prefix, marker), name="list names")

    asked: asyncio.Task[Page] | None = ask("")
    try:
        while asked is not None:
            names, marker = await asked
            asked = ask(marker) if marker else None
            await asyncio.sleep(0)  # it is sent, and others have their turn
            for name in names:
                yield name
    finally:
        if asked is not None:
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)


async def _page(
    session: aiohttp.ClientSession, account: Account, container: ContainerClient, prefix: str, marker: str
) -> Page:
    for _ in range(TRIES - 1):
        try:
            return await _page_once(session, account, container, prefix, marker)
        except Unavailable:
            await asyncio.sleep(PAUSE)
    return await _page_once(session, account, container, prefix, marker)


async def _page_once(
    session: aiohttp.ClientSession, account: Account, container: ContainerClient, prefix: str, marker: str
) -> Page:
    subject = f"listing {container.container_name}"
    asked = {"restype": "container", "comp": "list", "maxresults": str(NAMES_A_PAGE)}
    asked |= {name: value for name, value in (("prefix", prefix), ("marker", marker)) if value}
    with faults(subject):
        headers = await account.read_headers()
        address = account.listable_url(container)
        url = f"{address}{'&' if '?' in address else '?'}{urlencode(asked, quote_via=quote)}"
        async with session.get(URL(url, encoded=True), headers=headers, allow_redirects=False) as response:
            if response.status != 200:
                raise fault_of(response.status, response.headers, subject)
            page = _PageParser()
            try:
                async for piece in response.content.iter_any():
                    page.feed(piece)
                return page.close()
            except expat.ExpatError as error:
                raise Unavailable(f"{subject}: an answer that is no list ({error})") from error


class _PageParser:
    """Takes names and marker out of a page as it comes, and makes nothing of all else that it tells."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._marker = ""
        self._text: list[str] = []
        self._encoded = False
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._root
        self.feed = self._parser.Parse

    def close(self) -> Page:
        """What the whole page has; raises `ExpatError` if it ended early or was no page of a list."""
        self._parser.Parse(b"", True)
        return self._names, self._marker

    def _root(self, element: str, attributes: dict[str, str]) -> None:
        """Anything else that is XML, as some gateway's own page, would look like an empty list."""
        if element != LIST:
            raise expat.ExpatError(f"<{element}>")
        self._parser.StartElementHandler = self._start

    def _start(self, element: str, attributes: dict[str, str]) -> None:
        if element in {"Name", "NextMarker"}:
            self._text = []
            self._encoded = attributes.get("Encoded") == "true"  # it has characters that XML cannot have
            self._parser.CharacterDataHandler = self._text.append
            self._parser.EndElementHandler = self._end

    def _end(self, element: str) -> None:
        self._parser.CharacterDataHandler = self._parser.EndElementHandler = None
        text = "".join(self._text)
        if element == "NextMarker":
            self._marker = text
        else:
            self._names.append(unquote(text) if self._encoded else text)
