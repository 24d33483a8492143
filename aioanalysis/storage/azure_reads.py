"""Downloads from Azure by our own HTTP client: cancelled at any moment, they leave no connection behind.

(The SDK's download strands its connection when a cancellation lands in it, and fetches 32 MiB ahead.)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from typing import Final

import aiohttp
from azure.storage.blob.aio import BlobClient
from yarl import URL

from aioanalysis.errors import Contested, Missing, Unavailable
from aioanalysis.interfaces import BlobInfo, LeaseState
from aioanalysis.storage.azure_account import Account, proxied
from aioanalysis.storage.azure_faults import TRANSPORT_FAULTS, fault_of, faults

CONNECTIONS: Final = 256
BUFFER_BYTES: Final = 512 * 1024  # a stream holds up to twice that
TRIES: Final = 2
PAUSE: Final = 0.3
TIMEOUT: Final = aiohttp.ClientTimeout(total=None, connect=6, sock_connect=3, sock_read=10)


@asynccontextmanager
async def open_session() -> AsyncIterator[aiohttp.ClientSession]:
    """The session for downloads, apart from the SDK's: slow readers take no connection from anything else."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=CONNECTIONS),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=proxied(),
        timeout=TIMEOUT,
        read_bufsize=BUFFER_BYTES,
    ) as session:
        yield session


class Download:
    """`BlobStream` over ranged GETs; one that breaks is taken up again where it broke, same version only."""

    info: BlobInfo

    def __init__(self, session: aiohttp.ClientSession, account: Account, blob: BlobClient) -> None:
        self._session = session
        self._account = account
        self._blob = blob
        self._subject = f"reading {blob.container_name}/{blob.blob_name}"
        self._response: aiohttp.ClientResponse | None = None
        self._position = 0
        self._end = 0

    async def start(self, start: int, end: int | None, etag: str | None) -> bool:
        """Ask for the bytes; False if the blob has none in that range (`info` is then not known)."""
        if not await self._request(start, end, etag) or self._response is None:
            return False
        self.info = _describe(self._blob.blob_name, self._response)
        self._position = start
        self._end = self.info.size if end is None else min(end, self.info.size)
        return True

    async def chunks(self) -> AsyncIterator[bytes]:
        failures = 0
        while self._position < self._end and self._response is not None:
            cause: Exception | None = None
            try:
                async for piece in self._response.content.iter_any():
                    failures = 0
                    self._position += len(piece)
                    yield piece
            except TRANSPORT_FAULTS as error:
                cause = error
            if self._position < self._end:
                failures += 1
                if failures > TRIES:
                    raise Unavailable(
                        f"{self._subject}: ended at {self._position} of {self._end} bytes"
                    ) from cause
                await self._resume()

    async def _resume(self) -> None:
        try:
            found = await self._request(self._position, self._end, self.info.etag)
        except Missing:
            found = False
        if not found:
            raise Contested(f"{self._subject}: deleted while it was read")

    async def _request(self, start: int, end: int | None, etag: str | None) -> bool:
        for _ in range(TRIES - 1):
            try:
                return await self._request_once(start, end, etag)
            except Unavailable:
                await asyncio.sleep(PAUSE)
        return await self._request_once(start, end, etag)

    async def _request_once(self, start: int, end: int | None, etag: str | None) -> bool:
        self.close()
        with faults(self._subject):
            headers = await self._account.read_headers()
            if etag is not None:
                headers["If-Match"] = f'"{etag}"'
            if start or end is not None:
                headers["Range"] = f"bytes={start}-{'' if end is None else end - 1}"
            url = URL(self._account.readable_url(self._blob), encoded=True)
            response = await self._session.get(url, headers=headers, allow_redirects=False)
        if response.status in {200, 206}:
            self._response = response
            if (response.status == 206) == ("Range" in headers):
                return True
        response.close()
        if response.status == 416:
            return False
        raise fault_of(response.status, response.headers, self._subject)

    def close(self) -> None:
        """Free the connection: it is closed unless the reply was read to its end."""
        response, self._response = self._response, None
        if response is not None:
            response.close()


def lease_state(azure: str | None) -> LeaseState:
    """Ours for theirs: available, leased, expired, breaking or broken."""
    if azure in {"leased", "breaking"}:
        return LeaseState.HELD
    return LeaseState.LAPSED if azure == "expired" else LeaseState.FREE


def _describe(name: str, response: aiohttp.ClientResponse) -> BlobInfo:
    headers = response.headers
    whole = headers.get("Content-Range", "").rpartition("/")[2] or headers.get("Content-Length", "0")
    return BlobInfo(
        name=name,
        size=int(whole),
        etag=headers.get("ETag", "").strip('"'),
        modified_at=parsedate_to_datetime(headers["Last-Modified"]),
        metadata=_metadata(headers),
        lease=lease_state(headers.get("x-ms-lease-state")),
    )


def _metadata(headers: Mapping[str, str]) -> dict[str, str]:
    start = "x-ms-meta-"
    return {
        key.lower().removeprefix(start): value
        for key, value in headers.items()
        if key.lower().startswith(start)
    }
