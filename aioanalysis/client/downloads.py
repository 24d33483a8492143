"""Downloads that go on where they were cut, also by a later process, and appear under their name when whole.

What has come of `NAME` is kept beside it as `NAME.<ETag>.part`: another version of the file begins anew.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiofiles
import aiohttp

from aioanalysis.aio import in_thread
from aioanalysis.client.transport import ApiProblem, NotReached, Query, Transport, passes
from aioanalysis.errors import Damaged

CHUNK: Final = 1024 * 1024
ETAG: Final = re.compile(r'"([A-Za-z0-9-]{1,100})"')
SHA256: Final = re.compile(r"[0-9a-f]{64}")
RANGE: Final = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+)")
NOT_SATISFIABLE: Final = 416
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0

OnProgress = Callable[[int, int | None], None]
"""Called with the bytes that are there and those that there will be, None if that is not known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Downloaded:
    """A file that has arrived whole; `verified` tells that it is what its checksum says.

    `resumed_at` is how much of it, in bytes, an earlier download had left.
    """

    path: Path
    size: int
    sha256: str
    verified: bool
    resumed_at: int


class Part:
    """What has come of a file so far, `found` bytes of it by an earlier download. Its methods block."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.path, self.etag, self.size = target, "", 0
        self.found = 0
        self._digest, self._crc = hashlib.sha256(), 0
        before, after = f"{target.name}.", ".part"
        for path in target.parent.iterdir():
            etag = path.name.removeprefix(before).removesuffix(after)
            if path.name == f"{before}{etag}{after}" and ETAG.fullmatch(f'"{etag}"'):
                self.path, self.etag = path, etag
        if self.etag:
            with self.path.open("rb") as file:
                while piece := file.read(CHUNK):
                    self.add(piece)
        self.found = self.size

    def begin(self, etag: str) -> None:
        """Nothing of this version is there yet."""
        self.discard()
        self.path = self.target.with_name(f"{self.target.name}.{etag or 'unversioned'}.part")
        self.etag = etag
        self.path.unlink(missing_ok=True)

    def add(self, piece: bytes) -> None:
        self._digest.update(piece)
        self._crc = zlib.crc32(piece, self._crc)
        self.size += len(piece)

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    @property
    def crc32(self) -> str:
        return f"{self._crc:08x}"

    def discard(self) -> None:
        if self.path != self.target:
            self.path.unlink(missing_ok=True)
        self.path, self.etag, self.size, self.found = self.target, "", 0, 0
        self._digest, self._crc = hashlib.sha256(), 0


async def download(
    transport: Transport,
    path: str,
    target: Path,
    *,
    query: Query = (),
    sha256: str | None = None,
    crc32: str | None = None,
    on_progress: OnProgress | None = None,
) -> Downloaded:
    """Get `path` into `target`. Raises `ApiProblem`, `NotReached`, `Damaged` (a wrong checksum), `OSError`.

    Cut connections are taken up again until nothing more has come for the transport's patience. Verified is
    what has the checksum `sha256` or `crc32`, or an ETag that is one; else a zip whose members have theirs.
    """
    part = await in_thread(Part, target)
    loop = asyncio.get_running_loop()
    pause, came, since = FIRST_PAUSE, part.size, loop.time()
    while True:
        try:
            await _receive(transport, path, query, part, on_progress)
            break
        except (ApiProblem, NotReached) as error:
            if part.size != came:
                pause, came, since = FIRST_PAUSE, part.size, loop.time()
            wait = max(pause, getattr(error, "retry_after", None) or 0)
            if not passes(error) or loop.time() + wait > since + transport.patience:
                raise
            transport.tell(error)
            await asyncio.sleep(wait)
            pause = min(pause * 2, LONGEST_PAUSE)
    verified = await _verify(part, sha256, crc32)
    await in_thread(part.path.replace, target)
    return Downloaded(
        path=target, size=part.size, sha256=part.sha256, verified=verified, resumed_at=part.found
    )


async def _receive(
    transport: Transport, path: str, query: Query, part: Part, on_progress: OnProgress | None
) -> None:
    """One request for what is missing, written as it comes."""
    headers = {"Accept-Encoding": "identity"}
    if part.size and part.etag:
        headers |= {"Range": f"bytes={part.size}-", "If-Range": f'"{part.etag}"'}
    try:
        async with transport.opened("GET", path, query=query, headers=headers) as response:
            total = await _placed(response, part)
            async with aiofiles.open(part.path, "ab") as file:
                async for piece in response.content.iter_chunked(CHUNK):
                    await file.write(piece)
                    part.add(piece)
                    if on_progress is not None:
                        on_progress(part.size, total)
    except ApiProblem as problem:
        if problem.status != NOT_SATISFIABLE:
            raise
        whole = RANGE.fullmatch(problem.problem.get("content_range", ""))
        if whole is None or int(whole[2]) != part.size:
            await in_thread(part.discard)
            raise NotReached("the file has changed meanwhile", sent=True) from None
        return
    if total is not None and part.size != total:
        raise NotReached(f"only {part.size} of {total} bytes have come", sent=True)


async def _placed(response: aiohttp.ClientResponse, part: Part) -> int | None:
    """Make the part ready for what the answer holds; how large the file will be."""
    found = RANGE.fullmatch(response.headers.get("Content-Range", ""))
    if response.status == 206 and found is not None and found[1] == str(part.size):
        return int(found[2])
    etag = ETAG.fullmatch(response.headers.get("ETag", ""))
    await in_thread(part.begin, etag[1] if etag else "")
    return response.content_length


async def _verify(part: Part, sha256: str | None, crc32: str | None) -> bool:
    """Whether there was something to hold it against; raises `Damaged`, with nothing kept, if it differs."""
    told = sha256 or (part.etag if SHA256.fullmatch(part.etag) else None)
    damaged = part.sha256 != told if told else part.crc32 != crc32 if crc32 else None
    if damaged is None and await in_thread(zipfile.is_zipfile, part.path):
        damaged = await in_thread(_has_bad_member, part.path)
    if damaged:
        await in_thread(part.discard)
        raise Damaged("what has come is not what its checksum says and was not kept; download it again")
    return damaged is False


def _has_bad_member(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as package:
            return package.testzip() is not None
    except (OSError, zipfile.BadZipFile):
        return True
