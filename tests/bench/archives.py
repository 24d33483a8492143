"""P7, P8: packages and result zips made on their way into storage, held to compression and upload alone."""

from __future__ import annotations

import asyncio
import json
import os
import random
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryFile

from azure.storage.blob.aio import BlobServiceClient
from isal import isal_zlib

from aioanalysis.aio import in_thread
from aioanalysis.domain.exchange import Container
from aioanalysis.domain.job import Source
from aioanalysis.interfaces import ExchangeStorage
from aioanalysis.recordstore.directory import DirectoryRecordStore
from aioanalysis.scheduler.spooling import Taken, Tar, take_records
from aioanalysis.storage.azure import connect
from aioanalysis.worker.archive import Archive
from tests.bench.measuring import GIB, MIB, Bench, Finding, Spent, alternated, watched_memory


async def packaging(bench: Bench) -> AsyncIterator[Finding]:
    """Record lines to a package in the queue, as the scheduler makes it."""
    size, folder, name = bench.pick(64, 1024) * MIB, bench.new_folder("records"), bench.fresh("packaging")
    size = await in_thread(write_records, folder / "DS.jsonl", size)
    records = DirectoryRecordStore(folder)
    async with storage_with_client(bench, name) as (storage, client):

        async def package() -> None:
            with TemporaryFile(dir=folder) as spool:
                taken = Taken(spool)
                tar = Tar("noop.aaaaaaaa", {}, taken, datetime.now(UTC))
                async with (
                    records.open(Source(kind="recordset", value="DS"), "") as stream,
                    asyncio.TaskGroup() as group,
                ):
                    group.create_task(take_records(stream, None, taken))
                    await storage.write(Container.QUEUE, "noop.aaaaaaaa.tar", tar.body(), head=tar.head)

        async def upload() -> None:
            with (folder / "DS.jsonl").open("rb") as file:
                blob = client.get_blob_client(f"{name}-queue", "uploaded.tar")
                await blob.upload_blob(file, overwrite=True, length=size)

        async with watched_memory(os.getpid()) as growth:
            await package()
            grown = growth()
        spent, spent_plain = Spent({"": os.getpid()}), Spent({"": os.getpid()})
        found = await alternated(
            bench.pick(2, 3), ours=spent.by_work(package), limit=spent_plain.by_work(upload)
        )
    yield Finding(
        goal="P7",
        what=f"packaging {size // MIB} MiB of records, to the SDK's upload of the file",
        unit="MiB/s",
        ours=rates(size, found["ours"]),
        limit=rates(size, found["limit"]),
        least=0.8,
    )
    yield Finding(
        goal="P7",
        what="CPU of the process for a GiB, to that of the SDK's upload",
        unit="s",
        ours=[one / size * GIB for one in spent.by[""]],
        limit=[one / size * GIB for one in spent_plain.by[""]],
    )
    yield Finding(
        goal="P7", what="memory growth while packaging", unit="MiB", ours=[grown / MIB], by="value", most=64
    )


async def result_zip(bench: Bench) -> AsyncIterator[Finding]:
    """A job directory to its zip in results, as the worker makes it."""
    size, folder, name = bench.pick(64, 512) * MIB, bench.new_folder("job"), bench.fresh("zip")
    size = await in_thread(write_records, folder / "records.jsonl", size)
    deflated = bench.new_folder("deflated") / "records"
    async with storage_with_client(bench, name) as (storage, client):

        async def archive() -> None:
            made = Archive(folder, extra={}, about={}, max_bytes=2 * size)
            await storage.write(Container.RESULTS, "noop.aaaaaaaa.zip", made.chunks())

        async def deflate() -> None:
            await in_thread(_deflate, folder / "records.jsonl", deflated)

        async def upload() -> None:
            with deflated.open("rb") as file:
                blob = client.get_blob_client(f"{name}-results", "uploaded.zip")
                await blob.upload_blob(file, overwrite=True)

        await deflate()
        async with watched_memory(os.getpid()) as growth:
            await archive()
            grown = growth()
        found = await alternated(bench.pick(2, 3), ours=archive, deflate=deflate, upload=upload)
    slower = max("deflate", "upload", key=lambda which: sum(found[which]))
    yield Finding(
        goal="P8",
        what=f"result zip of {size // MIB} MiB into storage, to the slower of isal level 1 and upload",
        unit="MiB/s",
        ours=rates(size, found["ours"]),
        limit=rates(size, found[slower]),
        least=0.85,
        note=f"the slower is the {slower}",
    )
    yield Finding(goal="P8", what="memory growth while zipping", unit="MiB", ours=[grown / MIB], by="value")


@asynccontextmanager
async def storage_with_client(
    bench: Bench, name: str
) -> AsyncIterator[tuple[ExchangeStorage, BlobServiceClient]]:
    """Our storage on two fresh containers of Azurite, and the SDK's client beside it."""
    connection = bench.azurite().connection_string
    async with (
        BlobServiceClient.from_connection_string(connection) as client,
        connect(connection_string=connection, queue=f"{name}-queue", results=f"{name}-results") as storage,
    ):
        for container in ("queue", "results"):
            await client.create_container(f"{name}-{container}")
        yield storage, client


def rates(size: int, times: list[float]) -> list[float]:
    """MiB a second."""
    return [size / MIB / seconds for seconds in times]


def write_records(path: Path, size: int) -> int:
    """At least `size` bytes of records as lines; the bytes written. They recur, but not within 1 MiB."""
    source = random.Random(1)
    lines = []
    for number in range(2_000):
        sequence = "".join(source.choices("ACGT", k=650))
        record = {
            "record_id": f"R{number}",
            "processid": f"P{number}",
            "marker_code": "COI-5P",
            "nuc": sequence,
        }
        lines.append(json.dumps(record).encode() + b"\n")
    written = 0
    with path.open("wb") as file:
        for line in cycle(lines):
            if written >= size:
                return written
            written += file.write(line)
    return written


def _deflate(source: Path, target: Path) -> None:
    """Compress and check, as any zip must."""
    compressor, crc32 = isal_zlib.compressobj(level=1, wbits=-15), 0
    with source.open("rb") as file, target.open("wb") as out:
        while data := file.read(MIB):
            crc32 = zlib.crc32(data, crc32)
            out.write(compressor.compress(data))
        out.write(compressor.flush())
