"""Uploads to Azure: small bodies in one request, the others as blocks that a last request makes the blob.

Blocks have random ids, so two uploads of one blob never mix; the one that commits first makes the other's
blocks invalid. What was staged and never committed is not to be seen, and Azure drops it after a week.
A head is staged last and committed first.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from io import BytesIO
from typing import Any, Final

from azure.storage.blob import BlobBlock
from azure.storage.blob.aio import BlobClient

from aioanalysis.errors import Contested
from aioanalysis.interfaces import Head
from aioanalysis.storage.azure_faults import faults
from aioanalysis.storage.bodies import made

BLOCK_BYTES: Final = 8 * 1024 * 1024
BLOCKS_HELD: Final = 2
ONE_PUT_BYTES: Final = 1024 * 1024  # as much as the HTTP client sends without stalling the loop
REQUEST_SECONDS: Final = 120.0  # the HTTP client has no limit of its own on sending a body


class Upload:
    """One write. `terms` are the SDK's arguments for conditions and lease, `check` a cheap look at them."""

    def __init__(
        self, blob: BlobClient, terms: dict[str, Any], lease: str | None, check: Callable[[], Awaitable[None]]
    ) -> None:
        self._blob = blob
        self._terms = terms
        self._lease = lease
        self._check = check
        self._subject = f"writing {blob.container_name}/{blob.blob_name}"
        self._ids: list[str] = []
        self._staging: set[asyncio.Task[None]] = set()
        self.size = 0

    async def run(
        self, body: AsyncIterator[bytes], head: Head | None, metadata: Callable[[], dict[str, str]]
    ) -> dict[str, Any]:
        """Send `body`, `head`, then what `metadata` says; return Azure's reply to what made the blob."""
        self.size = head.size if head is not None else 0
        try:
            async with aclosing(_blocks(body)) as blocks:
                async for block in blocks:
                    self.size += len(block.getbuffer())
                    if not self._ids:
                        if self.size <= ONE_PUT_BYTES:
                            with suppress(Contested):
                                return await self._put(made(head) + block.getvalue(), metadata())
                            # Azurite takes what an upload that broke off has staged for the blob itself.
                        await self._check()
                    await self._stage(block)
            if head is not None:
                await self._stage(BytesIO(made(head)), place=0)
            await self._settle(0)
        finally:
            await self._abandon()
        return await self._commit(metadata())

    async def _put(self, data: bytes, metadata: dict[str, str]) -> dict[str, Any]:
        with faults(self._subject):
            async with asyncio.timeout(REQUEST_SECONDS):
                return await self._blob.upload_blob(data, overwrite=True, metadata=metadata, **self._terms)

    async def _stage(self, block: BytesIO, *, place: int | None = None) -> None:
        block_id = uuid.uuid4().hex
        self._ids.insert(len(self._ids) if place is None else place, block_id)
        task = asyncio.create_task(
            self._send(block_id, block), name=f"{self._subject}, block {len(self._ids)}"
        )
        self._staging.add(task)
        await self._settle(BLOCKS_HELD - 1)  # the next one may fill while the others are on their way

    async def _send(self, block_id: str, block: BytesIO) -> None:
        length = len(block.getbuffer())
        try:
            with faults(self._subject):
                async with asyncio.timeout(REQUEST_SECONDS):
                    await self._blob.stage_block(block_id, block, length, lease=self._lease)
        finally:
            block.truncate(0)  # the SDK's request, a cycle, holds the block until it is collected

    async def _settle(self, most: int) -> None:
        while len(self._staging) > most:
            done, _ = await asyncio.wait(self._staging, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                self._staging.discard(task)
                task.result()

    async def _abandon(self) -> None:
        tasks, self._staging = self._staging, set()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _commit(self, metadata: dict[str, str]) -> dict[str, Any]:
        blocks = [BlobBlock(block_id) for block_id in self._ids]
        with faults(self._subject):
            return await self._blob.commit_block_list(blocks, metadata=metadata, **self._terms)


async def _blocks(body: AsyncIterator[bytes]) -> AsyncGenerator[BytesIO, None]:
    """`body` in blocks of BLOCK_BYTES; the last may be shorter, and is empty only when all is."""
    block = BytesIO()
    async for piece in body:
        view = memoryview(piece)
        while view:
            if block.tell() == BLOCK_BYTES:
                block.seek(0)
                yield block
                block = BytesIO()
            room = BLOCK_BYTES - block.tell()
            block.write(view[:room])
            view = view[room:]
    block.seek(0)
    yield block
