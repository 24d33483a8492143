"""The bodies that are written: bytes or an iterator, in one form, and what stands before them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

from aioanalysis.interfaces import Head


async def pieces(body: bytes | AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The pieces of `body`; a generator is closed with this one, wherever the writing ended."""
    if isinstance(body, bytes):
        yield body
        return
    try:
        async for piece in body:
            yield piece
    finally:
        if isinstance(body, AsyncGenerator):
            await body.aclose()


def made(head: Head | None) -> bytes:
    """The bytes of `head` now that the body has ended; raises `ValueError` if there are more or fewer."""
    if head is None:
        return b""
    data = head.make()
    if len(data) != head.size:
        raise ValueError(f"the head of a body has {len(data)} bytes, not {head.size}")
    return data
