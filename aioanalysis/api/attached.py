"""Submission with attached records: a multipart body read part by part, lines checked, kept compressed."""

from __future__ import annotations

import asyncio
import hashlib
import warnings
import zlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Self, TypeVar
from uuid import uuid4

from aiohttp import BodyPartReader, ClientError, MultipartReader, web
from aiohttp.http_exceptions import HttpProcessingError
from pydantic import ConfigDict, model_validator

from aioanalysis.aio import in_thread
from aioanalysis.api.bodies import PIECE_SECONDS, loads, parse
from aioanalysis.api.context import CONTEXT, job_store_time
from aioanalysis.api.problems import HttpProblem
from aioanalysis.api.requests import JobRequest
from aioanalysis.domain.job import Source
from aioanalysis.domain.records import Malformed, Truncated
from aioanalysis.errors import AnalysisError, Invalid, TooLarge
from aioanalysis.operations import NewJob
from aioanalysis.recordlines import line_reader
from aioanalysis.settings import Settings

MULTIPART: Final = "multipart/form-data"
CHUNK: Final = 1024 * 1024
READ: Final = 64 * 1024
GZIP: Final = 31  # zlib's window bits for a gzip header
GZIP_MARK: Final = b"\x1f\x8b"
LEVEL: Final = 6
PLAIN_ENCODINGS: Final = frozenset({"", "binary", "8bit", "7bit", "identity"})
T = TypeVar("T")


class AttachedJobRequest(JobRequest):
    """A job to be run on the records that come with it."""

    model_config = ConfigDict(
        json_schema_extra={
            "properties": {"recordset": {"type": "null"}, "set_token": {"type": "null"}},
        }
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.recordset is not None or self.set_token is not None:
            raise ValueError("with attached records neither recordset nor set_token can be given")
        return self

    def new_job(self) -> NewJob:
        """With a source that is yet to come."""
        absent = self.model_copy(update={"recordset": "-"})
        return replace(JobRequest.new_job(absent), source=Source(kind="attached"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Attachment:
    """Records that have come and are staged: `sha256` is of them, checked and expanded."""

    id: str
    sha256: str
    records: int

    def given_to(self, new: NewJob) -> NewJob:
        count = self.records if new.record_count is None else new.record_count
        return replace(new, source=Source(kind="attached", value=self.id), record_count=count)


Receive = Callable[[], Awaitable[Attachment]]


async def read_attached(request: web.Request) -> tuple[AttachedJobRequest, Receive]:
    """The part `job`, and what reads and stages the part `records`, to be called once.

    Raises `HttpProblem` (400, 408), `TooLarge`, `Invalid`.
    """
    settings = request.app[CONTEXT].settings
    if (request.content_length or 0) > settings.attached_expanded_max_bytes + settings.body_max_bytes:
        raise TooLarge(f"Attached records may have {settings.attached_expanded_max_bytes} bytes at most.")
    reader = await _framed(request.multipart)
    part = await _part(reader, "job")
    wanted = parse(AttachedJobRequest, loads(await _whole(part, settings.body_max_bytes)))

    async def receive() -> Attachment:
        records = await _part(reader, "records")
        attachment = uuid4().hex
        try:
            found = await _stage(request, records, attachment)
            if await _framed(reader.next) is not None:
                raise HttpProblem(400, "Nothing may follow the part records.")
        except BaseException:
            await drop(request, attachment)
            raise
        return found

    return wanted, receive


async def drop(request: web.Request, attachment: str) -> None:
    """Delete what was staged; if that fails it goes by itself."""
    with suppress(AnalysisError):
        async with job_store_time():
            await request.app[CONTEXT].operations.attached.drop(attachment)


async def _stage(request: web.Request, part: BodyPartReader, attachment: str) -> Attachment:
    store = request.app[CONTEXT].operations.attached
    intake = Intake(request.app[CONTEXT].settings)
    number = size = 0
    while True:
        data = await _framed(lambda: part.read_chunk(READ))
        for chunk in await in_thread(intake.feed if data else intake.close, bytes(data)):
            size += len(chunk)
            async with job_store_time():
                await store.add(attachment, number, chunk, size=size)
            number += 1
        if not data:
            return Attachment(id=attachment, sha256=intake.sha256, records=intake.records)


class Intake:
    """Expands, checks and compresses records as their bytes come; gives chunks of 1 MiB. Runs in threads.

    Holds at most a line and some MiB, whatever comes. Raises `TooLarge`, and `Invalid` with the line.
    """

    def __init__(self, settings: Settings) -> None:
        self._compressed_max = settings.attached_max_bytes
        self._expanded_max = settings.attached_expanded_max_bytes
        self._ratio_max = settings.attached_ratio_max
        self._reader = line_reader()
        self._squeeze = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP)
        self._digest = hashlib.sha256()
        self._inflate: Any = None
        self._head: bytes | None = b""
        self._received = self._expanded = self._stored = 0
        self._out = bytearray()
        self.records = 0

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def feed(self, data: bytes) -> Sequence[bytes]:
        self._received += len(data)
        if self._head is not None:
            self._head += data
            if len(self._head) < len(GZIP_MARK):
                return ()
            data = self._begin()
        self._expand(data)
        return self._ready(CHUNK)

    def close(self, _: bytes = b"") -> Sequence[bytes]:
        if self._head is not None:
            self._expand(self._begin())
        if self._inflate is not None and not self._inflate.eof:
            raise _wrong("the gzip data ends early")
        self._take(None)
        if not self.records:
            raise _wrong("there are no records in it")
        self._out += self._squeeze.flush()
        return self._ready(1)

    def _begin(self) -> bytes:
        data, self._head = self._head or b"", None
        if data.startswith(GZIP_MARK):
            self._inflate = zlib.decompressobj(GZIP)
        return data

    def _expand(self, data: bytes) -> None:
        if self._inflate is None:
            for start in range(0, len(data), CHUNK):
                self._count(data[start : start + CHUNK])
            return
        if self._received > self._compressed_max:
            raise TooLarge(f"Attached records may have {self._compressed_max} bytes compressed.")
        rest = data
        while rest:
            if self._inflate.eof:  # another member may follow, or zeros to the end
                rest = rest.lstrip(b"\0")
                if not rest:
                    return
                self._inflate = zlib.decompressobj(GZIP)
            try:
                piece = self._inflate.decompress(rest, CHUNK)
            except zlib.error as error:
                raise _wrong(f"the gzip data is damaged: {error}") from None
            rest = self._inflate.unconsumed_tail or self._inflate.unused_data
            self._count(piece)
            if self._expanded > max(CHUNK, self._ratio_max * self._received):
                raise TooLarge(f"Attached records may not expand to more than {self._ratio_max:g} times.")

    def _count(self, piece: bytes) -> None:
        self._expanded += len(piece)
        if self._expanded > self._expanded_max:
            raise TooLarge(f"Attached records may have {self._expanded_max} bytes expanded.")
        self._take(piece)

    def _take(self, piece: bytes | None) -> None:
        try:
            came = self._reader.close() if piece is None else self._reader.feed(piece)
            lines = [line for line, _ in came]
        except (Malformed, Truncated) as error:
            raise _wrong(str(error)) from None
        self.records += len(lines)
        text = b"".join(lines)
        self._digest.update(text)
        self._out += self._squeeze.compress(text)

    def _ready(self, least: int) -> Sequence[bytes]:
        chunks = []
        while len(self._out) >= least:
            chunks.append(bytes(self._out[:CHUNK]))
            del self._out[:CHUNK]
        self._stored += sum(map(len, chunks))
        if self._stored > self._compressed_max:
            raise TooLarge(f"Attached records may have {self._compressed_max} bytes compressed.")
        return chunks


def _wrong(problem: str) -> Invalid:
    return Invalid("The attached records cannot be used.", [("/records", problem)])


async def _part(reader: MultipartReader, name: str) -> BodyPartReader:
    """The next part, which must have this name."""
    part = await _framed(reader.next)
    if part is None:
        raise HttpProblem(400, f"The part {name} is missing: job comes first, then records.")
    if not isinstance(part, BodyPartReader) or _name(part) != name:
        raise HttpProblem(400, f"Here the part {name} is expected: job comes first, then records.")
    encoding = part.headers.get("Content-Transfer-Encoding", "").strip().lower()
    compression = part.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in PLAIN_ENCODINGS or compression not in {"", "identity", "gzip"}:
        raise HttpProblem(415, f"The part {name} is encoded in a way that is not read here.")
    return part


def _name(part: BodyPartReader) -> str | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # aiohttp warns of headers that are none
        return part.name


async def _whole(part: BodyPartReader, limit: int) -> bytes:
    body = bytearray()
    while piece := await _framed(lambda: part.read_chunk(READ)):
        body += piece
        if len(body) > limit:
            raise TooLarge(f"The part job may have {limit} bytes at most.")
    return bytes(body)


async def _framed(read: Callable[[], Awaitable[T]]) -> T:
    """One reading of the multipart body; raises `HttpProblem` for what is none, or does not come."""
    try:
        async with asyncio.timeout(PIECE_SECONDS):
            return await read()
    except TimeoutError:
        raise HttpProblem(408, "The body did not come in time.", headers={"Connection": "close"}) from None
    except (ClientError, HttpProcessingError, ConnectionError) as error:
        raise HttpProblem(400, "The body broke off.", headers={"Connection": "close"}) from error
    except (ValueError, AssertionError, RuntimeError, LookupError) as error:
        raise HttpProblem(
            400, "The body is not multipart/form-data that can be read.", headers={"Connection": "close"}
        ) from error
