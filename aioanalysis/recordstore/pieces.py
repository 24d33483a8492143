"""Bytes on their way, a piece at a time, and gzip taken off them with bounded output a step."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final, Protocol

from aioanalysis.aio import in_thread
from aioanalysis.errors import AnalysisError

MAGIC: Final = b"\x1f\x8b"
PIECE_BYTES: Final = 1024 * 1024


class BadGzip(AnalysisError):
    """The data is not gzip, is damaged, or ends early. Stays inside the record stores."""


class Pieces(Protocol):
    """A stream of bytes."""

    async def read(self) -> bytes:
        """The next piece; empty at the end, and for ever after."""
        ...


class Unzipped:
    """`inner` decompressed if it begins as gzip does, else as it is (`required`: then it is `BadGzip`)."""

    def __init__(self, inner: Pieces, *, required: bool = False) -> None:
        self._inner = inner
        self._required = required
        self._start: bytes | None = b""
        self._gunzip: Gunzip | None = None
        self._steps: Iterator[bytes] = iter(())

    async def read(self) -> bytes:
        """Raises `BadGzip`."""
        if self._start is not None:
            start = await self._first(self._start)
            self._start = None
            if self._gunzip is None:
                return start
            self._steps = self._gunzip.feed(start)
        if self._gunzip is None:
            return await self._inner.read()
        while not (piece := await in_thread(next, self._steps, b"")):
            data = await self._inner.read()
            if not data:
                self._gunzip.close()
                return b""
            self._steps = self._gunzip.feed(data)
        return piece

    async def _first(self, start: bytes) -> bytes:
        while len(start) < len(MAGIC) and (data := await self._inner.read()):
            start += data
        if start.startswith(MAGIC):
            self._gunzip = Gunzip()
        elif self._required:
            raise BadGzip("not gzip data" if start else "gzip data that ends early")
        return start


class Gunzip:
    """Decompresses one stream of gzip members; zero bytes after the last one are padding, as for gzip(1)."""

    def __init__(self, piece_bytes: int = PIECE_BYTES) -> None:
        self._piece_bytes = piece_bytes
        self._member = _member()
        self._within = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What `data` decompresses to, in pieces of at most `piece_bytes`; raises `BadGzip`."""
        while data:
            if not self._within:
                data = data.lstrip(b"\0")
                self._within = bool(data)
                continue
            try:
                piece = self._member.decompress(data, self._piece_bytes)
            except zlib.error as error:
                raise BadGzip(f"damaged gzip data ({error})") from error
            data = self._member.unconsumed_tail
            if self._member.eof:
                data = self._member.unused_data
                self._member, self._within = _member(), False
            if piece:
                yield piece

    def close(self) -> None:
        """Say that all data has come; raises `BadGzip` if a member is incomplete."""
        if self._within:
            raise BadGzip("gzip data that ends early")


def _member() -> zlib._Decompress:
    return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
