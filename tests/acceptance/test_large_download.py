"""A large result package: served flat, resumed by curl to the byte, its report read from a small part of it.

LARGE_PACKAGE_MIB=4096 is the whole show (some 9 GiB of disk for a while), 96 a short one.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import shutil
import time
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from aioanalysis.aio import in_thread
from aioanalysis.domain.exchange import Container, Ending, RunMark, result_name
from aioanalysis.domain.job import Job
from aioanalysis.domain.states import State
from aioanalysis.interfaces import BlobStream, ExchangeStorage
from aioanalysis.jobstore.parts import open_job_store
from aioanalysis.storage.directory import DirectoryStorage
from tests.support.apiserver import open_api
from tests.support.deployment import Deployment
from tests.support.jobs import make_job
from tests.support.parts import require
from tests.support.servers import Azurite
from tests.support.storages import MIB, AzureBackend, block
from tests.support.waiting import eventually

MEBIBYTES = int(os.environ.get("LARGE_PACKAGE_MIB", "96"))
REPORT = b"<html>" + random.Random(1).randbytes(400_000).hex().encode() + b"</html>"
GROWTH = 64 * MIB
READ_MOST = 2 * MIB


class Counted:
    """A storage that counts the bytes that are read from it."""

    def __init__(self, storage: ExchangeStorage) -> None:
        self._storage = storage
        self.bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    @asynccontextmanager
    async def open(self, *place: Any, **part: Any) -> AsyncIterator[BlobStream]:
        async with self._storage.open(*place, **part) as stream:
            yield CountedStream(stream, self)


class CountedStream:
    def __init__(self, stream: BlobStream, counted: Counted) -> None:
        self.info = stream.info
        self._stream = stream
        self._counted = counted

    async def chunks(self) -> AsyncIterator[bytes]:
        async for piece in self._stream.chunks():
            self._counted.bytes += len(piece)
            yield piece


class Place:
    """Where the package lies, and the settings that lead a process there."""

    def __init__(self, storage: ExchangeStorage, environment: dict[str, str]) -> None:
        self.storage = storage
        self.environment = environment


@pytest.fixture(params=["directory", "azure"])
async def place(request: pytest.FixtureRequest, tmp_path: Path, unique: str) -> AsyncIterator[Place]:
    if request.param == "directory":
        directory = DirectoryStorage(tmp_path / "storage")
        await directory.prepare()
        yield Place(directory, {"AIOANALYSIS_STORAGE_DIRECTORY": str(tmp_path / "storage")})
        shutil.rmtree(tmp_path / "storage")
        return
    azurite: Azurite = request.getfixturevalue("azurite")
    backend = AzureBackend(azurite, unique)
    await backend.create()
    environment = {
        "AIOANALYSIS_AZURE_CONNECTION_STRING": azurite.connection_string,
        "AIOANALYSIS_QUEUE_CONTAINER": backend.containers["queue"],
        "AIOANALYSIS_RESULTS_CONTAINER": backend.containers["results"],
    }
    async with backend.connect() as storage:
        yield Place(storage, environment)
        async for name in storage.names(Container.RESULTS):
            await storage.delete(Container.RESULTS, name)


def make_package(file: Path) -> str:
    """Stored members of bytes that do not repeat, and a report; its SHA-256."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as package:
        for member in range(2):
            with package.open(f"data/{member}.bin", "w", force_zip64=True) as out:
                for number in range(MEBIBYTES // 2):
                    out.write(block(member * MEBIBYTES + number))
        package.writestr("analysis_report.html", REPORT, zipfile.ZIP_DEFLATED)
    return sha256_of(file)


def sha256_of(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


async def pieces(file: Path) -> AsyncIterator[bytes]:
    with file.open("rb") as stream:
        while piece := await in_thread(stream.read, 4 * MIB):
            yield piece


async def put(place: Place, job: Job, folder: Path) -> tuple[int, str]:
    """Make the job's package and put it into storage; its size and SHA-256."""
    file = folder / "package.zip"
    digest = await in_thread(make_package, file)
    mark = RunMark(uid=job.uid, attempt=1, nonce="n", sha256=digest)
    await place.storage.write(
        Container.RESULTS, result_name(job.name, Ending.COMPLETE), pieces(file), metadata=mark.to_metadata()
    )
    size = file.stat().st_size
    file.unlink()
    return size, digest


async def test_a_large_package_is_served_flat_resumed_by_curl_and_shows_its_report_at_once(
    place: Place, redis_url: str, unique: str, tmp_path: Path
) -> None:
    require("curl")
    job = make_job(title="noop", submitter="ada", state=State.COMPLETE)
    size, digest = await put(place, job, tmp_path)
    deployment = Deployment(
        folder=tmp_path,
        environment={
            "AIOANALYSIS_REDIS_URL": redis_url,
            "AIOANALYSIS_REDIS_PREFIX": f"{unique}:",
            **place.environment,
        },
    )
    try:
        process = await in_thread(deployment.serve)
        secret = deployment.environment["AIOANALYSIS_JOB_KEY_SECRET"]
        async with open_job_store(redis_url, secret=secret, prefix=f"{unique}:") as parts:
            await parts.store.create(job, "key")
        server = psutil.Process(process.process.pid)
        result = f"{deployment.server}/v1/jobs/{job.id}/result"
        key = f"X-API-Key: {deployment.keys['ada']}"
        assert await curl("-H", key, "-r", "0-99", "-o", tmp_path / "warm", result) == 0
        before = server.memory_info().rss
        most = await downloaded(server, tmp_path / "result.zip", size, "-H", key, result)
        print(f"{size:,} bytes; memory grew by {(most - before) / MIB:.1f} MiB")
        assert most - before < GROWTH
        assert await in_thread(sha256_of, tmp_path / "result.zip") == digest
    finally:
        (tmp_path / "result.zip").unlink(missing_ok=True)
        deployment.close()
    await show_report(place.storage, redis_url, f"{unique}r", tmp_path, job)


async def downloaded(server: psutil.Process, target: Path, size: int, *options: str) -> int:
    """Download by curl, cut off in the midst and taken up again; the most memory that `server` had."""
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, server.memory_info().rss)
            await asyncio.sleep(0.02)

    watching = asyncio.create_task(watch(), name="watch memory")
    try:
        slowly = f"{max(size // 3, MIB)}"
        first = await asyncio.create_subprocess_exec(
            *("curl", "-s", "--limit-rate", slowly, "-o", str(target), *options)
        )
        await eventually(lambda: length(target) > size // 4, within=60)
        first.kill()
        await first.wait()
        assert size // 4 < length(target) < size
        assert await curl("-C", "-", "-o", target, *options) == 0
    finally:
        watching.cancel()
        await asyncio.wait([watching])
    return most


def length(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


async def curl(*options: str | Path) -> int:
    process = await asyncio.create_subprocess_exec("curl", "-s", "-f", *map(str, options))
    return await process.wait()


async def show_report(storage: ExchangeStorage, redis_url: str, prefix: str, folder: Path, job: Job) -> None:
    counted: Any = Counted(storage)
    async with open_api(counted, redis_url=redis_url, prefix=prefix, folder=folder) as api:
        await api.parts.store.create(job, "key")
        began = time.perf_counter()
        reply = await api.get(f"/v1/jobs/{job.id}/report", by="root")
        seconds = time.perf_counter() - began
        assert reply.status == 200
        assert reply.body == REPORT
        print(f"report of {len(REPORT):,} bytes in {seconds:.3f} s, {counted.bytes:,} bytes read")
        assert counted.bytes < READ_MOST
        assert seconds < 1
