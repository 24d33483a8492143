"""A worker's own folder on the host: who owns it, one folder a run in it, and their removal."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import socket
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self
from uuid import uuid4

from aioanalysis import logs
from aioanalysis.errors import Misconfigured
from aioanalysis.settings import Settings
from aioanalysis.worker.jobtree import read_small

INSTANCES_MAX: Final = 99
STATE_MAX_BYTES: Final = 16 << 20

log = logs.get()


class Instance:
    """`data_dir/worker/<name>`, locked for as long as this process is its owner.

    `name` is the worker's id; with an id taken on this host by another process it gets a number. `key` is
    random, made once a folder: containers carry it as a label, so that nobody cleans up another's.
    """

    def __init__(self, folder: Path, wanted: str, lock: int) -> None:
        self.folder = folder
        self.name = folder.name
        self._wanted = wanted
        self.host = socket.gethostname()
        self.runs = folder / "runs"
        self.logs = folder / "logs"
        self._lock = lock
        self.runs.mkdir(exist_ok=True)
        self.logs.mkdir(exist_ok=True)
        self.key = self._own_key()

    @classmethod
    @contextlib.contextmanager
    def open(cls, settings: Settings) -> Iterator[Self]:
        """Lock a folder; raises `Misconfigured` when it cannot be made or all its numbers are taken."""
        base = settings.data_dir.absolute() / "worker"
        try:
            wanted = settings.worker_id or _default_name(base)
            instance = cls._first_free(base, wanted)
        except OSError as error:
            raise Misconfigured(f"AIOANALYSIS_DATA_DIR: {base} cannot be used: {error.strerror}") from error
        try:
            yield instance
        finally:
            os.close(instance._lock)

    @classmethod
    def _first_free(cls, base: Path, wanted: str) -> Self:
        for number in range(1, INSTANCES_MAX + 1):
            name = wanted if number == 1 else f"{wanted[:60]}-{number}"
            folder = base / name
            folder.mkdir(parents=True, exist_ok=True)
            if (lock := _locked(folder)) is not None:
                return cls(folder, wanted, lock)
        raise Misconfigured(f"AIOANALYSIS_WORKER_ID: {INSTANCES_MAX} workers named {wanted} run here already")

    def abandoned(self) -> Iterator[Instance]:
        """The other instances here whose process has gone, each locked while it is in use."""
        for folder in sorted(self.folder.parent.iterdir()):
            if folder == self.folder or not folder.is_dir():
                continue
            if (lock := _locked(folder)) is None:
                continue
            try:
                yield Instance(folder, self._wanted, lock)
            finally:
                os.close(lock)

    def works_on(self, storage: str) -> None:
        """Put down which storage our claims are in."""
        write_whole(self.folder / "storage", storage.encode())

    def shares_storage(self, other: Instance) -> bool:
        """Whether `other` has last worked on the storage that we work on."""
        try:
            return (self.folder / "storage").read_bytes() == (other.folder / "storage").read_bytes()
        except OSError:
            return False

    def is_of_our_name(self, other: Instance) -> bool:
        """Whether `other` is an earlier one of this very worker, or of one beside it."""
        return re.fullmatch(re.escape(self._wanted) + r"(-\d+)?", other.name) is not None

    def _own_key(self) -> str:
        path = self.folder / "key"
        if not path.exists():
            write_whole(path, uuid4().hex.encode())
        return path.read_text(encoding="ascii")

    def new_run(self, stem: str, attempt: int) -> RunFolder:
        """A fresh folder for one run."""
        run = RunFolder(self.runs / f"{stem}.{attempt}.{uuid4().hex[:8]}")
        run.job.mkdir(parents=True)
        return run

    def left_runs(self) -> list[RunFolder]:
        """What an earlier process of this instance has left."""
        return [RunFolder(path) for path in sorted(self.runs.iterdir()) if path.is_dir()]

    def sign_of_life(self) -> None:
        """Write `alive`, by which `aioanalysis.healthcheck` knows this host's worker to be well."""
        write_whole(self.folder / "alive", self.host.encode())

    def free_bytes(self) -> int:
        return shutil.disk_usage(self.folder).free


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One run's folder. Only `job` is seen by the method; `claim` and `outcome` outlive a crash."""

    path: Path

    @property
    def job(self) -> Path:
        return self.path / "job"

    @property
    def package(self) -> Path:
        return self.path / "package.tar"

    @property
    def claim(self) -> Path:
        return self.path / "claim.json"

    @property
    def outcome(self) -> Path:
        return self.path / "outcome.json"

    def read(self, path: Path) -> dict[str, Any] | None:
        """One of our own JSON files, None when it is not there (whole)."""
        try:
            body = json.loads(read_small(path.parent, path.name, STATE_MAX_BYTES) or b"null")
        except ValueError:
            return None
        return body if isinstance(body, dict) else None

    def write(self, path: Path, body: Mapping[str, Any]) -> None:
        write_whole(path, json.dumps(body).encode())

    def remove(self) -> bool:
        """Delete all of it, whatever a method did to modes; False, and a line in the log, when that fails."""
        return remove_tree(self.path)


def write_whole(path: Path, data: bytes) -> None:
    """Write beside and rename: a reader sees the old file or the new one."""
    beside = path.with_name(f".{path.name}.part")
    beside.write_bytes(data)
    beside.replace(path)


def remove_tree(path: Path) -> bool:
    """Delete a folder whose modes a method may have taken away; whether it is gone."""
    for mend in (False, True):
        if mend:
            _make_writable(path)
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            return True
        except OSError as error:
            problem = error
        else:
            return True
    log.warning("folder_not_removed", path=str(path), cause=str(problem))
    return False


def _make_writable(root: Path) -> None:
    """Give us all rights on folders, from the top: `os.walk` lists a folder only after we have yielded."""
    with contextlib.suppress(OSError):
        _chmod(root)
        for folder, folders, _ in os.walk(root):
            for name in folders:
                with contextlib.suppress(OSError):
                    _chmod(Path(folder, name))


def _chmod(path: Path) -> None:
    if stat.S_ISDIR(path.lstat().st_mode):
        path.chmod(0o700)


def _locked(folder: Path) -> int | None:
    """The lock of an instance's folder, None when another process has it; it ends with the process."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _default_name(base: Path) -> str:
    """The host's name and a mark of this folder: two set-ups on one host are two workers."""
    mark = base / "mark"
    if not mark.exists():
        base.mkdir(parents=True, exist_ok=True)
        write_whole(mark, uuid4().hex[:4].encode())
    host = re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname().split(".")[0]).strip("-_")[:50]
    return f"{host or 'worker'}-{mark.read_text(encoding='ascii')}"
