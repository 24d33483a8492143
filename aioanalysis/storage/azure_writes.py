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
from typing import Any, Final, cast

from azure.storage.blob import BlobBlock
from azure.storage.blob.aio import BlobClient

from aioanalysis.errors import Contested
from aioanalysis.interfaces import Head
from aioanalysis.storage.azure_faults import faults
from aioanalysis.storage.bodies import made

BLOCK_BYTES: Final = 8 * 1024 * 1024
BLOCKS_HELD: Final = 2
ONE_PUT_BYTES: Final = 1024 * 1024  # as much as the HTTP client sends without stalling the loop
SENT_BYTES: Final = 256 * 1024  # before the loop has another turn
REQUEST_SECONDS: Final = 120.0  # the HTTP client has no limit of its own on sending a body


class Block:
    """Pieces of a body that are sent as one, anew each time that they are asked for.

    They are not copied together: that would cost the loop as much as sending them.
    """

    def __init__(self, data: bytes = b"") -> None:
        self._pieces: list[memoryview] = []
        self.size = 0
        self.add(memoryview(data))

    def add(self, piece: memoryview) -> None:
        self._pieces.append(piece)
        self.size += len(piece)

    def joined(self) -> bytes:
        return b"".join(self._pieces)

    def clear(self) -> None:
        self._pieces.clear()

    async def __aiter__(self) -> AsyncGenerator[memoryview, None]:
        for piece in self._pieces:
            for at in range(0, len(piece), SENT_BYTES):
                yield piece[at : at + SENT_BYTES]
                await asyncio.sleep(0)


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
                    self.size += block.size
                    if not self._ids:
                        if self.size <= ONE_PUT_BYTES:
                            with suppress(Contested):
                                return await self._put(made(head) + block.joined(), metadata())
                            # Azurite takes what an upload that broke off has staged for the blob itself.
                        await self._check()
                    await self._stage(block)
            if head is not None:
                await self._stage(Block(made(head)), place=0)
            await self._settle(0)
        finally:
            await self._abandon()
        return await self._commit(metadata())

    async def _put(self, data: bytes, metadata: dict[str, str]) -> dict[str, Any]:
        with faults(self._subject):
            async with asyncio.timeout(REQUEST_SECONDS):
                return await self._blob.upload_blob(data, overwrite=True, metadata=metadata, **self._terms)

    async def _stage(self, block: Block, *, place: int | None = None) -> None:
        block_id = uuid.uuid4().hex
        self._ids.insert(len(self._ids) if place is None else place, block_id)
        task = asyncio.create_task(
            self._send(block_id, block), name=f"{self._subject}, block {len(self._ids)}"
        )
        self._staging.add(task)
        await self._settle(BLOCKS_HELD - 1)  # the next one may fill while the others are on their way

    async def _send(self, block_id: str, block: Block) -> None:
        try:
            with faults(self._subject):
                async with asyncio.timeout(REQUEST_SECONDS):
                    # The SDK's types leave out what its transport takes: an asynchronous iterable.
                    await self._blob.stage_block(block_id, cast(Any, block), block.size, lease=self._lease)
        finally:
            block.clear()  # the SDK's request, a cycle, holds the block until it is collected

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


async def _blocks(body: AsyncIterator[bytes]) -> AsyncGenerator[Block, None]:
    """`body` in blocks of BLOCK_BYTES; the last may be shorter, and is empty only when all is."""
    block = Block()
    async for piece in body:
        view = memoryview(piece)
        while view:
            if block.size == BLOCK_BYTES:
                yield block
                block = Block()
            room = BLOCK_BYTES - block.size
            block.add(view[:room])
            view = view[room:]
    yield block
