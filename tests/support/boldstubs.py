"""BOLD's portal and data API as stubs: they answer as the real ones are known to, or as a test tells them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import quote

from aiohttp import web

from aioanalysis.recordstore.queries import query_id
from tests.support.recordstub import Handler, RecordStub, record_stub

BOLD_KEY = "0f2b4c6d-1234-4abc-9def-0123456789ab"


def jsonl(records: Iterable[Mapping[str, object]]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


@dataclass
class PortalStub:
    """The portal: what `put` gave for a query id, the total first, then the download."""

    stub: RecordStub

    @property
    def url(self) -> str:
        return f"{self.stub.url}/api"

    def put(self, token: str, total: int, body: bytes, *, content_type: str = "text/plain") -> None:
        page = {"data": [{"count": 1}], "recordsTotal": total, "recordsFiltered": total}
        self.stub.put(self.count_path(token), json.dumps(page).encode(), content_type="application/json")
        self.stub.put(self.download_path(token), body, content_type=content_type)

    def put_code(self, code: str, total: int, body: bytes) -> None:
        self.put(query_id([f"recordsetcode:code:{code}"]), total, body)

    @staticmethod
    def count_path(token: str) -> str:
        return f"/api/documents/{quote(token, safe='')}?length=1&start=0"

    @staticmethod
    def download_path(token: str) -> str:
        return f"/api/documents/{quote(token, safe='')}/download?format=json"


@dataclass
class Asked:
    """One POST of ids to the data API."""

    ids: list[str]
    offset: int
    headers: Mapping[str, str]


@dataclass
class DataStub:
    """The data API: `sets` by code, `records` by process id. `instead` answers before it does, in order.

    A page is `page` records of the asked ids; `by` names the parameter that made a set.
    """

    stub: RecordStub
    sets: dict[str, list[str]] = field(default_factory=dict)
    records: dict[str, list[Mapping[str, object]]] = field(default_factory=dict)
    raw: dict[str, bytes] = field(default_factory=dict)
    instead: list[Handler] = field(default_factory=list)
    by: list[str] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    page: int | None = None
    ids_reply: Callable[[list[str]], bytes] = field(default=lambda ids: json.dumps({"records": ids}).encode())

    @property
    def url(self) -> str:
        return f"{self.stub.url}/api"

    def add(self, code: str, records: Iterable[Mapping[str, object]]) -> None:
        for record in records:
            name = str(record["processid"])
            self.sets.setdefault(code, [])
            if name not in self.records:
                self.sets[code].append(name)
            self.records.setdefault(name, []).append(record)

    def put(self, code: str, body: bytes, *, empty: bool) -> None:
        """A set of one process id, whose one page is `body`, whatever that is; or of none."""
        name = f"{code}-26"
        self.sets[code] = [] if empty else [name]
        self.raw[name] = body

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.stub.asked.append(request)
        path = request.path.removeprefix("/api/")
        if path == "records/retrieve" and request.method == "POST":
            return await self._records(request)
        if path == "sets/create":
            ((parameter, code),) = request.query.items()
            self.by.append(parameter)
            if code in self.sets:
                return web.Response(body=json.dumps({"token": f"tok/{code}="}).encode() + b"\n")
        for code, ids in self.sets.items():
            if request.raw_path == f"/api/sets/retrieve/{quote(f'tok/{code}=', safe='')}?check_exists=false":
                return web.Response(body=self.ids_reply(ids))
        return web.json_response({"detail": f"nothing known of {path}"}, status=404)

    async def _records(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        part = form["input_file"]
        assert isinstance(part, web.FileField)
        with part.file as file:
            ids = file.read().decode().strip().split(",")
        query = request.query
        assert (query["input_type"], query["record_sep"], query["batch_size"]) == ("processid", ",", "10000")
        offset = int(query["offset"])
        self.asked.append(Asked(ids, offset, dict(request.headers)))
        if self.instead:
            return await self.instead.pop(0)(request)
        if ids[0] in self.raw:
            return web.Response(body=b"" if offset else self.raw[ids[0]])
        found = [record for name in ids for record in self.records.get(name, ())]
        end = None if self.page is None else offset + self.page
        return web.Response(body=jsonl(found[offset:end]), content_type="application/json")


@asynccontextmanager
async def portal_stub() -> AsyncIterator[PortalStub]:
    async with record_stub() as stub:
        yield PortalStub(stub)


@asynccontextmanager
async def data_stub() -> AsyncIterator[DataStub]:
    async with record_stub() as stub:
        data = DataStub(stub)
        stub.answer_all = data.answer
        yield data


def reply(
    body: bytes = b"", *, status: int = 200, content_type: str = "application/json", **headers: str
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """A handler that answers this; `_` in header names reads `-`."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, status=status, headers={**given, "Content-Type": content_type})

    return answer


def cut(body: bytes) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """A handler whose reply breaks off after `body`."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(body)
        assert request.transport is not None
        request.transport.close()
        return response

    return answer
