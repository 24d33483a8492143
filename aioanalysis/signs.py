"""Reads the workers' signs of life out of storage, for all who look at them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from aioanalysis import logs
from aioanalysis.domain.exchange import Container
from aioanalysis.domain.presence import SIGN_MAX_BYTES, WorkerSign, parse_sign
from aioanalysis.errors import Contested, Damaged, Missing
from aioanalysis.interfaces import BlobInfo, PackageStorage

READS: Final = 8
log = logs.get()


async def read_sign(storage: PackageStorage, name: str) -> WorkerSign:
    """The sign of life in the blob `name`; raises `Damaged`, `Missing`, `Contested`, `Unavailable`."""
    async with storage.open(Container.RESULTS, name, end=SIGN_MAX_BYTES) as stream:
        return parse_sign(b"".join([piece async for piece in stream.chunks()]))


async def read_signs(storage: PackageStorage, blobs: Sequence[BlobInfo]) -> list[WorkerSign | None]:
    """Of each blob, side by side; None for what cannot be read. Raises `Unavailable`."""
    places = asyncio.Semaphore(READS)

    async def read(blob: BlobInfo) -> WorkerSign | None:
        async with places:
            try:
                return await read_sign(storage, blob.name)
            except (Damaged, Missing, Contested) as error:
                log.warning("worker_sign_unreadable", name=blob.name, error=str(error))
                return None

    return await asyncio.gather(*(read(blob) for blob in blobs))
