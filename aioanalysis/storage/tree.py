"""One container as a folder: plain files under their names, all else in hidden folders beside them.

::

    <container>/<name>                      the blob
    <container>/.meta/<name>/<identity>     etag, time and metadata of the file with that identity
    <container>/.leases/<name>              who holds it, until when
    <container>/.tmp/                       what is being written
    <container>/.lock                       flock: held for the moment of every change, by any process

*identity* is inode, mtime and size, so data and metadata appear together by the one rename of the data. A
file that was put there by hand has no metadata, and its identity as etag. All calls block: threads only.

What survives a power cut: data and metadata are flushed before the rename, so a file that is there is whole,
and a journaling file system keeps renames in order, so a sidecar never outlives its package. The last seconds
of renames may be lost; then the work is repeated. Signs of life (`progress/`, `workers/`) are not flushed.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from aioanalysis.domain.exchange import PROGRESS, WORKERS
from aioanalysis.errors import Contested, Invalid, Missing
from aioanalysis.interfaces import BlobInfo, Condition, LeaseState
from aioanalysis.storage.files import Reading, Spool, identity_of
from aioanalysis.storage.holders import LeaseBook, locked
from aioanalysis.storage.names import check_condition

EPHEMERAL: Final = (PROGRESS, WORKERS)
STALE_SECONDS: Final = 86_400
_NO_LINKS: Final = frozenset({errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


@dataclass(frozen=True, slots=True)
class _Found:
    identity: str
    info: BlobInfo


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """What is to be written, and on what terms; `metadata` is complete, not a change."""

    name: str
    metadata: Mapping[str, str]
    condition: Condition | None = None
    lease: str | None = None

    @property
    def durable(self) -> bool:
        return not self.name.startswith(EPHEMERAL)


class Tree:
    """A container's folder; `clock` counts the seconds of leases, the same for all processes of the host."""

    def __init__(self, root: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.root = root
        self.leases = LeaseBook(root / ".leases", clock)
        self._meta = root / ".meta"
        self._scratch = root / ".tmp"

    def prepare(self) -> None:
        """Make the folders, and clear what writers that died long ago have left."""
        for folder in (self._meta, self._scratch):
            folder.mkdir(parents=True, exist_ok=True)
        for file in self._scratch.iterdir():
            with suppress(FileNotFoundError):
                if time.time() - file.stat().st_ctime > STALE_SECONDS:  # ctime: a link keeps its mtime
                    file.unlink()

    def names(self, prefix: str = "", *, root_only: bool = False) -> list[str]:
        """Names that begin with `prefix`, in order."""
        folder, slash, start = prefix.rpartition("/")
        hidden = any(not part or part.startswith(".") for part in folder.split("/"))
        if slash and (root_only or hidden):
            return []
        return list(self._walk(folder + slash, start, deep=not root_only))

    def _walk(self, folder: str, start: str, *, deep: bool) -> Iterator[str]:
        found = []
        try:
            with os.scandir(self.root / folder) as entries:
                for entry in entries:
                    if entry.name.startswith(".") or not entry.name.startswith(start):
                        continue
                    if entry.is_file(follow_symlinks=False):
                        found.append(entry.name)
                    elif deep and entry.is_dir(follow_symlinks=False):
                        found.append(entry.name + "/")
        except (FileNotFoundError, NotADirectoryError):
            if not folder:
                raise
        for name in sorted(found):  # with its slash a folder sorts as the names in it do
            if name.endswith("/"):
                yield from self._walk(folder + name, "", deep=True)
            else:
                yield folder + name

    def listing(self, prefix: str, at_once: int, *, root_only: bool) -> tuple[list[BlobInfo], list[str]]:
        """The blobs whose names begin with `prefix`: the first so many, and the names of the others."""
        names = self.names(prefix, root_only=root_only)
        return self.stats(names[:at_once]), names[at_once:]

    def stats(self, names: Sequence[str]) -> list[BlobInfo]:
        """Those of `names` that are (still) there."""
        return [info for name in names if (info := self.stat(name)) is not None]

    def stat(self, name: str) -> BlobInfo | None:
        found = self._find(name)
        return found.info if found else None

    def _find(self, name: str) -> _Found | None:
        before = ""
        while True:
            try:
                status = (self.root / name).stat(follow_symlinks=False)
            except (FileNotFoundError, NotADirectoryError):
                self.root.stat()  # a container that has gone is not an empty one
                return None
            if not stat.S_ISREG(status.st_mode):
                return None
            identity = identity_of(status)
            info = self._describe(name, status, identity, by_hand=identity == before)
            if info is not None:
                return _Found(identity, info)
            before = identity  # replaced meanwhile, or put there by hand: a second look tells

    def _describe(
        self, name: str, status: os.stat_result, identity: str, *, by_hand: bool
    ) -> BlobInfo | None:
        try:
            said = json.loads((self._meta / name / identity).read_bytes())
            etag, modified, metadata = said["etag"], datetime.fromisoformat(said["at"]), said["metadata"]
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
            if not by_hand:
                return None
            etag, modified, metadata = identity, datetime.fromtimestamp(status.st_mtime, UTC), {}
        return BlobInfo(
            name=name,
            size=status.st_size,
            etag=etag,
            modified_at=modified,
            metadata=metadata,
            lease=self.leases.state(name),
        )

    def open(self, name: str, etag: str | None, reading: Reading) -> None:
        """Open the blob's file for `reading`; what is read from it stays that version's."""
        while True:
            found = self._demand(name, etag)
            with suppress(FileNotFoundError):
                if reading.open(self.root / name) == found.identity:
                    reading.info = found.info
                    return

    def _demand(self, name: str, etag: str | None) -> _Found:
        found = self._find(name)
        if found is None:
            raise Missing(f"{name} is not there")
        if etag is not None and found.info.etag != etag:
            raise Contested(f"{name} has been replaced")
        return found

    def spool(self, *, reserved: int = 0) -> Spool:
        """A new file, to be filled and given to `write`; so many bytes at its front are left for the head."""
        return Spool(self._new_scratch(), reserved=reserved)

    def check_write(self, name: str, condition: Condition | None, lease: str | None) -> None:
        """Raises `Contested` if a write would be refused as things are now."""
        check_condition(name, condition, self.stat(name))
        self.leases.check(name, lease)

    def put(self, body: bytes, target: Target) -> BlobInfo:
        """Write all of a blob at once."""
        spool = self.spool()
        try:
            return self.write(spool, body, b"", target)
        except BaseException:
            spool.discard()
            raise

    def write(self, spool: Spool, rest: bytes | bytearray, head: bytes, target: Target) -> BlobInfo:
        """Finish the spooled file by `rest` and `head`, and give it the target's name."""
        spool.append(rest)
        if head:
            spool.begin(head)
        spool.close(flush=target.durable)
        return self._place(spool.path, target)

    def copy(self, source: Tree, name: str, etag: str | None, target: Target) -> BlobInfo:
        """Link `source`'s file under the target's name; copied where the file system has no links."""
        path = self._new_scratch()
        try:
            source._lend(name, etag, path)
            return self._place(path, target)
        finally:
            path.unlink(missing_ok=True)

    def _lend(self, name: str, etag: str | None, path: Path) -> None:
        while True:
            found = self._demand(name, etag)
            try:
                os.link(self.root / name, path, follow_symlinks=False)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                self._duplicate(name, etag, path)
                return
            if identity_of(path.stat()) == found.identity:
                return
            path.unlink()

    def _duplicate(self, name: str, etag: str | None, path: Path) -> None:
        with closing(Reading()) as reading, closing(Spool(path)) as spool:
            self.open(name, etag, reading)
            position = 0
            while piece := reading.read(position, 1 << 20):
                spool.append(piece)
                position += len(piece)
            spool.close(flush=True)

    def _place(self, path: Path, target: Target) -> BlobInfo:
        status = path.stat()
        etag, now = secrets.token_hex(8), datetime.now(UTC)
        said = {"etag": etag, "at": now.isoformat(), "metadata": dict(target.metadata)}
        description = self.spool()
        try:
            description.append(json.dumps(said).encode())
            description.close(flush=target.durable)
            with self._locked():
                check_condition(target.name, target.condition, self.stat(target.name))
                self.leases.check(target.name, target.lease)
                self._rename(path, description.path, target.name, identity_of(status))
                if target.lease is None:
                    self.leases.drop(target.name)  # a lapsed one cannot be renewed any more
        finally:
            description.discard()
        lease = LeaseState.FREE if target.lease is None else LeaseState.HELD
        return BlobInfo(
            name=target.name,
            size=status.st_size,
            etag=etag,
            modified_at=now,
            metadata=dict(target.metadata),
            lease=lease,
        )

    def _rename(self, path: Path, description: Path, name: str, identity: str) -> None:
        place, described = self.root / name, self._meta / name
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise Invalid(f"{name}: a blob has the name of its folder") from None
        if place.is_dir():
            raise Invalid(f"{name}: a folder has this name")
        described.mkdir(parents=True, exist_ok=True)
        description.replace(described / identity)
        path.replace(place)
        self._forget(described, keep=identity)

    def delete(self, name: str, etag: str | None, lease: str | None) -> bool:
        with self._locked():
            present = self.stat(name)
            if present is None:
                return False
            if etag is not None and present.etag != etag:
                raise Contested(f"{name} has been replaced")
            self.leases.check(name, lease)
            (self.root / name).unlink()
            self.leases.drop(name)
            self._forget(self._meta / name)
            with suppress(OSError):
                (self._meta / name).rmdir()
            return True

    def acquire(self, name: str, lease: str, seconds: int, etag: str | None) -> None:
        with self._locked():
            self._demand(name, etag)
            self.leases.take(name, lease, seconds, self._new_scratch())

    def renew(self, name: str, lease: str) -> None:
        with self._locked():
            self._demand(name, None)
            self.leases.renew(name, lease, self._new_scratch())

    def release(self, name: str, lease: str) -> None:
        with self._locked():
            self.leases.release(name, lease)

    def _locked(self) -> AbstractContextManager[None]:
        return locked(self.root / ".lock")

    def _new_scratch(self) -> Path:
        return self._scratch / secrets.token_hex(8)

    @staticmethod
    def _forget(described: Path, *, keep: str = "") -> None:
        with suppress(FileNotFoundError):
            for file in described.iterdir():
                if file.name != keep and file.is_file():
                    file.unlink(missing_ok=True)
