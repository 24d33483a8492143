"""Package storage in a local directory: the embedded default, safe among the processes of one host."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Final, ParamSpec, TypeVar

from aioanalysis.aio import finish, in_thread
from aioanalysis.domain.exchange import Container
from aioanalysis.errors import AnalysisError, Invalid, Misconfigured, Unavailable
from aioanalysis.interfaces import BlobInfo, BlobPage, BlobStream, Condition, Head
from aioanalysis.settings import PREFIX, Settings
from aioanalysis.storage.bodies import made, pieces
from aioanalysis.storage.files import Reading, Spool
from aioanalysis.storage.names import check_lease, check_metadata, check_name
from aioanalysis.storage.tree import Target, Tree

PIECE: Final = 1 << 20
BATCH: Final = 256

P = ParamSpec("P")
T = TypeVar("T")


@asynccontextmanager
async def open_storage(settings: Settings) -> AsyncIterator[DirectoryStorage]:
    """The directory that the settings name, its folders made if need be."""
    if settings.storage_directory is None:
        raise Misconfigured(f"{PREFIX}STORAGE_DIRECTORY is not set")
    storage = DirectoryStorage(
        settings.storage_directory, queue=settings.queue_container, results=settings.results_container
    )
    await storage.prepare()
    yield storage


class DirectoryStorage:
    """`ExchangeStorage` over `root/<queue>` and `root/<results>`.

    `clock` counts the seconds of leases; it must be the same for all processes of the host.
    """

    def __init__(
        self,
        root: Path,
        *,
        queue: str = "queue",
        results: str = "results",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root.absolute()
        self._trees = {
            Container.QUEUE: Tree(self._root / queue, clock=clock),
            Container.RESULTS: Tree(self._root / results, clock=clock),
        }

    async def prepare(self) -> None:
        """Make the folders; raises `Misconfigured` where that cannot be."""
        for tree in self._trees.values():
            try:
                await in_thread(tree.prepare)
            except OSError as error:
                raise Misconfigured(
                    f"{PREFIX}STORAGE_DIRECTORY: {tree.root} cannot be made ({error.strerror});"
                    " choose a folder that this user may write"
                ) from error

    async def check(self) -> str:
        for tree in self._trees.values():
            if not await in_thread(os.access, tree.root, os.R_OK | os.W_OK | os.X_OK):
                raise Misconfigured(f"{PREFIX}STORAGE_DIRECTORY: {tree.root} is not there or not writable")
        names = " and ".join(tree.root.name for tree in self._trees.values())
        return f"directory {self._root}, containers {names}"

    async def names(self, container: Container, prefix: str = "") -> AsyncIterator[str]:
        for name in await _blocking(self._trees[container].names, prefix):
            yield name

    async def list(
        self, container: Container, prefix: str = "", *, root_only: bool = False
    ) -> AsyncIterator[BlobInfo]:
        tree = self._trees[container]
        infos, left = await _blocking(tree.listing, prefix, BATCH, root_only=root_only)
        while True:
            for info in infos:
                yield info
            if not left:
                return
            infos, left = await _blocking(tree.stats, left[:BATCH]), left[BATCH:]

    async def page(
        self, container: Container, prefix: str = "", *, limit: int, place: str | None = None
    ) -> BlobPage:
        tree = self._trees[container]
        names = [name for name in await _blocking(tree.names, prefix) if place is None or name > place]
        wanted, more = names[:limit], len(names) > limit
        return BlobPage(blobs=await _blocking(tree.stats, wanted), place=wanted[-1] if more else None)

    async def stat(self, container: Container, name: str) -> BlobInfo | None:
        return await _blocking(self._trees[container].stat, check_name(name))

    @asynccontextmanager
    async def open(
        self,
        container: Container,
        name: str,
        *,
        start: int = 0,
        end: int | None = None,
        etag: str | None = None,
    ) -> AsyncIterator[BlobStream]:
        reading = Reading()
        try:
            await _blocking(self._trees[container].open, check_name(name), etag, reading)
            size = reading.info.size
            yield _FileStream(reading, start, size if end is None else min(end, size))
        finally:
            reading.close()

    async def write(
        self,
        container: Container,
        name: str,
        body: bytes | AsyncIterator[bytes],
        *,
        head: Head | None = None,
        metadata: Mapping[str, str] | Callable[[], Mapping[str, str]] | None = None,
        condition: Condition | None = None,
        lease: str | None = None,
    ) -> BlobInfo:
        tree = self._trees[container]
        check_name(name)
        if not callable(metadata):
            check_metadata(metadata)
        if isinstance(body, bytes) and head is None:
            whole = Target(name=name, metadata=_said(metadata), condition=condition, lease=lease)
            return await _blocking(tree.put, body, whole)
        spool = tree.spool(reserved=head.size if head else 0)
        try:
            await _blocking(tree.check_write, name, condition, lease)
            rest = await _fill(spool, body)
            target = Target(name=name, metadata=_said(metadata), condition=condition, lease=lease)
            return await _blocking(tree.write, spool, rest, made(head), target)
        except BaseException:
            await _blocking(spool.discard)
            raise

    async def copy(
        self,
        source: tuple[Container, str],
        target: tuple[Container, str],
        *,
        metadata: Mapping[str, str],
        source_etag: str | None = None,
        condition: Condition | None = None,
        lease: str | None = None,
    ) -> BlobInfo:
        source_tree, target_tree = self._trees[source[0]], self._trees[target[0]]
        wanted = Target(
            name=check_name(target[1]),
            metadata=check_metadata(metadata, required=True),
            condition=condition,
            lease=lease,
        )
        return await _blocking(target_tree.copy, source_tree, check_name(source[1]), source_etag, wanted)

    async def delete(
        self, container: Container, name: str, *, etag: str | None = None, lease: str | None = None
    ) -> bool:
        return await _blocking(self._trees[container].delete, check_name(name), etag, lease)

    async def acquire_lease(
        self, container: Container, name: str, lease: str, seconds: int, *, etag: str | None = None
    ) -> None:
        check_lease(lease, seconds)
        await _blocking(self._trees[container].acquire, check_name(name), lease, seconds, etag)

    async def renew_lease(self, container: Container, name: str, lease: str) -> None:
        await _blocking(self._trees[container].renew, check_name(name), check_lease(lease))

    async def release_lease(self, container: Container, name: str, lease: str) -> None:
        await _blocking(self._trees[container].release, check_name(name), check_lease(lease))


class _FileStream:
    """`BlobStream` over an open file."""

    def __init__(self, reading: Reading, start: int, end: int) -> None:
        self.info = reading.info
        self._reading = reading
        self._position = start
        self._end = end

    async def chunks(self) -> AsyncIterator[bytes]:
        while self._position < self._end:
            size = min(PIECE, self._end - self._position)
            piece = await _blocking(self._reading.read, self._position, size)
            if not piece:
                raise Unavailable(f"{self.info.name} was cut short while it was read")
            self._position += len(piece)
            yield piece


def _said(metadata: Mapping[str, str] | Callable[[], Mapping[str, str]] | None) -> Mapping[str, str]:
    return check_metadata(metadata() if callable(metadata) else metadata)


async def _fill(spool: Spool, body: bytes | AsyncIterator[bytes]) -> bytearray:
    """Append `body`, all but its last bytes: those are returned."""
    buffer = bytearray()
    async with aclosing(pieces(body)) as whole:
        async for piece in whole:
            buffer += piece
            if len(buffer) >= PIECE:
                await _blocking(spool.append, buffer)
                buffer = bytearray()
    return buffer


async def _blocking(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run in a thread, to its end even when cancelled: no file is closed under a thread that uses it."""
    try:
        return await finish(in_thread(function, *args, **kwargs), name=f"storage {function.__name__}")
    except OSError as error:
        raise _fault(error) from error


def _fault(error: OSError) -> AnalysisError:
    text = f"{error.filename or 'storage directory'}: {error.strerror}"
    if error.errno == errno.ENAMETOOLONG:
        return Invalid(text)
    if error.errno in {errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS}:
        return Misconfigured(text)
    return Unavailable(text)
