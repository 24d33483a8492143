"""Unpacks a job's package: plain files below one folder, and not a byte that is not wanted.

Read by hand and never by `tarfile`: its filters keep being got round, and it takes headers of any size into
memory. ustar, GNU long names and pax paths and sizes are understood (POSIX.1-2001 pax, section "ustar").
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, NoReturn

from aioanalysis.domain.outcomes import Reason
from aioanalysis.errors import JobFailure

BLOCK: Final = 512
CHUNK_BYTES: Final = 1 << 20
EXTENSION_MAX_BYTES: Final = 64 * 1024  # of a long name or pax header
MEMBERS_MAX: Final = 10_000
DEPTH_MAX: Final = 16
PART_MAX_BYTES: Final = 255

REGULAR: Final = frozenset({b"0", b"\0", b"7"})
KINDS: Final = {b"1": "a hard link", b"2": "a link", b"3": "a device", b"4": "a device", b"6": "a pipe"}
PAX_RECORD: Final = re.compile(rb"(\d{1,6}) ([^=\n]{1,100})=")
FOREIGN_PAX: Final = frozenset({"linkpath", "GNU.sparse.major", "GNU.sparse.name", "GNU.sparse.map"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """One header: `name` as text, `kind` the type flag."""

    name: str
    size: int
    kind: bytes


def unpack(
    package: Path, stem: str, into: Path, *, max_bytes: int, stopped: threading.Event | None = None
) -> int:
    """Write the files of `<stem>/` into the empty folder `into`; how many bytes they are.

    Raises `JobFailure` (reason `input`) for whatever such a package must not hold or be; what was written by
    then stays.
    """
    with package.open("rb") as file:
        return _Unpacking(file, package.stat().st_size, stem, into, max_bytes, stopped).run()


def _refuse(text: str) -> NoReturn:
    raise JobFailure(Reason.INPUT, f"The package cannot be unpacked: {text}.")


class _Unpacking:
    def __init__(
        self,
        file: BinaryIO,
        length: int,
        stem: str,
        into: Path,
        max_bytes: int,
        stopped: threading.Event | None,
    ) -> None:
        self.file, self.length, self.stem, self.into = file, length, stem, into
        self.left, self.stopped = max_bytes, stopped
        self.written = self.members = 0
        self.seen: set[str] = set()

    def run(self) -> int:
        while (member := self.next()) is not None:
            self.members += 1
            if self.members > MEMBERS_MAX:
                _refuse(f"it holds more than {MEMBERS_MAX} files")
            parts = self.checked(member)
            if member.kind == b"5":
                self.into.joinpath(*parts).mkdir(parents=True, exist_ok=True)
            else:
                self.write(member, parts)
        return self.written

    # --- headers ---

    def next(self) -> Member | None:
        """The next file's header with its extensions worked in; None at the archive's end."""
        said: dict[str, str] = {}
        while True:
            header = self.block()
            if header is None:
                if said:
                    _refuse("it ends after an extended header")
                return None
            member = _parse(header)
            if member.kind in {b"x", b"g", b"L", b"K"}:
                said.update(self.extension(member))
                continue
            name, size = said.get("path", member.name), said.get("size", str(member.size))
            if not size.isascii() or not size.isdigit():
                _refuse("a pax header gives a size that is no number")
            return Member(name=name, size=int(size), kind=member.kind)

    def block(self) -> bytes | None:
        header = self.file.read(BLOCK)
        if not header:
            _refuse("it is cut: the end-of-archive mark is missing" if self.members else "it is empty")
        if len(header) < BLOCK:
            _refuse("it is cut within a header" if self.members else "it is no tar file")
        return None if header.count(0) == BLOCK else header

    def extension(self, member: Member) -> Mapping[str, str]:
        if member.size > EXTENSION_MAX_BYTES:
            _refuse("an extended header is too long")
        data = self.file.read(member.size)
        self.skip_padding(member.size)
        if len(data) < member.size:
            _refuse("it is cut within an extended header")
        if member.kind == b"K":
            _refuse("it holds a link")
        if member.kind == b"L":
            return {"path": _text(data.rstrip(b"\0"))}
        said = _pax(data)
        return said if member.kind == b"x" else {}

    def checked(self, member: Member) -> list[str]:
        """The path below the job's folder."""
        shown = repr(member.name[:200])
        if member.kind not in REGULAR and member.kind != b"5":
            _refuse(f"{shown} is {KINDS.get(member.kind, 'of a kind that is not known')}")
        if member.name.startswith("/"):
            _refuse(f"{shown} is an absolute path")
        parts = member.name.removeprefix("./").removesuffix("/").split("/")
        if any(part in {"", ".", ".."} for part in parts):
            _refuse(f"{shown} is no plain path")
        if len(parts) > DEPTH_MAX or any(len(os.fsencode(part)) > PART_MAX_BYTES for part in parts):
            _refuse(f"{shown} is too long or too deep")
        if any(ord(c) < 32 or c in "\\\x7f" or 0xD800 <= ord(c) <= 0xDFFF for c in member.name):
            _refuse(f"{shown} holds characters that a name must not hold")
        if parts[0] != self.stem or (len(parts) == 1 and member.kind != b"5"):
            _refuse(f"{shown} is not below {self.stem}/")
        key = "/".join(parts).casefold()
        if key in self.seen:
            _refuse(f"{shown} is there twice")
        if member.kind != b"5":
            self.seen.add(key)
        return parts[1:]

    # --- data ---

    def write(self, member: Member, parts: list[str]) -> None:
        if member.size > self.left:
            _refuse(f"unpacked it is larger than {self.written + self.left} bytes")
        if member.size > self.length - self.file.tell():
            _refuse(f"it is cut within {member.name[:200]!r}")
        target = self.into.joinpath(*parts)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
        except (FileExistsError, NotADirectoryError):
            _refuse(f"{member.name[:200]!r} is a file and a folder")
        with os.fdopen(handle, "wb") as out:
            self.pour(member.size, out)
        self.skip_padding(member.size)
        self.left -= member.size
        self.written += member.size

    def pour(self, size: int, out: BinaryIO) -> None:
        while size:
            if self.stopped is not None and self.stopped.is_set():
                raise InterruptedError("unpacking was stopped")
            data = self.file.read(min(size, CHUNK_BYTES))
            if not data:
                _refuse("it is cut")
            out.write(data)
            size -= len(data)

    def skip_padding(self, size: int) -> None:
        self.file.seek(-size % BLOCK, os.SEEK_CUR)


def _parse(header: bytes) -> Member:
    unsigned = sum(header[:148]) + 256 + sum(header[156:])
    if _number(header[148:156]) != unsigned:
        _refuse("it is no tar file, or damaged")
    name = header[:100].split(b"\0", 1)[0]
    prefix = header[345:500].split(b"\0", 1)[0] if header[257:263] == b"ustar\0" else b""
    full = prefix + b"/" + name if prefix else name
    return Member(name=_text(full), size=_number(header[124:136]), kind=header[156:157])


def _number(field: bytes) -> int:
    """An octal field, or GNU's base-256 for what does not fit."""
    if field[0] == 0x80:
        return int.from_bytes(field[1:], "big")
    text = field.split(b"\0", 1)[0].strip()
    try:
        return int(text or b"0", 8)
    except ValueError:
        _refuse("it is no tar file, or damaged")


def _pax(data: bytes) -> dict[str, str]:
    said: dict[str, str] = {}
    at = 0
    while at < len(data):
        record = PAX_RECORD.match(data, at)
        end = at + int(record[1]) if record else 0
        if record is None or end > len(data) or end <= record.end() or data[end - 1 : end] != b"\n":
            _refuse("a pax header is damaged")
        key = _text(record[2])
        if key in FOREIGN_PAX or key.startswith("GNU.sparse"):
            _refuse("it holds a link or a sparse file")
        if key in {"path", "size"}:
            said[key] = _text(data[record.end() : end - 1])
        at = end
    return said


def _text(name: bytes) -> str:
    return name.decode("utf-8", errors="surrogateescape")
