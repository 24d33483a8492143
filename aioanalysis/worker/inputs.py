"""Gets a package onto the host: downloaded and checked, then unpacked, then off again."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from aioanalysis import logs
from aioanalysis.aio import finish, in_thread
from aioanalysis.domain.exchange import Container
from aioanalysis.domain.members import RECORDS_MEMBER
from aioanalysis.domain.outcomes import Reason
from aioanalysis.errors import JobFailure, Unavailable
from aioanalysis.interfaces import PackageStorage
from aioanalysis.worker.claims import Claim
from aioanalysis.worker.commit import while_held
from aioanalysis.worker.jobtree import opened
from aioanalysis.worker.tarball import unpack
from aioanalysis.worker.workspace import RunFolder

WRITE_BYTES: Final = 1 << 20
TAR_OVERHEAD_BYTES: Final = 64 << 20  # headers and padding of as many members as are allowed
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

log = logs.get()


@dataclass(frozen=True, kw_only=True, slots=True)
class Package:
    """A package as it was downloaded."""

    sha256: str
    size: int
    records: int | None


async def download(storage: PackageStorage, claim: Claim, folder: RunFolder, *, max_bytes: int) -> Package:
    """Bring the claimed package onto the disk; its SHA-256 is the one that the queue promised.

    Raises `JobFailure` (`input`, or `disk` when the host is full), `Missing` when the claim has gone, and
    `Unavailable` only when the claim is lost.
    """
    wanted = claim.package.sha256
    for last in (False, True):
        with _room():
            async for attempt in while_held(claim):
                with attempt:
                    sha256, size = await _download(storage, claim, folder.package, max_bytes)
        if wanted is None or sha256 == wanted:
            return Package(sha256=sha256, size=size, records=claim.package.records)
        log.warning("package_damaged", sha256=sha256, wanted=wanted, again=not last)
    raise JobFailure(Reason.INPUT, f"The package is damaged: its SHA-256 is {sha256}, not {wanted}.")


async def _download(storage: PackageStorage, claim: Claim, path: Path, max_bytes: int) -> tuple[str, int]:
    sha256, size = hashlib.sha256(), 0

    def put(file: BinaryIO, data: bytes) -> None:
        sha256.update(data)
        file.write(data)

    with path.open("wb") as file:
        async with storage.open(Container.RESULTS, claim.name) as stream:
            held = bytearray()
            async for chunk in stream.chunks():
                held += chunk
                size += len(chunk)
                if size > max_bytes + TAR_OVERHEAD_BYTES:
                    raise JobFailure(Reason.INPUT, f"The package is larger than {max_bytes} bytes.")
                if len(held) >= WRITE_BYTES:
                    await finish(in_thread(put, file, bytes(held)), name="write package")
                    held.clear()
        put(file, bytes(held))
    if size != stream.info.size:
        raise Unavailable(f"{size} of {stream.info.size} bytes of the package came")
    return sha256.hexdigest(), size


async def unpack_package(folder: RunFolder, stem: str, package: Package, *, max_bytes: int) -> Package:
    """Unpack into the job directory and delete the tar; the records counted if nobody had.

    Raises `JobFailure` (`input`, `disk`).
    """
    stopped = threading.Event()

    def work() -> int | None:
        with _room():
            unpack(folder.package, stem, folder.job, max_bytes=max_bytes, stopped=stopped)
            folder.package.unlink()
        return package.records if package.records is not None else _count(folder.job)

    unpacking = asyncio.create_task(in_thread(work), name=f"unpack {stem}")
    try:
        records = await asyncio.shield(unpacking)
    finally:
        stopped.set()
        await asyncio.wait({unpacking})
        if not unpacking.cancelled():
            unpacking.exception()  # seen, so that asyncio does not warn
    return Package(sha256=package.sha256, size=package.size, records=records)


def _count(job_dir: Path) -> int | None:
    """Lines that hold something, of the records as they came; None when there are none."""
    count, blank = 0, True
    try:
        with opened(job_dir, (RECORDS_MEMBER,)) as handle, open(handle, "rb", closefd=False) as file:
            while data := file.read(WRITE_BYTES):
                *lines, rest = data.split(b"\n")
                for line in lines:
                    count += not (blank and not line.strip())
                    blank = True
                blank = blank and not rest.strip()
    except OSError:
        return None
    return count + (not blank)


@contextmanager
def _room() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise JobFailure(Reason.DISK, f"The worker's disk has no room for it: {error.strerror}.") from error
