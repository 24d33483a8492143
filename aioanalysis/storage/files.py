"""Single files of the directory backend: one that is being written, one that is being read.

Both are made without touching the disk, so that whoever is cancelled while a thread opens the file still has
what to close.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from io import FileIO
from pathlib import Path

from aioanalysis.interfaces import BlobInfo

_flush: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


def identity_of(status: os.stat_result) -> str:
    """Inode, mtime and size: the same for all links of one file, another for whatever replaces it."""
    return f"{status.st_ino}-{status.st_mtime_ns}-{status.st_size}"


class Spool:
    """A new file at `path`, filled by `append`; `reserved` bytes at its front are left for `begin`."""

    def __init__(self, path: Path, *, reserved: int = 0) -> None:
        self.path = path
        self._reserved = reserved
        self._file: FileIO | None = None

    def append(self, data: bytes | bytearray) -> None:
        file, view = self._opened(), memoryview(data)
        while view:
            view = view[file.write(view) :]

    def begin(self, data: bytes) -> None:
        self._opened().seek(0)
        self.append(data)

    def _opened(self) -> FileIO:
        if self._file is None:
            self._file = FileIO(self.path, "xb")
            self._file.seek(self._reserved)
        return self._file

    def close(self, *, flush: bool = False) -> None:
        """Close it; with `flush` it is on the disk when this returns."""
        file, self._file = self._file, None
        if file is not None:
            with file:
                if flush:
                    _flush(file.fileno())

    def discard(self) -> None:
        """Close and remove it, wherever it still has its own name."""
        self.close()
        self.path.unlink(missing_ok=True)


class Reading:
    """A file being read; `info` describes it once its tree has opened it."""

    info: BlobInfo

    def __init__(self) -> None:
        self._file: FileIO | None = None

    def open(self, path: Path) -> str:
        """Open `path` in place of what was open, return the file's identity."""
        self.close()
        self._file = FileIO(path, "rb")
        return identity_of(os.fstat(self._file.fileno()))

    def read(self, position: int, size: int) -> bytes:
        if self._file is None:
            raise ValueError("not open")
        return os.pread(self._file.fileno(), size, position)

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()
