"""What a method's build is given: the members of its context, their normalised form, and their digest."""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, NoReturn

from aioanalysis.domain.outcomes import Reason
from aioanalysis.errors import MethodFailure

ORCHESTRATOR: Final = Path(__file__).with_name("orchestrator.py")
SHARED: Final = "_shared"
"""Folder beside the methods that every build gets as `_shared/`, on PYTHONPATH in the run."""

_EXCLUDED = re.compile(r"__pycache__|\.git|\.dockerignore|\.DS_Store|.*\.pyc|.*~|\..*\.sw[op]")
_EXCLUDED_AT_TOP = frozenset({"sample"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """One member of a build context: its name there, and with a normalised mode; `target` is a link's.

    `mark` changes when the file on disk does.
    """

    name: str
    path: Path
    kind: Literal["file", "directory", "link"]
    mode: int
    target: str = ""
    mark: tuple[int, ...] = ()


class ContextDigest:
    """SHA-256 over a build context: names, modes and contents in order, and the base image's name."""

    def __init__(self, base_image: str | None) -> None:
        self._sha = hashlib.sha256(f"base {base_image or ''}\n".encode())

    def member(self, member: Member, size: int) -> None:
        """Begin a member; a file's `size` bytes of `data` follow."""
        facts = [member.name, member.kind, oct(member.mode), member.target, size]
        self._sha.update(json.dumps(facts).encode() + b"\n")

    def data(self, chunk: bytes) -> None:
        self._sha.update(chunk)

    def hexdigest(self) -> str:
        return self._sha.hexdigest()


def build_context(path: Path) -> list[Member]:
    """All that a build of the method in `path` takes, sorted by name; raises `MethodFailure`, `OSError`.

    That is its directory, the methods' shared folder, and the service's orchestrator (never one of its own).
    """
    members = {member.name: member for member in _walk(path, "")}
    shared = path.parent / SHARED
    if shared.is_dir():
        members[SHARED] = _member(shared, SHARED)
        members |= {member.name: member for member in _walk(shared, f"{SHARED}/")}
    members[ORCHESTRATOR.name] = _member(ORCHESTRATOR, ORCHESTRATOR.name)
    return [members[name] for name in sorted(members)]


def _walk(folder: Path, prefix: str) -> Iterator[Member]:
    for path in folder.iterdir():
        if _EXCLUDED.fullmatch(path.name) or (not prefix and path.name in _EXCLUDED_AT_TOP):
            continue
        member = _member(path, prefix + path.name)
        yield member
        if member.kind == "directory":
            yield from _walk(path, f"{member.name}/")


def _member(path: Path, name: str) -> Member:
    facts = path.lstat()
    mark = (facts.st_ino, facts.st_mode, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
    if stat.S_ISDIR(facts.st_mode):
        return Member(name=name, path=path, kind="directory", mode=0o755, mark=mark[:2])
    if stat.S_ISLNK(facts.st_mode):
        return Member(name=name, path=path, kind="link", mode=0o777, target=_target(path, name), mark=mark)
    if not stat.S_ISREG(facts.st_mode):
        _fail(f"{name} is neither a file nor a directory.")
    mode = 0o755 if facts.st_mode & stat.S_IXUSR else 0o644
    return Member(name=name, path=path, kind="file", mode=mode, mark=mark)


def _target(path: Path, name: str) -> str:
    target = str(path.readlink())
    leads_to = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    if leads_to.startswith(("/", "..")):
        _fail(f"{name} is a link that leads out of the method's directory, to {target}.")
    return target


def context_digest(members: Sequence[Member], base_image: str | None) -> str:
    """The digest of a whole context, read from disk; blocks."""
    digest = ContextDigest(base_image)
    for member in members:
        if member.kind != "file":
            digest.member(member, 0)
            continue
        with member.path.open("rb") as file:
            digest.member(member, os.fstat(file.fileno()).st_size)
            while chunk := file.read(1 << 20):
                digest.data(chunk)
    return digest.hexdigest()


def _fail(text: str) -> NoReturn:
    raise MethodFailure(Reason.METHOD, text)
