"""Makes the result zip of a job directory while it is uploaded: one pass, no copy on disk."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from isal import isal_zlib

from aioanalysis.aio import in_thread
from aioanalysis.worker.jobtree import JobFile, Skipped, opened, walk
from aioanalysis.worker.zipwriter import Piece, ZipWriter, deflate

MANIFEST: Final = "manifest.json"
READ_BYTES: Final = 2 << 20  # isal takes the interpreter's lock again some six times a piece
PIECE_BYTES: Final = 1 << 18
BESIDE_BYTES: Final = 2 << 20  # files from this size are read, hashed and compressed at the same time
COMPRESSING: Final = 2
STORED: Final = frozenset(
    {".zip", ".gz", ".bz2", ".xz", ".zst", ".png", ".jpg", ".jpeg", ".parquet", ".woff2", ".npz"}
)
FILE: Final = 0o100644
PROGRAM: Final = 0o100755
EARLIEST: Final = datetime(1980, 1, 1, tzinfo=UTC).timestamp()
LATEST: Final = datetime(2037, 12, 31, tzinfo=UTC).timestamp()

Pull = Callable[[], tuple[bytes, int]]
"""The next bytes and the CRC-32 of all up to there; empty at the end, once."""
Pack = Callable[[bytes], bytes]


class ArchiveStopped(Exception):
    """The zip's reader has gone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Digest:
    """The whole zip: its size in bytes, SHA-256 and CRC-32 in hexadecimal."""

    size: int
    sha256: str
    crc32: str


class Archive:
    """The zip of `job_dir`; `extra` members (name -> content) stand before what the job calls the same.

    `described` members are made last, of what is known of all others by then (name, size, SHA-256). The last
    one, `manifest.json`, gives size and SHA-256 of every other and what was left out and why; `about` is put
    into it. Read it once, by `chunks`; then `digest` is known. The job directory must not change meanwhile:
    no container may be left.
    """

    def __init__(
        self,
        job_dir: Path,
        *,
        extra: Mapping[str, bytes],
        about: Mapping[str, Any],
        max_bytes: int,
        described: Mapping[str, Callable[[Sequence[Mapping[str, Any]]], bytes]] | None = None,
    ) -> None:
        self._root = job_dir
        self._extra = dict(extra)
        self._described = dict(described or {})
        self._reserved = {MANIFEST, *self._extra, *self._described}
        self._about = dict(about)
        self._max_bytes = max_bytes
        self._members: list[dict[str, Any]] = []
        self._skipped = Skipped()
        self._stopped = threading.Event()
        self._threads = ThreadPoolExecutor(max_workers=1 + COMPRESSING, thread_name_prefix="aioanalysis-zip")
        self.digest: Digest | None = None

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The zip in pieces of 256 KiB and more, the next one made while one is being used."""
        pieces = self._pieces()
        coming = asyncio.ensure_future(in_thread(next, pieces, None))
        try:
            while (piece := await asyncio.shield(coming)) is not None:
                coming = asyncio.ensure_future(in_thread(next, pieces, None))
                yield piece
        finally:
            self._stopped.set()
            await asyncio.wait({coming})
            coming.exception()  # seen, so that asyncio does not warn
            pieces.close()
            self._threads.shutdown()

    def _pieces(self) -> Generator[bytes, None, None]:
        sha256, crc32, size = hashlib.sha256(), 0, 0
        for piece in _gathered(self._zip()):
            sha256.update(piece)
            crc32 = isal_zlib.crc32(piece, crc32)
            size += len(piece)
            yield piece
        self.digest = Digest(size=size, sha256=sha256.hexdigest(), crc32=f"{crc32:08x}")

    def _zip(self) -> Iterator[bytes]:
        writer = ZipWriter()
        for file in walk(self._root, max_bytes=self._max_bytes, skipped=self._skipped):
            yield from self._file(writer, file)
        for name, data in self._extra.items():
            yield from self._made(writer, name, data)
        for name, describe in self._described.items():
            yield from self._made(writer, name, describe(self._members))
        yield from self._made(writer, MANIFEST, self._manifest())
        yield writer.end()

    def _made(self, writer: ZipWriter, name: str, data: bytes) -> Iterator[bytes]:
        pieces = self._noted(name, iter([data]), deflate, size=len(data))
        return writer.deflated(name, datetime.now(UTC), FILE, pieces, at_most=len(data))

    def _file(self, writer: ZipWriter, file: JobFile) -> Iterator[bytes]:
        """One member, or none when the file cannot be read."""
        name = file.name
        if name in self._reserved:
            name = f"%{ord(name[0]):02X}{name[1:]}"
        at = datetime.fromtimestamp(min(max(file.modified, EARLIEST), LATEST), UTC)
        mode = PROGRAM if file.executable else FILE
        known = None
        with ExitStack() as stack:
            try:
                handle = stack.enter_context(opened(self._root, file.parts))
                if Path(name).suffix.lower() in STORED:
                    known = self._size_and_crc(handle, file.size)
            except OSError as error:
                self._skipped.add(name, f"cannot be read: {error.strerror or error}")
                return
            data = _read(handle, file.size if known is None else known[0], self._stopped)
            pack = bytes if known else deflate
            pieces = self._noted(name, data, pack, size=file.size, real=file.name)
            if known is None:
                yield from writer.deflated(name, at, mode, pieces, at_most=file.size)
            else:
                yield from writer.stored(name, at, mode, pieces, size=known[0], crc=known[1])

    def _size_and_crc(self, handle: int, size: int) -> tuple[int, int]:
        """Of a file that is stored as it is: they stand before it."""
        crc = length = 0
        for data in _read(handle, size, self._stopped):
            crc = isal_zlib.crc32(data, crc)
            length += len(data)
        os.lseek(handle, 0, os.SEEK_SET)
        return length, crc

    def _noted(
        self, name: str, data: Iterator[bytes], pack: Pack, *, size: int, real: str | None = None
    ) -> Iterator[Piece]:
        """`data` packed as they pass; their size and SHA-256 put down for the manifest."""
        sha256, crc, passed = hashlib.sha256(), 0, 0

        def pull() -> tuple[bytes, int]:
            nonlocal crc
            piece = next(data, b"")
            sha256.update(piece)
            crc = isal_zlib.crc32(piece, crc)
            return piece, crc

        for piece in self._at_once(pull, pack) if size >= BESIDE_BYTES else _in_turn(pull, pack):
            passed += piece.size
            yield piece
        entry: dict[str, Any] = {"name": name, "size": passed, "sha256": sha256.hexdigest()}
        if real is not None and real != name:
            entry["original"] = real
        self._members.append(entry)

    def _at_once(self, pull: Pull, pack: Pack) -> Iterator[Piece]:
        """What `pull` gives, in order: the next one is read and hashed while some are being packed."""
        coming = self._threads.submit(pull)
        packing: deque[tuple[Future[bytes], int, int]] = deque()
        try:
            while (came := coming.result())[0] or packing:
                if data := came[0]:
                    packing.append((self._threads.submit(pack, data), len(data), came[1]))
                    coming = self._threads.submit(pull)
                if len(packing) > COMPRESSING or not data:
                    packed, size, crc = packing.popleft()
                    yield Piece(packed.result(), size, crc)
        finally:
            wait([coming])
            wait([packed for packed, _, _ in packing])

    def _manifest(self) -> bytes:
        body = {
            "version": 1,
            **self._about,
            "members": self._members,
            "skipped": self._skipped.listed,
            "skipped_count": self._skipped.count,
        }
        return json.dumps(body, ensure_ascii=False, indent=1).encode("utf-8", errors="replace")


def _in_turn(pull: Pull, pack: Pack) -> Iterator[Piece]:
    while (came := pull())[0]:
        yield Piece(pack(came[0]), len(came[0]), came[1])


def _read(handle: int, size: int, stopped: threading.Event) -> Iterator[bytes]:
    """At most `size` bytes: what the walk has seen, even if the file has grown."""
    while size and (data := os.read(handle, min(size, READ_BYTES))):
        if stopped.is_set():
            raise ArchiveStopped
        size -= len(data)
        yield data


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in larger pieces: many small members make many small ones."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= PIECE_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)
