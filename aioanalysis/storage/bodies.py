"""The bodies that are written: bytes or an iterator, in one form."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator


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
