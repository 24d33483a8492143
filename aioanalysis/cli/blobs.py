"""Copies files out of package storage and into it, and takes them away, for the operator's commands."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from aioanalysis.aio import in_thread, opened
from aioanalysis.cli.files import whole
from aioanalysis.domain.exchange import Container
from aioanalysis.errors import Contested, Damaged, Invalid, Missing
from aioanalysis.interfaces import BlobInfo, Condition, ExchangeStorage

READ_BYTES: Final = 1 << 20
SHA256: Final = "sha256"  # the metadata key under which every package has its digest

Tell = Callable[[int, int], None]  # bytes done, of how many


@dataclass(frozen=True, kw_only=True, slots=True)
class Copied:
    """One file copied: its name in storage, the local path, size in bytes, digest."""

    name: str
    path: str
    size: int
    sha256: str
    verified: bool  # the digest is the one that storage has of it

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def described(container: Container, info: BlobInfo) -> dict[str, Any]:
    """A blob as `storage ls --json` shows it."""
    return {
        "container": container.value,
        "name": info.name,
        "size": info.size,
        "modified_at": info.modified_at.isoformat(),
        "lease": info.lease.value,
        "metadata": dict(info.metadata),
    }


async def get(
    storage: ExchangeStorage, container: Container, name: str, target: Path | None, tell: Tell
) -> Copied:
    """Copy a blob to `target` (a file or folder; else its own name here), there only when it is whole.

    Raises `Missing`, `Contested` (changed meanwhile), `Damaged` (not of the digest that it was stored with),
    `Invalid` (the file cannot be written), `Unavailable`.
    """
    path = target or Path()
    if await in_thread(path.is_dir):
        path = path / name.rpartition("/")[2]
    sha256, size = hashlib.sha256(), 0
    with _named(container, name):
        async with storage.open(container, name) as stream:
            expected = stream.info.metadata.get(SHA256)
            with whole(path) as file:
                async for piece in stream.chunks():
                    await in_thread(file.write, piece)
                    await in_thread(sha256.update, piece)
                    size += len(piece)
                    tell(size, stream.info.size)
                if expected is not None and expected != sha256.hexdigest():
                    raise Damaged(
                        f"{name} does not have the SHA-256 that it was stored with: nothing is kept"
                    )
    return Copied(
        name=name, path=str(path), size=size, sha256=sha256.hexdigest(), verified=expected is not None
    )


async def put(
    storage: ExchangeStorage,
    container: Container,
    source: Path,
    name: str,
    metadata: Mapping[str, str],
    tell: Tell,
    *,
    force: bool,
) -> Copied:
    """Copy a file to a blob, with `metadata` and its SHA-256; `force` writes over one that is there.

    Raises `Contested` (there is one, or a worker holds it), `Invalid` (name, metadata, file), `Unavailable`.
    """
    sha256, size = hashlib.sha256(), 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal size
        try:
            async with opened(lambda: source.open("rb"), lambda file: file.close()) as file:
                total = os.fstat(file.fileno()).st_size
                while piece := await in_thread(file.read, READ_BYTES):
                    await in_thread(sha256.update, piece)
                    size += len(piece)
                    tell(size, total)
                    yield piece
        except OSError as error:
            raise Invalid(f"{source} cannot be read: {error.strerror or error}") from None

    if not force and await storage.stat(container, name) is not None:
        raise Contested(f"{name} is in {container} already; --force writes over it")
    with _named(container, name):
        info = await storage.write(
            container,
            name,
            body(),
            metadata=lambda: {**metadata, SHA256: sha256.hexdigest()},
            condition=None if force else Condition(absent=True),
        )
    return Copied(
        name=name, path=str(source), size=size, sha256=sha256.hexdigest(), verified=info.size == size
    )


async def remove(storage: ExchangeStorage, container: Container, names: Sequence[str]) -> list[str]:
    """Delete blobs; those of `names` that were not there. Raises `Contested` for one that a worker holds."""
    absent = []
    for name in names:
        with _named(container, name):
            if not await storage.delete(container, name):
                absent.append(name)
    return absent


@contextmanager
def _named(container: Container, name: str) -> Iterator[None]:
    """What storage says of a blob, in an operator's words."""
    try:
        yield
    except Missing:
        raise Missing(f"there is no {name} in {container}") from None
    except Contested as error:
        raise Contested(f"{name} in {container} is being changed, or a worker holds it: {error}") from None
