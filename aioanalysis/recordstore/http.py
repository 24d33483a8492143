"""Record store over HTTP: JSON Lines streamed with the submitter's key, looked at before they go on.

The address is a template, `RECORDS_URL`. `{value}` is the recordset code or set token, percent-encoded
whole; `{kind}` is `recordsets` or `sets`. Without placeholders `/{kind}/{value}/records` is added to the
path, so that `https://store.example/api` asks for

- `https://store.example/api/recordsets/CODE/records` and
- `https://store.example/api/sets/TOKEN/records`.

A template with `{value}` only takes codes and tokens at the one address.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final, Literal
from urllib.parse import quote, urlsplit

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
from yarl import URL

from aioanalysis import __version__
from aioanalysis.domain.job import Source
from aioanalysis.domain.outcomes import Reason
from aioanalysis.errors import JobFailure, Misconfigured, Unavailable
from aioanalysis.interfaces import RecordStream
from aioanalysis.recordstore import replies
from aioanalysis.recordstore.pieces import MAGIC, BadGzip, Gunzip, Pieces, Unzipped

TIMEOUT: Final = ClientTimeout(total=None, connect=5, sock_connect=5, sock_read=60)
KINDS: Final = {"recordset": "recordsets", "set_token": "sets"}
MAX_REDIRECTS: Final = 5
ACCEPT: Final = "application/x-ndjson, application/json;q=0.9, */*;q=0.5"
ENCODINGS: Final = frozenset({"", "identity", "gzip", "x-gzip"})
PASSING_STATUS: Final = frozenset({408, 425, 429})
ERROR_BODY_BYTES: Final = 64 * 1024
ERROR_BODY_SECONDS: Final = 5

Auth = Literal["bearer", "api-key"]


class HttpRecordStore:
    """One record store. `session` must come from `open_session`: it keeps no cookies and decodes nothing."""

    def __init__(self, session: ClientSession, template: str, auth: Auth) -> None:
        self._session = session
        self._template = checked_template(template)
        self._auth = auth
        self._origin = URL(self._template.partition("{")[0]).origin()

    async def check(self) -> str:
        """Raises `Unavailable` when nothing answers there; any answer will do, no key is sent."""
        try:
            async with asyncio.timeout(10), self._session.get(self._origin, allow_redirects=False):
                return f"record store at {self._origin} ({self._auth})"
        except (ClientError, OSError) as error:
            raise self._unreachable(error) from _cause(error)

    @asynccontextmanager
    async def open(self, source: Source, key: str) -> AsyncIterator[RecordStream]:
        """Ask for the records, following redirects; the key goes to the store's own host only."""
        if not re.fullmatch(r"[!-~]+", key):
            raise JobFailure(Reason.RECORDS, "the submitter's key cannot be sent in an HTTP header")
        url, headers = self._address(source), self._headers(key)
        for _ in range(MAX_REDIRECTS + 1):
            response = await self._get(url, headers)
            try:
                if response.status not in replies.REDIRECTS or "Location" not in response.headers:
                    yield await self._records(response, key)
                    return
                target = self._redirected(response, url)
                if _place(target) != _place(self._origin):
                    headers = self._headers(None)
                url = target
            finally:
                # Closes the connection unless the reply has been read to its end.
                response.release()
                await response.wait_for_close()
        raise Unavailable(f"the record store redirected more than {MAX_REDIRECTS} times")

    def _address(self, source: Source) -> URL:
        value = source.value or ""
        if source.kind not in KINDS or value in {"", ".", ".."}:
            raise JobFailure(Reason.RECORDS, f"{value!r} is no recordset code or set token")
        try:
            encoded = quote(value, safe="")
        except UnicodeEncodeError as error:
            raise JobFailure(Reason.RECORDS, "the recordset code is not text") from error
        return URL(
            self._template.replace("{kind}", KINDS[source.kind]).replace("{value}", encoded), encoded=True
        )

    def _headers(self, key: str | None) -> dict[str, str]:
        headers = {"Accept": ACCEPT, "Accept-Encoding": "gzip"}
        if key is not None and self._auth == "bearer":
            headers["Authorization"] = f"Bearer {key}"
        elif key is not None:
            headers["api-key"] = key
        return headers

    async def _get(self, url: URL, headers: dict[str, str]) -> ClientResponse:
        try:
            return await self._session.get(url, headers=headers, allow_redirects=False)
        except (ClientError, OSError) as error:
            raise self._unreachable(error) from _cause(error)

    def _redirected(self, response: ClientResponse, url: URL) -> URL:
        try:
            target = url.join(URL(response.headers["Location"]))
            target.origin()
        except ValueError as error:
            raise Unavailable("the record store redirects to an address that is none") from error
        if target.scheme not in {"http", "https"}:
            raise Unavailable(f"the record store redirects to a {target.scheme!r} address")
        return target

    async def _records(self, response: ClientResponse, key: str) -> RecordStream:
        count = replies.announced(response.headers)
        if response.status == HTTPStatus.NO_CONTENT:
            return HttpRecords(b"", Received(response), announced=count)
        if response.status != HTTPStatus.OK:
            raise await _refusal(response, key)
        if replies.is_html(response.content_type):
            raise Unavailable("the record store answered with an HTML page instead of records")
        encoding = response.headers.get("Content-Encoding", "").strip().lower()
        if encoding not in ENCODINGS:
            raise Unavailable(f"the record store answered in an encoding not asked for: {encoding[:40]!r}")
        body = Body(response)
        head, whole = await replies.head(body)
        if complaint := replies.complaint(head, whole=whole, key=key):
            raise Unavailable(complaint)
        return HttpRecords(head, body, announced=count)

    def _unreachable(self, error: Exception) -> Unavailable:
        what = "did not answer" if isinstance(error, TimeoutError) else "cannot be reached"
        return Unavailable(f"the record store at {self._origin} {what}")


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
    """A reply's body as received; its early end is an error."""

    def __init__(self, response: ClientResponse) -> None:
        headers = response.headers
        self._content = response.content
        self._ends_by_itself = (
            "Content-Length" in headers
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
            raise Unavailable("the reply of the record store broke off") from _cause(error)
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

    def __init__(self, response: ClientResponse) -> None:
        self._pieces = Unzipped(Unzipped(Received(response)))

    async def read(self) -> bytes:
        """Raises `Unavailable`."""
        try:
            return await self._pieces.read()
        except BadGzip as error:
            raise Unavailable(f"the reply of the record store broke off: {error}") from error


@asynccontextmanager
async def open_session(timeout: ClientTimeout = TIMEOUT) -> AsyncIterator[ClientSession]:
    """A session for `HttpRecordStore`: submitters share it, so nothing of one may reach another."""
    async with ClientSession(
        timeout=timeout,
        cookie_jar=DummyCookieJar(),
        connector=TCPConnector(limit=0),
        auto_decompress=False,
        headers={"User-Agent": f"aioanalysis/{__version__}"},
    ) as session:
        yield session


def checked_template(template: str) -> str:
    """`template` with its placeholders; raises `Misconfigured` for what is no address."""
    name = "AIOANALYSIS_RECORDS_URL"
    try:
        parts = urlsplit(template)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise Misconfigured(f"{name}: {error}") from error
    if parts.scheme not in {"http", "https"} or not host:
        raise Misconfigured(f"{name}: must be an http:// or https:// address")
    if not re.fullmatch(r"[!-~]+", template):
        raise Misconfigured(f"{name}: must be percent-encoded, without blanks")
    if "@" in parts.netloc:
        raise Misconfigured(f"{name}: must not hold a user or password; each submitter's key is sent")
    found = set(re.findall(r"\{[^}]*\}?|\}", template))
    if "{" in parts.netloc or not found <= {"{kind}", "{value}"} or found == {"{kind}"}:
        raise Misconfigured(f"{name}: may hold {{value}} and {{kind}} after the host, nothing else in braces")
    if found:
        return template
    path = f"{parts.path.rstrip('/')}/{{kind}}/{{value}}/records"
    return parts._replace(path=path, fragment="").geturl()


async def _refusal(response: ClientResponse, key: str) -> JobFailure | Unavailable:
    status = response.status
    words = replies.words(await _error_body(response), key)
    text = f"the record store answered {status} {_phrase(status)}".rstrip() + (f": {words}" if words else "")
    if 400 <= status < 500 and status not in PASSING_STATUS:
        return JobFailure(Reason.RECORDS, text)
    return Unavailable(text, retry_after=replies.retry_after(response.headers.get("Retry-After")))


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


def _place(url: URL) -> tuple[str, str | None, int | None]:
    return url.scheme, url.host, url.port


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _cause(error: Exception) -> Exception | None:
    """The library's error as a cause, unless it carries the request: its headers hold the key."""
    return None if hasattr(error, "request_info") else error
