"""The calls of data.boldsystems.org that a record store needs, with one submitter's key."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import quote, urlencode

from aiohttp import FormData
from yarl import URL

from aioanalysis.domain.outcomes import Reason
from aioanalysis.errors import JobFailure, Unavailable
from aioanalysis.recordstore import replies
from aioanalysis.recordstore.bodies import HttpRecords
from aioanalysis.recordstore.transport import Transport, documents, records

PAGE_RECORDS: Final = 10_000
IDS_BYTES: Final = 64 * 1024 * 1024
HEADERS: Final = {"Accept": "application/json", "Accept-Encoding": "gzip"}
PROCESSID: Final = re.compile(r"[^\s,]{1,200}")


class BoldApi:
    """Every call raises `JobFailure` for a refusal and `Unavailable` for what is passing."""

    def __init__(self, transport: Transport, base: URL, key: str) -> None:
        self._transport = transport
        self._base = base
        self._key = key

    async def sets(self, code: str) -> Sequence[str]:
        """Tokens of the set that is made of a dataset code, project code or BIN."""
        values = await self._get(f"sets/create?{urlencode({_kind(code): code})}")
        tokens = [value.get("token") if isinstance(value, dict) else None for value in values]
        named = [token for token in tokens if isinstance(token, str) and token]
        if not named or len(named) < len(tokens):
            raise Unavailable("the record store made no set: its answer holds no token")
        return named

    async def processids(self, token: str) -> Sequence[str]:
        """The process ids of a set, as they come."""
        values = await self._get(f"sets/retrieve/{quote(token, safe='')}?check_exists=false")
        found: list[str] = []
        for value in values:
            found += _names(value)
        return found

    @asynccontextmanager
    async def records(self, ids: Sequence[str], offset: int) -> AsyncIterator[HttpRecords]:
        """A page of the records of `ids`: at most some `PAGE_RECORDS`, fewer on the last page."""
        asked = {
            "input_type": "processid",
            "batch_size": PAGE_RECORDS,
            "offset": offset,
            "record_sep": ",",
            "last_updated_threshold": 0,
        }
        url = URL(f"{self._base}/records/retrieve?{urlencode(asked)}", encoded=True)

        def form() -> FormData:
            data = FormData()
            text = ",".join(ids) + "\n"
            data.add_field("input_file", text, filename="ids.txt", content_type="text/plain")
            return data

        async with self._transport.ask(url, HEADERS, key={"api-key": self._key}, body=form) as response:
            yield await records(response, self._key)

    def spoken(self, value: Any) -> str:
        """What an error's JSON value says, without the key."""
        return replies.spoken(value, self._key)

    async def _get(self, path: str) -> list[Any]:
        url = URL(f"{self._base}/{path}", encoded=True)
        async with self._transport.ask(url, HEADERS, key={"api-key": self._key}) as response:
            values = await documents(response, self._key, most_bytes=IDS_BYTES)
        for value in values:
            if isinstance(value, dict) and value and value.keys() <= replies.ERROR_KEYS:
                raise JobFailure(Reason.RECORDS, f"the record store has no such set: {self.spoken(value)}")
        return values


def _kind(code: str) -> str:
    if code.startswith("BOLD:"):
        return "bin_uris"
    return "dataset_codes" if code.startswith(("DS-", "DATASET-")) else "project_codes"


def _names(value: Any) -> list[str]:
    """Process ids out of a string, a list of them, or an object with one such list.

    A record id, as some replies have them, is a process id and a marker.
    """
    if isinstance(value, dict) and "processid" in value:
        value = value["processid"]
    elif isinstance(value, dict):
        lists = [item for item in value.values() if isinstance(item, list)]
        value = lists[0] if len(lists) == 1 else None
    names = value if isinstance(value, list) else [value]
    if not all(isinstance(name, str) and PROCESSID.fullmatch(name) for name in names):
        raise Unavailable("the record store answered with something else than process ids")
    return [name.partition(".")[0] for name in names]
