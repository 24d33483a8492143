"""Record store on a local folder: `CODE.jsonl` or `CODE.jsonl.gz`, one file a record set, open to every key.

The embedded default. Of a code with both files the plain one is read.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import BinaryIO, Final

from aioanalysis.aio import in_thread, opened
from aioanalysis.domain.job import Source
from aioanalysis.domain.outcomes import Reason
from aioanalysis.errors import JobFailure, Misconfigured, Unavailable
from aioanalysis.interfaces import RecordStream
from aioanalysis.recordstore.pieces import BadGzip, Pieces, Unzipped

CODE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
SUFFIXES: Final = (".jsonl", ".jsonl.gz")
CODES_NAMED: Final = 5
READ_BYTES: Final = 4 << 20


class DirectoryRecordStore:
    """Record sets in `folder`. There are no set tokens and no rights: the key is not looked at."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def check(self) -> str:
        """Raises `Misconfigured` when the folder is not there or cannot be read."""
        try:
            codes = await in_thread(self._codes)
        except OSError as error:
            raise Misconfigured(
                f"AIOANALYSIS_RECORDS_DIRECTORY: {self._folder} cannot be read: {error.strerror}"
            ) from error
        return f"record sets in the folder {self._folder} ({len(codes)} now)"

    @asynccontextmanager
    async def open(self, source: Source, key: str) -> AsyncIterator[RecordStream]:
        """Raises `JobFailure` for a code without a file and for any set token."""
        async with opened(partial(self._open, source), methodcaller("close")) as file:
            yield FileRecords(source.value or "", file, compressed=file.name.endswith(".gz"))

    def _open(self, source: Source) -> BinaryIO:
        try:
            return self._find(source)
        except OSError as error:
            raise Unavailable(f"the folder of record sets cannot be read: {error.strerror}") from error

    def _find(self, source: Source) -> BinaryIO:
        if source.kind != "recordset":
            raise JobFailure(
                Reason.RECORDS,
                "this record store is a folder of record sets: it knows their codes only, no set tokens",
            )
        code = source.value or ""
        if CODE.fullmatch(code):
            for suffix in SUFFIXES:
                path = self._folder / f"{code}{suffix}"
                if path.is_file():
                    return path.open("rb")
        codes = self._codes()
        some = ", ".join(codes[:CODES_NAMED]) + (", ..." if len(codes) > CODES_NAMED else "")
        raise JobFailure(
            Reason.RECORDS,
            f"there is no record set {code[:200]!r}; "
            + (f"there are: {some}" if codes else "there are none"),
        )

    def _codes(self) -> list[str]:
        names = (path.name.removesuffix(".gz") for path in self._folder.iterdir() if path.is_file())
        codes = {name.removesuffix(".jsonl") for name in names if name.endswith(".jsonl")}
        return sorted(code for code in codes if CODE.fullmatch(code))


class FileRecords:
    """One open file's records; how many there are is not known beforehand."""

    announced: int | None = None

    def __init__(self, code: str, file: BinaryIO, *, compressed: bool) -> None:
        self._code = code
        self._file = file
        self._compressed = compressed

    async def read(self) -> bytes:
        """The next piece of the file as it is; raises `Unavailable`."""
        try:
            return await in_thread(self._file.read, READ_BYTES)
        except OSError as error:
            raise Unavailable(f"record set {self._code} cannot be read: {error.strerror}") from error

    async def chunks(self) -> AsyncIterator[bytes]:
        """Raises `Unavailable` for a file that changes while it is read, `JobFailure` for a damaged one."""
        pieces: Pieces = Unzipped(self, required=True) if self._compressed else self
        before = await self._version()
        try:
            while piece := await pieces.read():
                yield piece
        except BadGzip as error:
            await self._require(before)
            raise JobFailure(Reason.RECORDS, f"record set {self._code}: {error}") from error
        await self._require(before)

    async def _version(self) -> tuple[int, int]:
        stat = await in_thread(os.fstat, self._file.fileno())
        return stat.st_size, stat.st_mtime_ns

    async def _require(self, version: tuple[int, int]) -> None:
        if await self._version() != version:
            raise Unavailable(f"record set {self._code} was changed while it was read")
