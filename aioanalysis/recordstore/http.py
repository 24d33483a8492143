"""Record store over HTTP: JSON Lines streamed with the submitter's key, looked at before they go on.

The address is a template, `RECORDS_URL`. `{value}` is the recordset code or set token, percent-encoded
whole; `{kind}` is `recordsets` or `sets`. Without placeholders `/{kind}/{value}/records` is added to the
path, so that `https://store.example/api` asks for

- `https://store.example/api/recordsets/CODE/records` and
- `https://store.example/api/sets/TOKEN/records`.

A template with `{value}` only takes codes and tokens at the one address.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Literal
from urllib.parse import quote

from aiohttp import ClientSession
from yarl import URL

from aioanalysis.domain.job import Source
from aioanalysis.domain.outcomes import Reason
from aioanalysis.errors import JobFailure, Misconfigured
from aioanalysis.interfaces import RecordStream
from aioanalysis.recordstore.transport import ADDRESS_SETTING, Transport, checked_address, records

KINDS: Final = {"recordset": "recordsets", "set_token": "sets"}
HEADERS: Final = {
    "Accept": "application/x-ndjson, application/json;q=0.9, */*;q=0.5",
    "Accept-Encoding": "gzip",
}

Auth = Literal["bearer", "api-key"]


class HttpRecordStore:
    """One record store. `session` must come from `open_session`: it keeps no cookies and decodes nothing."""

    def __init__(self, session: ClientSession, template: str, auth: Auth) -> None:
        self._template = checked_template(template)
        self._auth = auth
        self._transport = Transport(session, URL(self._template.partition("{")[0]))

    async def check(self) -> str:
        """Raises `Unavailable` when nothing answers there; any answer will do, no key is sent."""
        await self._transport.check()
        return f"record store at {self._transport.origin} ({self._auth})"

    @asynccontextmanager
    async def open(self, source: Source, key: str) -> AsyncIterator[RecordStream]:
        """Ask for the records, following redirects; the key goes to the store's own host only."""
        if not re.fullmatch(r"[!-~]+", key):
            raise JobFailure(Reason.RECORDS, "the submitter's key cannot be sent in an HTTP header")
        url = self._address(source)
        async with self._transport.ask(url, HEADERS, key=self._key_header(key)) as response:
            yield await records(response, key)

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

    def _key_header(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"} if self._auth == "bearer" else {"api-key": key}


def checked_template(template: str) -> str:
    """`template` with its placeholders; raises `Misconfigured` for what is no address."""
    parts = checked_address(template)
    found = set(re.findall(r"\{[^}]*\}?|\}", template))
    if "{" in parts.netloc or not found <= {"{kind}", "{value}"} or found == {"{kind}"}:
        raise Misconfigured(
            f"{ADDRESS_SETTING}: may hold {{value}} and {{kind}} after the host, nothing else in braces"
        )
    if found:
        return template
    path = f"{parts.path.rstrip('/')}/{{kind}}/{{value}}/records"
    return parts._replace(path=path, fragment="").geturl()
