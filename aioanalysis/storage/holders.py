"""Who holds what in a container's folder: its lock, for the moment of a change, and the leases on blobs."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from aioanalysis.errors import Contested, LeaseLost, Unavailable
from aioanalysis.interfaces import LeaseState

LOCK_SECONDS: Final = 3.0  # less than a quarter of the shortest lease
LEASE_MAX_SECONDS: Final = 60


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path` among threads and processes; raises `Unavailable` if it is not to be had."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        deadline, pause = time.monotonic() + LOCK_SECONDS, 0.0005
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Unavailable(f"{path} is held by another process for {LOCK_SECONDS} s") from None
                time.sleep(pause)
                pause = min(2 * pause, 0.02)
        yield
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class _Lease:
    id: str
    seconds: int
    ends: float


class LeaseBook:
    """Leases as files in `folder`; every change is made while the container is locked.

    `clock` counts on for all processes of the host. After a restart of the host it begins anew: an end
    further away than the longest lease is from before it.
    """

    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._clock = clock

    def state(self, name: str) -> LeaseState:
        lease = self._read(name)
        if lease is None:
            return LeaseState.FREE
        return LeaseState.HELD if self._active(lease) else LeaseState.LAPSED

    def check(self, name: str, lease: str | None) -> None:
        """Raises if a write with `lease` (None: with none) may not touch the blob."""
        held = self._read(name)
        if held is not None and self._active(held):
            if lease is None:
                raise Contested(f"{name} is leased")
            if held.id != lease:
                raise LeaseLost(f"another holds the lease on {name}")
        elif lease is not None:
            raise LeaseLost(f"the lease on {name} has ended")

    def take(self, name: str, lease: str, seconds: int, scratch: Path) -> None:
        held = self._read(name)
        if held is not None and held.id != lease and self._active(held):
            raise LeaseLost(f"another holds the lease on {name}")
        self._write(name, lease, seconds, scratch)

    def renew(self, name: str, lease: str, scratch: Path) -> None:
        """A lease that has lapsed is renewed as well, if nobody took it or changed the blob since."""
        held = self._read(name)
        if held is None or held.id != lease:
            raise LeaseLost(f"the lease on {name} is not ours")
        self._write(name, lease, held.seconds, scratch)

    def release(self, name: str, lease: str) -> None:
        held = self._read(name)
        if held is not None and held.id == lease:
            self.drop(name)

    def drop(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)

    def _active(self, lease: _Lease | None) -> bool:
        return lease is not None and 0 < lease.ends - self._clock() <= LEASE_MAX_SECONDS

    def _read(self, name: str) -> _Lease | None:
        try:
            return _Lease(**json.loads((self._folder / name).read_bytes()))
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except (ValueError, TypeError):
            return None  # cut short by a power cut: its holder is gone too

    def _write(self, name: str, lease: str, seconds: int, scratch: Path) -> None:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_text(json.dumps(asdict(_Lease(lease, seconds, self._clock() + seconds))))
        scratch.replace(path)
