"""A method's build context as a tar, read while it is sent, its digest checked against what was read."""

from __future__ import annotations

import os
import tarfile
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final

from aioanalysis.aio import in_thread
from aioanalysis.buildcontext import ContextDigest, Member

PIECE_BYTES: Final = 256 * 1024
_TYPES: Final = {"file": tarfile.REGTYPE, "directory": tarfile.DIRTYPE, "link": tarfile.SYMTYPE}


class ContextChanged(Exception):
    """The directory is not (any more) what its digest says."""


class ContextStream:
    """The tar of `members`: owner 0, modes 0644 and 0755, no times, sorted; so builds can reuse their layers.

    Sending breaks off with `changed` set when what was read is not of `digest`: no image is ever made from
    a directory that changed meanwhile.
    """

    def __init__(self, members: Sequence[Member], *, digest: str, base_image: str | None) -> None:
        self._members = members
        self._wanted = digest
        self._digest = ContextDigest(base_image)
        self.changed = False

    async def chunks(self) -> AsyncIterator[bytes]:
        pieces = self._pieces()
        while chunk := await in_thread(_gather, pieces):
            yield chunk

    def _pieces(self) -> Iterator[bytes]:
        for member in self._members:
            try:
                yield from self._one(member)
            except (OSError, EOFError) as error:
                self.changed = True
                raise ContextChanged(f"{member.name}: {error}") from error
        if self._digest.hexdigest() != self._wanted:
            self.changed = True
            raise ContextChanged("its digest is another one now")
        yield bytes(2 * tarfile.BLOCKSIZE)

    def _one(self, member: Member) -> Iterator[bytes]:
        if member.kind != "file":
            self._digest.member(member, 0)
            yield _header(member, 0)
            return
        with member.path.open("rb") as file:
            size = left = os.fstat(file.fileno()).st_size
            self._digest.member(member, size)
            yield _header(member, size)
            while left:
                chunk = file.read(min(left, PIECE_BYTES))
                if not chunk:
                    raise EOFError("it ends early")
                left -= len(chunk)
                self._digest.data(chunk)
                yield chunk
        yield bytes(-size % tarfile.BLOCKSIZE)


def _header(member: Member, size: int) -> bytes:
    info = tarfile.TarInfo(member.name)
    info.type, info.mode, info.linkname, info.size = _TYPES[member.kind], member.mode, member.target, size
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _gather(pieces: Iterator[bytes]) -> bytes:
    gathered, size = [], 0
    for piece in pieces:
        gathered.append(piece)
        size += len(piece)
        if size >= PIECE_BYTES:
            break
    return b"".join(gathered)
