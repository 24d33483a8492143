"""Walks a job directory as a method has left it: no link is followed, no pipe opened."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

DEPTH_MAX: Final = 64
FILES_MAX: Final = 500_000
SKIPPED_LISTED: Final = 10_000
OWN: Final = frozenset({".alive"})  # the worker's, not the job's

_ODD = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]|%(?=[0-9A-Fa-f]{2})")


@dataclass(frozen=True, kw_only=True, slots=True)
class JobFile:
    """A regular file: its path from the job directory, and how it looked."""

    parts: tuple[str, ...]
    size: int
    modified: float
    executable: bool

    @property
    def name(self) -> str:
        """Its name in the package: UTF-8 text without control characters, odd bytes percent-escaped."""
        return escaped("/".join(self.parts))


@dataclass(kw_only=True, slots=True)
class Skipped:
    """What a package leaves out, and why; of very many the first are listed."""

    count: int = 0
    listed: list[dict[str, str]] = field(default_factory=list)

    def add(self, name: str, reason: str) -> None:
        self.count += 1
        if self.count <= SKIPPED_LISTED:
            self.listed.append({"name": name, "reason": reason})


def escaped(name: str, *, odd: re.Pattern[str] = _ODD) -> str:
    """`name` with each odd character as the percent-escapes of its bytes."""
    return odd.sub(lambda m: "".join(f"%{b:02X}" for b in m[0].encode("utf-8", "surrogateescape")), name)


def walk(root: Path, *, max_bytes: int, skipped: Skipped) -> list[JobFile]:
    """Every regular file below `root` by name, as far as they fit into `max_bytes`; else `skipped`."""
    files: list[JobFile] = []
    left = max_bytes
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for parts, info in _entries(handle, (), skipped):
            name = escaped("/".join(parts))
            if parts[0] in OWN and len(parts) == 1:
                continue
            if len(files) >= FILES_MAX:
                skipped.add(name, "too many files")
            elif info.st_size > left:
                skipped.add(name, "over the size limit")
            else:
                left -= info.st_size
                files.append(
                    JobFile(
                        parts=parts,
                        size=info.st_size,
                        modified=info.st_mtime,
                        executable=bool(info.st_mode & 0o100),
                    )
                )
    finally:
        os.close(handle)
    return files


def disk_bytes(root: Path, *, enough: int) -> int:
    """What the files below `root` take on the disk, counted until it is more than `enough`."""
    total = 0
    try:
        handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return 0
    try:
        for _, info in _entries(handle, (), Skipped(), mend=False):
            total += info.st_blocks * 512
            if total > enough:
                break
    finally:
        os.close(handle)
    return total


@contextmanager
def opened(root: Path, parts: tuple[str, ...]) -> Iterator[int]:
    """A regular file below `root` for reading, no link on the way followed; raises `OSError`."""
    handles = [os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)]
    try:
        for part in parts[:-1]:
            handles.append(os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handles[-1]))
        handles.append(_open_file(parts[-1], handles[-1]))
        if not stat.S_ISREG(os.fstat(handles[-1]).st_mode):
            raise OSError(f"{parts[-1]!r} is not a regular file")
        yield handles[-1]
    finally:
        for handle in reversed(handles):
            os.close(handle)


def read_small(root: Path, name: str, limit: int) -> bytes | None:
    """A regular file's content, None when it is absent, a link, a pipe, or larger than `limit`."""
    try:
        with opened(root, (name,)) as handle:
            if os.fstat(handle).st_size > limit:
                return None
            return os.read(handle, limit)
    except OSError:
        return None


def tail(root: Path, name: str, limit: int) -> bytes:
    """The end of a regular file, empty when there is none."""
    try:
        with opened(root, (name,)) as handle:
            size = os.fstat(handle).st_size
            return os.pread(handle, limit, max(0, size - limit))
    except OSError:
        return b""


def _open_file(name: str, folder: int) -> int:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(name, flags, dir_fd=folder)
    except PermissionError:
        if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise
        os.chmod(name, 0o600, dir_fd=folder)
        return os.open(name, flags, dir_fd=folder)


def _entries(
    folder: int, path: tuple[str, ...], skipped: Skipped, *, mend: bool = True
) -> Iterator[tuple[tuple[str, ...], os.stat_result]]:
    with os.scandir(folder) as listing:
        entries = sorted(listing, key=lambda entry: entry.name)
    for entry in entries:
        parts = (*path, entry.name)
        try:
            info = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISREG(info.st_mode):
            yield parts, info
        elif stat.S_ISDIR(info.st_mode):
            yield from _below(folder, parts, skipped, mend=mend)
        else:
            skipped.add(escaped("/".join(parts)), _kind(info.st_mode))


def _below(
    folder: int, parts: tuple[str, ...], skipped: Skipped, *, mend: bool
) -> Iterator[tuple[tuple[str, ...], os.stat_result]]:
    name = escaped("/".join(parts))
    if len(parts) > DEPTH_MAX:
        skipped.add(name, "too deep")
        return
    try:
        handle = _open_folder(parts[-1], folder, mend=mend)
    except OSError as error:
        skipped.add(name, f"cannot be read: {error.strerror}")
        return
    try:
        yield from _entries(handle, parts, skipped, mend=mend)
    finally:
        os.close(handle)


def _open_folder(name: str, folder: int, *, mend: bool) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    if mend:
        with suppress(OSError):
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(info.st_mode) and info.st_mode & 0o700 != 0o700:
                os.chmod(name, 0o700, dir_fd=folder)
    return os.open(name, flags, dir_fd=folder)


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFLNK: "a link",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "not a regular file")
