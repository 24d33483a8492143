"""Requests to a record store: the submitter's key kept to its own host, faults and refusals in our words."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from aiohttp import (
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    FormData,
    TCPConnector,
)
from yarl import URL

from aioanalysis import __version__
from aioanalysis.domain.outcomes import Reason
from aioanalysis.errors import JobFailure, Misconfigured, Unavailable
from aioanalysis.recordstore import replies
from aioanalysis.recordstore.bodies import Body, HttpRecords, Received, cause
from aioanalysis.recordstore.pieces import MAGIC, BadGzip, Gunzip

TIMEOUT: Final = ClientTimeout(total=None, connect=5, sock_connect=5, sock_read=60)
CHECK_SECONDS: Final = 10
MAX_REDIRECTS: Final = 5
ENCODINGS: Final = frozenset({"", "identity", "gzip", "x-gzip"})
PASSING_STATUS: Final = frozenset({408, 425, 429})
ERROR_BODY_BYTES: Final = 64 * 1024
ERROR_BODY_SECONDS: Final = 5
ADDRESS_SETTING: Final = "AIOANALYSIS_RECORDS_URL"


class Transport:
    """Speaks with one store at `origin`. `session` must be one of `open_session`'s."""

    def __init__(self, session: ClientSession, origin: URL) -> None:
        self._session = session
        self.origin = origin.origin()

    async def check(self) -> None:
        """Raises `Unavailable` when nothing answers there; any answer will do, no key is sent."""
        try:
            async with (
                asyncio.timeout(CHECK_SECONDS),
                self._session.get(self.origin, allow_redirects=False),
            ):
                return
        except (ClientError, OSError) as error:
            raise self._unreachable(error) from cause(error)

    @asynccontextmanager
    async def ask(
        self,
        url: URL,
        headers: Mapping[str, str],
        *,
        key: Mapping[str, str] | None = None,
        body: Callable[[], FormData] | None = None,
    ) -> AsyncIterator[ClientResponse]:
        """GET `url`, following redirects, or POST `body` to it, following none; any status is an answer.

        The headers `key` go to the store's own scheme, host and port only. Raises `Unavailable`.
        """
        sent = {**headers, **(key or {})}
        for _ in range(MAX_REDIRECTS + 1):
            response = await self._send(url, sent, body)
            try:
                if response.status not in replies.REDIRECTS or "Location" not in response.headers:
                    yield response
                    return
                if body is not None:
                    raise Unavailable("the record store redirects what is sent to it")
                url = self._redirected(response, url)
                if _place(url) != _place(self.origin):
                    sent = dict(headers)
            finally:
                # Closes the connection unless the reply has been read to its end.
                response.release()
                await response.wait_for_close()
        raise Unavailable(f"the record store redirected more than {MAX_REDIRECTS} times")

    async def _send(
        self, url: URL, headers: Mapping[str, str], body: Callable[[], FormData] | None
    ) -> ClientResponse:
        method = "GET" if body is None else "POST"
        data = None if body is None else body()
        try:
            return await self._session.request(method, url, headers=headers, data=data, allow_redirects=False)
        except (ClientError, OSError) as error:
            raise self._unreachable(error) from cause(error)

    def _redirected(self, response: ClientResponse, url: URL) -> URL:
        try:
            target = url.join(URL(response.headers["Location"]))
            target.origin()
        except ValueError as error:
            raise Unavailable("the record store redirects to an address that is none") from error
        if target.scheme not in {"http", "https"}:
            raise Unavailable(f"the record store redirects to a {target.scheme!r} address")
        return target

    def _unreachable(self, error: Exception) -> Unavailable:
        what = "did not answer" if isinstance(error, TimeoutError) else "cannot be reached"
        return Unavailable(f"the record store at {self.origin} {what}")


async def records(response: ClientResponse, key: str, *, total: int | None = None) -> HttpRecords:
    """The records of a reply, looked at before they go on; `total` when their number is known beforehand.

    Raises `JobFailure` for a refusal, `Unavailable` for what is passing, a page, an error with status 200.
    """
    announced = replies.announced(response.headers) if total is None else total
    if response.status == HTTPStatus.NO_CONTENT:
        return HttpRecords(b"", Received(response), announced=announced)
    body = await _accepted(response, key, counted=total is not None)
    head, whole = await replies.head(body)
    if complaint := replies.complaint(head, whole=whole, key=key):
        raise Unavailable(complaint)
    return HttpRecords(head, body, announced=announced)


async def documents(response: ClientResponse, key: str, *, most_bytes: int) -> list[Any]:
    """The JSON values of a reply, one for all of it or one a line. Raises as `records` does."""
    body = await _accepted(response, key)
    text = b""
    while piece := await body.read():
        text += piece
        if len(text) > most_bytes:
            raise Unavailable(f"the record store answered with more than {most_bytes} bytes")
    for parts in ([text], text.splitlines()):
        try:
            return [json.loads(part) for part in parts if part.strip()]
        except (ValueError, RecursionError):
            continue
    raise Unavailable("the record store answered with something else than JSON")


async def refusal(response: ClientResponse, key: str) -> JobFailure | Unavailable:
    """What a reply with an error's status means, with the store's own words."""
    status = response.status
    words = replies.words(await _error_body(response), key)
    text = f"the record store answered {status} {_phrase(status)}".rstrip() + (f": {words}" if words else "")
    if 400 <= status < 500 and status not in PASSING_STATUS:
        return JobFailure(Reason.RECORDS, text)
    return Unavailable(text, retry_after=replies.retry_after(response.headers.get("Retry-After")))


async def _accepted(response: ClientResponse, key: str, *, counted: bool = False) -> Body:
    if response.status != HTTPStatus.OK:
        raise await refusal(response, key)
    if replies.is_html(response.content_type):
        raise Unavailable("the record store answered with an HTML page instead of records")
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ENCODINGS:
        raise Unavailable(f"the record store answered in an encoding not asked for: {encoding[:40]!r}")
    return Body(response, counted=counted)


async def _error_body(response: ClientResponse) -> bytes:
    """The first of a refusal's body, as much of it as comes in good time."""
    body = b""
    try:
        async with asyncio.timeout(ERROR_BODY_SECONDS):
            while len(body) < ERROR_BODY_BYTES and (data := await response.content.read(ERROR_BODY_BYTES)):
                body += data
    except (ClientError, OSError):
        pass  # the status says enough
    if body.startswith(MAGIC):
        try:
            body = next(Gunzip(ERROR_BODY_BYTES).feed(body), b"")
        except BadGzip:
            body = b""
    return body


@asynccontextmanager
async def open_session(timeout: ClientTimeout = TIMEOUT) -> AsyncIterator[ClientSession]:
    """A session for `Transport`: submitters share it, so nothing of one may reach another."""
    async with ClientSession(
        timeout=timeout,
        cookie_jar=DummyCookieJar(),
        connector=TCPConnector(limit=0),
        auto_decompress=False,
        headers={"User-Agent": f"aioanalysis/{__version__}"},
    ) as session:
        yield session


def checked_address(text: str) -> SplitResult:
    """The parts of an HTTP address that holds no secret; raises `Misconfigured`."""
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise Misconfigured(f"{ADDRESS_SETTING}: {error}") from error
    if parts.scheme not in {"http", "https"} or not host:
        raise Misconfigured(f"{ADDRESS_SETTING}: must be an http:// or https:// address")
    if not re.fullmatch(r"[!-~]+", text):
        raise Misconfigured(f"{ADDRESS_SETTING}: must be percent-encoded, without blanks")
    if "@" in parts.netloc:
        raise Misconfigured(
            f"{ADDRESS_SETTING}: must not hold a user or password; each submitter's key is sent"
        )
    return parts


def checked_base(text: str) -> URL:
    """An address that paths can be added to; raises `Misconfigured`."""
    parts = checked_address(text)
    if parts.query or parts.fragment or "{" in text or "}" in text:
        raise Misconfigured(f"{ADDRESS_SETTING}: must be an API's base address, without query or braces")
    return URL(text.rstrip("/"), encoded=True)


def _place(url: URL) -> tuple[str, str | None, int | None]:
    return url.scheme, url.host, url.port


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
