"""P4, P5: downloads through the API held to a raw GET of the blob, and a report out of a huge package."""

from __future__ import annotations

import asyncio
import io
import uuid
import zipfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
from azure.storage.blob import BlobBlock, BlobSasPermissions, generate_blob_sas
from azure.storage.blob.aio import BlobClient, BlobServiceClient

from aioanalysis.api.zipread import ZipReader
from aioanalysis.domain.exchange import Container, Ending, result_name
from aioanalysis.domain.members import REPORT_MEMBER
from aioanalysis.interfaces import ExchangeStorage
from tests.bench import proxy
from tests.bench.archives import rates, storage_with_client
from tests.bench.deployments import deployed
from tests.bench.measuring import GIB, MIB, Bench, Finding, alternated, watched_memory
from tests.support.deployment import Deployment

BLOCK = 8 * MIB
AT_ONCE = 8
ZEROS = bytes(BLOCK)


async def download(bench: Bench) -> AsyncIterator[Finding]:
    size = bench.pick(64, 1024) * MIB
    with deployed(bench, "azurite") as deployment:
        api = deployment.serve()
        job, blob_name = await _held_job(deployment)
        async with _results(bench, deployment) as (client, container):
            blob = client.get_blob_client(container, blob_name)
            await put_repeated(blob, [(ZEROS, size // BLOCK)])
            await _complete(deployment, job)
            direct = _signed(bench, container, blob_name)
            ours = f"{deployment.server}/v1/jobs/{job}/result"
            headers = {"Authorization": f"Bearer {deployment.keys['ada']}"}
            async with aiohttp.ClientSession(auto_decompress=False) as session:

                async def get(url: str, wanted: Mapping[str, str] | None = None) -> None:
                    async with session.get(url, headers=wanted) as answer:
                        answer.raise_for_status()
                        received = 0
                        async for piece in answer.content.iter_any():
                            received += len(piece)
                        if received != size:
                            raise RuntimeError(f"{received} of {size} bytes came")

                await get(ours, headers)
                async with watched_memory(api.process.pid) as growth:
                    await get(ours, headers)
                    alone = growth()
                async with watched_memory(api.process.pid) as growth:
                    await asyncio.gather(*(get(ours, headers) for _ in range(AT_ONCE)))
                    together = growth()
                with proxy.running(direct) as hop:
                    await get(hop)
                    found = await alternated(
                        bench.rounds,
                        ours=lambda: get(ours, headers),
                        limit=lambda: get(direct),
                        hop=lambda: get(hop),
                    )
    for what, limit, least in (
        ("to a raw GET at Azurite", "limit", 0.95),
        ("to a GET through twenty lines of aiohttp", "hop", None),
    ):
        yield Finding(
            goal="P4",
            what=f"download of {size // MIB} MiB through the API, {what}",
            unit="MiB/s",
            ours=rates(size, found["ours"]),
            limit=rates(size, found[limit]),
            least=least,
        )
    for what, grown, streams in (("one", alone, 1), (str(AT_ONCE), together, AT_ONCE)):
        yield Finding(
            goal="P4",
            what=f"memory growth a stream, {what} at once",
            unit="MiB",
            ours=[grown / MIB / streams],
            by="value",
            most=8,
        )


async def report(bench: Bench) -> AsyncIterator[Finding]:
    small, large = 4 * MIB, 4 * GIB
    with deployed(bench, "azurite") as deployment:
        deployment.serve()
        jobs = {}
        async with _results(bench, deployment) as (client, container):
            for size in (small, large):
                job, blob_name = await _held_job(deployment)
                await put_repeated(client.get_blob_client(container, blob_name), zip_segments(size))
                await _complete(deployment, job)
                jobs[size] = f"{deployment.server}/v1/jobs/{job}/report"
        headers = {"Authorization": f"Bearer {deployment.keys['ada']}"}
        async with aiohttp.ClientSession() as session:

            async def get(size: int) -> None:
                async with session.get(jobs[size], headers=headers) as answer:
                    answer.raise_for_status()
                    await answer.read()

            await get(small)
            found = await alternated(5 * bench.rounds, ours=lambda: get(large), limit=lambda: get(small))
    yield Finding(
        goal="P5",
        what="report out of a package of 4 GiB, to one of 4 MiB",
        unit="s",
        ours=found["ours"],
        limit=found["limit"],
        most=1.5,
    )
    name = bench.fresh("report")
    async with storage_with_client(bench, name) as (storage, client):
        await put_repeated(client.get_blob_client(f"{name}-results", "noop.zip"), zip_segments(large))
        counted = CountedReads(storage)
        package = await storage.stat(Container.RESULTS, "noop.zip")
        assert package is not None
        reader = ZipReader(counted, package)  # type: ignore[arg-type]
        member = await reader.find(REPORT_MEMBER)
        assert member is not None
        async with reader.content(member) as pieces:
            async for _ in pieces:
                pass
    yield Finding(
        goal="P5",
        what="bytes read for it",
        unit="MiB",
        ours=[counted.bytes / MIB],
        by="value",
        most=2,
        note=f"{counted.reads} reads",
    )


class CountedReads:
    """A storage that counts what is read of it."""

    def __init__(self, storage: ExchangeStorage) -> None:
        self._storage = storage
        self.bytes = self.reads = 0

    @asynccontextmanager
    async def open(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        self.reads += 1
        async with self._storage.open(*args, **options) as stream:
            chunks = stream.chunks

            async def counted() -> AsyncIterator[bytes]:
                async for piece in chunks():
                    self.bytes += len(piece)
                    yield piece

            stream.chunks = counted  # type: ignore[method-assign]
            yield stream


class _Segments(io.RawIOBase):
    """What is written, a run of the same block of zeros kept as one with its count."""

    def __init__(self) -> None:
        self.found: list[tuple[bytes, int]] = []
        self._length = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        piece = ZEROS if len(data) == BLOCK else bytes(data)
        if piece is ZEROS and self.found and self.found[-1][0] is ZEROS:
            self.found[-1] = (ZEROS, self.found[-1][1] + 1)
        elif piece is not ZEROS and self.found and self.found[-1][0] is not ZEROS:
            self.found[-1] = (self.found[-1][0] + piece, 1)
        else:
            self.found.append((piece, 1))
        self._length += len(piece)
        return len(piece)


def zip_segments(size: int) -> list[tuple[bytes, int]]:
    """A package of about `size` bytes, mostly zeros, with a report; as blocks and how often each recurs."""
    out = _Segments()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as package:
        with package.open("alignment.bin", "w", force_zip64=True) as member:
            left = size
            while left > 0:
                member.write(ZEROS[:left])
                left -= BLOCK
        package.writestr("job.log", "done\n")
        package.writestr(REPORT_MEMBER, "<p>a report</p>\n" * 20_000, zipfile.ZIP_DEFLATED)
    return out.found


async def put_repeated(blob: BlobClient, segments: list[tuple[bytes, int]]) -> None:
    """Make a blob of blocks, each sent once however often it recurs."""
    blocks = []
    for data, count in segments:
        block_id = uuid.uuid4().hex
        await blob.stage_block(block_id, data)
        blocks += [BlobBlock(block_id)] * count
    await blob.commit_block_list(blocks)


async def _held_job(deployment: Deployment) -> tuple[str, str]:
    """A job that waits for nobody, and the name that its result will have."""
    async with deployment.client() as client:
        job = await client.submit("noop", recordset="DS", hold=True)
    return job["id"], result_name(f"noop.{job['id']}", Ending.COMPLETE)


async def _complete(deployment: Deployment, job: str) -> None:
    """Say by the manual override that it is complete."""
    url = f"{deployment.server}/v1/jobs/{job}/state"
    headers = {"Authorization": f"Bearer {deployment.keys['system']}"}
    async with (
        aiohttp.ClientSession() as session,
        session.put(url, json={"state": "complete"}, headers=headers) as answer,
    ):
        answer.raise_for_status()


@asynccontextmanager
async def _results(bench: Bench, deployment: Deployment) -> AsyncIterator[tuple[BlobServiceClient, str]]:
    async with BlobServiceClient.from_connection_string(bench.azurite().connection_string) as client:
        yield client, deployment.environment["AIOANALYSIS_RESULTS_CONTAINER"]


def _signed(bench: Bench, container: str, name: str) -> str:
    azurite = bench.azurite()
    sas = generate_blob_sas(
        azurite.account,
        container,
        name,
        account_key=azurite.key,
        permission=BlobSasPermissions(read=True),
        expiry=datetime.now(UTC) + timedelta(hours=1),
    )
    return f"{azurite.endpoint}/{container}/{name}?{sas}"
