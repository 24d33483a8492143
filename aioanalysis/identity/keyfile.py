"""Identity from a key file: JSON Lines, one hashed key a line, kept by hand or by `aioanalysis keys`.

::

    # blank lines and lines that begin with # are left alone
    {"user": "ana", "role": "administrator", "sha256": "9f86...", "created": "2026-01-05T10:00:00+00:00"}
    {"user": "ben", "sha256": "60303a...", "label": "laptop"}

`role` is `user` (the default) or `administrator`; `created` and `label` are for people. The hash is a plain
SHA-256: a key is 256 random bits (`new_key`), so there is nothing to guess that a slow hash would protect.
Keys thought up by people do not belong here.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from aioanalysis import logs
from aioanalysis.aio import in_thread
from aioanalysis.errors import Invalid, Misconfigured, NotFound
from aioanalysis.interfaces import User

KEY_PREFIX: Final = "aioa_"
KEY_BYTES: Final = 32
FOREIGN: Final = re.compile(r"[!-~]{32,512}")
FINGERPRINT_LENGTH: Final = 12
USER_LENGTH: Final = 128
RESERVED: Final = frozenset({"system", "scheduler", "api"})
"""Names that stand for the platform itself, in jobs and their history."""
FIELDS: Final = frozenset({"user", "role", "sha256", "created", "label"})

log = logs.get()


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyEntry:
    """One line of the file. The key itself is nowhere."""

    user: str
    role: Literal["user", "administrator"] = "user"
    sha256: str
    created: str = ""
    label: str = ""

    @property
    def fingerprint(self) -> str:
        """What names the key to people."""
        return self.sha256[:FINGERPRINT_LENGTH]

    def to_line(self) -> str:
        pairs = {
            "user": self.user,
            "role": self.role,
            "sha256": self.sha256,
            "created": self.created,
            "label": self.label,
        }
        return json.dumps({name: value for name, value in pairs.items() if value}, ensure_ascii=False)


class KeyFileIdentity:
    """The keys of `path` and the system token, each of which may be missing.

    The file is looked at again after `recheck_seconds`, and at once for a key that is not known, so that one
    added or removed counts without a restart; a file that cannot be read then leaves the keys as they were,
    with the reason in the log.
    """

    def __init__(
        self, path: Path | None, system_token: str | None = None, *, recheck_seconds: float = 1.0
    ) -> None:
        self._path = path
        self._recheck_seconds = recheck_seconds
        self._next_look = 0.0
        self._version: object = None
        self._holders: Sequence[tuple[bytes, User]] = ()
        self._known: dict[bytes, User] = {}
        """Those of them that were presented, until the file is read again."""
        self._system = ((digest(system_token), User(name="system", role="system")),) if system_token else ()

    async def load(self) -> None:
        """Read the file; raises `Misconfigured` naming file and line."""
        if self._path is not None:
            self._next_look = asyncio.get_running_loop().time() + self._recheck_seconds
            version = await in_thread(_version, self._path)
            found = await in_thread(entries, self._path)
            self._holders = [
                (bytes.fromhex(entry.sha256), User(name=entry.user, role=entry.role)) for entry in found
            ]
            self._known = {}
            self._version = version  # last: until then whoever does not find a key reads for himself

    async def identify(self, key: str) -> User | None:
        if self._path is not None and asyncio.get_running_loop().time() >= self._next_look:
            await self._look_again()
        presented = digest(key)
        user = self._known.get(presented) or self._holder(presented)
        if user is None:
            await self._look_again()
            user = self._holder(presented)
        return user

    def _holder(self, presented: bytes) -> User | None:
        """Looks at every key, whichever fits, so that the time taken tells nothing."""
        holder = None
        for known, user in (*self._holders, *self._system):
            if hmac.compare_digest(known, presented):
                holder = user
        if holder is not None:
            self._known[presented] = holder
        return holder

    async def _look_again(self) -> None:
        """Read the file if it has changed."""
        if self._path is None:
            return
        self._next_look = asyncio.get_running_loop().time() + self._recheck_seconds
        version = await in_thread(_version, self._path)
        if version == self._version:
            return
        try:
            await self.load()
        except Misconfigured as error:
            self._version = version  # told once
            log.error("key_file_not_read", reason=str(error), keys_kept=len(self._holders))
        else:
            log.info("key_file_read", file=str(self._path), keys=len(self._holders))


def digest(key: str) -> bytes:
    """SHA-256 of a key, of any text."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()


def new_key(
    user: str, role: Literal["user", "administrator"] = "user", label: str = "", *, key: str | None = None
) -> tuple[str, KeyEntry]:
    """A fresh key, to be shown once, and its entry; or the entry of a `key` that the user has already.

    Raises `Invalid` for a name that cannot be one, and for a `key` too short to be hashed without a salt.
    """
    if key is not None and not FOREIGN.fullmatch(key):
        raise Invalid("a key is 32 to 512 letters, digits and signs, without blanks")
    key = key or KEY_PREFIX + secrets.token_urlsafe(KEY_BYTES)
    entry = KeyEntry(
        user=user,
        role=role,
        sha256=digest(key).hex(),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        label=label,
    )
    try:
        return key, _entry(json.loads(entry.to_line()))
    except ValueError as error:
        raise Invalid(f"no such key can be made: {error}") from error


def entries(path: Path) -> list[KeyEntry]:
    """The keys of the file; raises `Misconfigured` naming file and line."""
    return [entry for _, entry in _parsed(path, _lines(path)) if entry is not None]


def add(path: Path, entry: KeyEntry) -> None:
    """Add a key; makes the file if there is none.

    Raises `Misconfigured` when the file is bad, `Invalid` when it has the key already.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with _editing(path):
        lines = _lines(path) if path.exists() else []
        if any(known and known.sha256 == entry.sha256 for _, known in _parsed(path, lines)):
            raise Invalid(f"{path} has this key already")
        _write(path, [*lines, entry.to_line()])


def remove(path: Path, fingerprint: str) -> KeyEntry:
    """Take out the one key whose SHA-256 begins with `fingerprint`, and return its entry.

    Raises `Misconfigured` when the file is bad, `NotFound` when no key or more than one begins like this.
    """
    with _editing(path):
        parsed = list(_parsed(path, _lines(path)))
        fitting = [entry for _, entry in parsed if entry and entry.sha256.startswith(fingerprint)]
        if len(fitting) != 1:
            raise NotFound(f"{path}: {len(fitting) or 'no'} keys begin with {fingerprint!r}")
        _write(path, [line for line, entry in parsed if entry is not fitting[0]])
        return fitting[0]


def _parsed(path: Path, lines: Sequence[str]) -> Iterator[tuple[str, KeyEntry | None]]:
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            yield line, None
            continue
        try:
            entry = _entry(json.loads(line))
            if entry.sha256 in seen:
                raise ValueError(f"the same key as in line {seen[entry.sha256]}")
        except json.JSONDecodeError as error:
            raise Misconfigured(f"{path}, line {number}: not JSON at column {error.colno}") from error
        except (ValueError, RecursionError) as error:
            raise Misconfigured(f"{path}, line {number}: {error}") from error
        seen[entry.sha256] = number
        yield line, entry


def _entry(value: Any) -> KeyEntry:
    if not isinstance(value, dict) or not all(isinstance(part, str) for part in value.values()):
        raise ValueError("must be a JSON object of strings")
    if not all(part.isprintable() for part in value.values()):
        raise ValueError("must be printable text on one line")
    if unknown := value.keys() - FIELDS:
        raise ValueError(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(sorted(FIELDS))}")
    user, role, sha256 = value.get("user", ""), value.get("role", "user"), value.get("sha256", "")
    if not 0 < len(user) <= USER_LENGTH or user != user.strip():
        raise ValueError(f"`user` must be 1 to {USER_LENGTH} characters, without blanks around")
    if user in RESERVED:
        raise ValueError(f"`user` must not be {user}: that name is the platform's own")
    if role not in {"user", "administrator"}:
        raise ValueError("`role` must be user or administrator")
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise ValueError("`sha256` must be 64 lower-case hexadecimal digits")
    return KeyEntry(
        user=user,
        role=role,
        sha256=sha256,
        created=value.get("created", ""),
        label=value.get("label", ""),
    )


def _lines(path: Path) -> list[str]:
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise Misconfigured(f"{path} is not there; `aioanalysis keys add` makes it") from error
    except OSError as error:
        raise Misconfigured(f"{path} cannot be read: {error.strerror}") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Misconfigured(f"{path}, line {line}: not UTF-8") from error
    return [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")] if text else []


@contextmanager
def _editing(path: Path) -> Iterator[None]:
    """Alone among those who edit; readers need no lock, the file is replaced whole."""
    try:
        folder = os.open(path.resolve().parent, os.O_RDONLY)
    except OSError as error:
        raise Misconfigured(f"the folder of {path} cannot be opened: {error.strerror}") from error
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _write(path: Path, lines: Sequence[str]) -> None:
    target = path.resolve()
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")  # mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())
            if os.geteuid() == 0 and target.exists():
                # The service may run as another user: root's edit must not lock it out.
                os.fchown(file.fileno(), target.stat().st_uid, target.stat().st_gid)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _version(path: Path) -> object:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
