"""The packages of a job's frames as one zip, made while it is sent: only what a range holds is read."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from hashlib import sha256
from typing import Final

from aiohttp import web

from aioanalysis.api.context import CONTEXT
from aioanalysis.api.serving import Content, etag_of, send_ranged
from aioanalysis.api.zipbundle import Bundle, Entry
from aioanalysis.domain.exchange import (
    SIDECAR_MAX_BYTES,
    Container,
    Ending,
    RunMark,
    parse_sidecar,
    result_name,
    sidecar_name,
)
from aioanalysis.domain.job import Job
from aioanalysis.domain.states import FINISHED, State
from aioanalysis.errors import Damaged, Missing, NotFound, Refused, Unavailable
from aioanalysis.interfaces import BlobInfo, PackageStorage

PHASES: Final = {Ending.COMPLETE: State.COMPLETE, Ending.FAILED: State.FAILED}
CRC: Final = re.compile(r"[0-9a-f]{8}")
SIDECARS_AT_ONCE: Final = 16


async def send_frames(request: web.Request, job: Job, ending: Ending) -> web.StreamResponse:
    """The packages of all frames that ended so. Raises `Refused` until the job has finished, `NotFound`.

    The ETag is strong: the same members make the same bytes, whoever asks and whenever.
    """
    if job.state not in FINISHED:
        raise Refused(f"A job that is {job.state} has no result yet.", state=job.state.value)
    storage = request.app[CONTEXT].storage
    packages = await _packages(storage, job, ending)
    crcs = await _crcs(storage, packages, ending)
    entries = [
        Entry(name=blob.name, size=blob.size, crc=crc) for blob, crc in zip(packages, crcs, strict=True)
    ]
    bundle = Bundle(entries, job.submitted_at)

    def content(start: int, end: int) -> Content:
        return _content(storage, packages, bundle, start, end)

    return await send_ranged(
        request,
        content,
        name=result_name(job.name, ending),
        size=bundle.size,
        etag=_etag(packages, entries, job),
    )


async def _packages(storage: PackageStorage, job: Job, ending: Ending) -> Sequence[BlobInfo]:
    """In the order of the frames. One that failed before it ran has left none; a complete one must have."""
    wanted = {
        result_name(job.stem(frame), ending): frame.number
        for frame in job.frames
        if frame.phase is PHASES[ending]
    }
    if not wanted:
        raise Refused(f"No frame of the job is {PHASES[ending]}.", state=job.state.value)
    found: dict[str, BlobInfo] = {}
    async for blob in storage.list(Container.RESULTS, f"{job.name}-", root_only=True):
        if blob.name in wanted and RunMark.from_metadata(blob.metadata).uid in {None, job.uid}:
            found[blob.name] = blob
    missing = [number for name, number in wanted.items() if name not in found]
    if missing and (ending is Ending.COMPLETE or not found):
        raise NotFound(f"The package of frame {missing[0]} is not in storage.")
    return [found[name] for name in wanted if name in found]


async def _crcs(storage: PackageStorage, packages: Sequence[BlobInfo], ending: Ending) -> Sequence[int]:
    """CRC-32 of each, as its writer has told it: in its metadata, or else in its sidecar."""
    room = asyncio.Semaphore(SIDECARS_AT_ONCE)

    async def one(blob: BlobInfo) -> int:
        told = RunMark.from_metadata(blob.metadata).crc32
        if told is None:
            async with room:
                told = await _crc_in_sidecar(storage, blob, ending)
        if not CRC.fullmatch(told):
            raise Damaged(f"the CRC-32 of {blob.name} cannot be read")
        return int(told, 16)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(blob), name=f"crc of {blob.name}") for blob in packages]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


async def _crc_in_sidecar(storage: PackageStorage, blob: BlobInfo, ending: Ending) -> str:
    name = sidecar_name(blob.name.removesuffix(ending.value), ending)
    data = bytearray()
    try:
        async with storage.open(Container.RESULTS, name, end=SIDECAR_MAX_BYTES) as stream:
            async for chunk in stream.chunks():
                data += chunk
        told = parse_sidecar(bytes(data)).body.get("result")
    except (Missing, Damaged):
        told = None
    if isinstance(told, Mapping) and told.get("size") == blob.size and isinstance(told.get("crc32"), str):
        return str(told["crc32"])
    raise Refused(f"{blob.name} has no checksum of its worker: it can only be had alone, with ?frame=")


@asynccontextmanager
async def _content(
    storage: PackageStorage, packages: Sequence[BlobInfo], bundle: Bundle, start: int, end: int
) -> AsyncIterator[AsyncIterator[bytes]]:
    async def pieces() -> AsyncGenerator[bytes, None]:
        for piece in bundle.pieces(start, end):
            if piece.entry is None:
                yield piece.data
                continue
            blob, count = packages[piece.entry], 0
            async with storage.open(
                Container.RESULTS, blob.name, start=piece.start, end=piece.end, etag=blob.etag
            ) as stream:
                async for chunk in stream.chunks():
                    count += len(chunk)
                    yield chunk
            if count != piece.end - piece.start:
                raise Unavailable(f"{blob.name} came incomplete")

    async with aclosing(pieces()) as source:
        yield source


def _etag(packages: Sequence[BlobInfo], entries: Sequence[Entry], job: Job) -> str:
    digest = sha256(job.submitted_at.isoformat().encode())
    for blob, entry in zip(packages, entries, strict=True):
        digest.update(f"\n{entry.name} {entry.size} {entry.crc:08x} {etag_of(blob)}".encode())
    return f'"frames-{digest.hexdigest()}"'
