"""Files that commands read and write: gzip taken off and put on, nothing half written."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, Final

from aioanalysis.errors import Invalid

MAGIC: Final = b"\x1f\x8b"
BUFFER_BYTES: Final = 1024 * 1024


class Replayed(io.RawIOBase):
    """`head`, then what is left of the stream it was read from: also of one that cannot go back."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        super().__init__()
        self._head = memoryview(head)
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._head[: len(buffer)] if self._head else self._rest.read(len(buffer))
        self._head = self._head[len(data) :]
        buffer[: len(data)] = data
        return len(data)


def opened(file: BinaryIO, head_bytes: int) -> tuple[bytes, BinaryIO]:
    """The first `head_bytes` of `file` without its gzip, and all of it as a stream."""
    magic = file.read(len(MAGIC))
    plain: BinaryIO = io.BufferedReader(Replayed(magic, file), BUFFER_BYTES)
    if magic == MAGIC:
        plain = gzip.GzipFile(fileobj=plain, mode="rb")  # type: ignore[assignment]
    head = plain.read(head_bytes)
    return head, io.BufferedReader(Replayed(head, plain), BUFFER_BYTES)


def position(file: BinaryIO) -> int | None:
    """How far `file` has been read; None for one that does not know."""
    return file.tell() if file.seekable() else None


@contextmanager
def whole(path: Path) -> Iterator[IO[bytes]]:
    """A file that is `path` once all of it is written, and never before.

    What is no ordinary file, as /dev/null, is written as it is. Raises `Invalid`.
    """
    ordinary = path.is_file() or not path.exists()
    place = path.resolve() if ordinary else path
    target = place.with_name(f".{place.name}.part") if ordinary else place
    try:
        with target.open("wb") as file:
            yield file
        if ordinary:
            target.replace(place)
    except OSError as error:
        raise Invalid(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        if ordinary:
            target.unlink(missing_ok=True)


@contextmanager
def written(path: Path) -> Iterator[IO[bytes]]:
    """As `whole`; gzip if its name ends in .gz."""
    with whole(path) as file:
        if path.suffix == ".gz":
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed:
                yield packed  # type: ignore[misc]
        else:
            yield file
