"""Files in storage that belong to no job: what a name says of its file, and which are orphans, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from aioanalysis.domain.exchange import (
    ATTEMPTS,
    CLAIMED,
    CONTROL,
    PROGRESS,
    SNAPSHOTS,
    WORKERS,
    Container,
    PackageMeta,
    parse_stem,
)


class Kind(StrEnum):
    """What a file is, by its place and name."""

    PACKAGE = "package"  # in the queue
    CLAIM = "claim"
    RESULT = "result"
    FAILED_RESULT = "failed_result"
    SIDECAR = "sidecar"
    ATTEMPT = "attempt"
    SNAPSHOT = "snapshot"
    PROGRESS = "progress"
    CONTROL = "control"
    WORKER = "worker"
    FOREIGN = "foreign"  # by no name of ours


class OrphanReason(StrEnum):
    EXPIRED = "expired"  # its job's time is over
    REPLACED = "replaced"  # its job's id is another job's now
    WORKER = "worker"  # of a worker that has not been seen for as long as jobs live
    UNKNOWN = "unknown"  # no record of its job, whose time may not be over: `rebuild` could make it again
    FOREIGN = "foreign"  # by no name of ours


REMOVABLE: Final = frozenset(OrphanReason) - {OrphanReason.FOREIGN}
SURE: Final = REMOVABLE - {OrphanReason.UNKNOWN}
"""What a sweep takes unless more is asked for: nothing that anybody could still want."""


@dataclass(frozen=True, slots=True)
class Name:
    """What a name says: the kind of file, and the id of the job that it belongs to, if it is a job's."""

    kind: Kind
    job_id: str | None = None


_QUEUE: Final = ((Kind.PACKAGE, re.compile(r"([^/]+)\.tar")),)
_RESULTS: Final = (
    (Kind.CLAIM, re.compile(rf"{CLAIMED}([^/]+)\.tar")),
    (Kind.RESULT, re.compile(r"([^/]+)\.zip")),
    (Kind.FAILED_RESULT, re.compile(r"([^/]+)\.failed\.zip")),
    (Kind.SIDECAR, re.compile(r"([^/]+?)(?:\.failed)?\.metadata\.json")),
    (Kind.ATTEMPT, re.compile(rf"{ATTEMPTS}([^/]+?)\.[0-9]+(?:\.failed|\.killed)?\.(?:zip|metadata\.json)")),
    (Kind.SNAPSHOT, re.compile(rf"{SNAPSHOTS}([^/]+)\.jsonl\.gz")),
    (Kind.PROGRESS, re.compile(rf"{PROGRESS}([^/]+)\.(?:json|log)")),
    (Kind.CONTROL, re.compile(rf"{CONTROL}([^/]+)\.json")),
)
_WORKER: Final = re.compile(rf"{WORKERS}[A-Za-z0-9._-]+\.json")


def read_name(container: Container, name: str) -> Name:
    """Take the name of a file of `container` apart; what is not exactly one of ours is foreign."""
    for kind, pattern in _QUEUE if container is Container.QUEUE else _RESULTS:
        match = pattern.fullmatch(name)
        stem = parse_stem(match[1]) if match else None
        if stem is not None:
            return Name(kind, stem.job_id)
    if container is Container.RESULTS and _WORKER.fullmatch(name):
        return Name(Kind.WORKER)
    return Name(Kind.FOREIGN)


def orphaned(
    name: Name,
    meta: PackageMeta,
    *,
    modified_at: datetime,
    held: bool,
    job_uid: str | None,
    now: datetime,
    safe_age: timedelta,
    job_expiry: timedelta,
) -> OrphanReason | None:
    """Why the file is an orphan, None when it is none, or too young to tell, or a worker holds it.

    `job_uid` is the uid of the job that has the file's id, looked up *after* the file was seen: a job's
    record is there before its files, so that a file without one has lost it. None: there is no such job; an
    empty text: its record cannot be read, and all files of that id are taken for its own.
    """
    if held or now - modified_at < safe_age:
        return None
    is_past = now - modified_at >= job_expiry
    if name.kind is Kind.FOREIGN:
        return OrphanReason.FOREIGN
    if name.kind is Kind.WORKER:
        return OrphanReason.WORKER if is_past else None
    if job_uid is not None:
        return OrphanReason.REPLACED if job_uid and meta.uid not in {None, job_uid} else None
    is_over = meta.expires_at <= now if meta.expires_at is not None else is_past
    return OrphanReason.EXPIRED if is_over else OrphanReason.UNKNOWN
