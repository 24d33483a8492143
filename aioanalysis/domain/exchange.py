"""The contract between scheduler and worker over storage: names, metadata, sidecar, who writes what when.

The order is the protocol (PROTOCOL.md sections 1 and 2)::

    scheduler   queue    <stem>.tar                       uploaded whole before it can be seen
    worker      lease the root, copy it to claimed/<stem>.tar, lease the claim, delete the root
    worker      results  <stem>.zip | <stem>.failed.zip   create if absent
    worker      results  its .metadata.json               create if absent: the commit point
    worker      release the claim's lease
    scheduler   applies the outcome, then deletes claim, control and progress

*stem* is `<title>.<id>`, with frames `<title>.<id>-<n>`. A blob whose uid is not the job's is not the job's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from urllib.parse import quote, unquote

from aioanalysis.domain import foreign
from aioanalysis.domain.outcomes import JobError
from aioanalysis.domain.usage import Usage
from aioanalysis.errors import Damaged

VERSION: Final = 1
"""Version of names, metadata and sidecar; a reader takes older ones, a newer one is left alone."""

_STEM = re.compile(
    r"(?P<title>[A-Za-z0-9][A-Za-z0-9_-]{0,63})\.(?P<id>[0-9a-hjkmnp-tv-z]{8})(?:-(?P<frame>[1-9][0-9]{0,3}))?"
)
_RESULT = re.compile(
    rf"(?P<stem>{_STEM.pattern})(?P<failed>\.failed)?(?:(?P<package>\.zip)|\.metadata\.json)"
)
SIDECAR_MAX_BYTES: Final = 8 * 1024 * 1024
PROGRESS_MAX_BYTES: Final = 64 * 1024


class Container(StrEnum):
    """The two blob containers, by role; their real names are settings."""

    QUEUE = "queue"
    RESULTS = "results"


class Ending(StrEnum):
    """The two ways a run can end, and the suffix of its package."""

    COMPLETE = ".zip"
    FAILED = ".failed.zip"

    @property
    def sidecar_suffix(self) -> str:
        return ".metadata.json" if self is Ending.COMPLETE else ".failed.metadata.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Stem:
    """A stem taken apart."""

    title: str
    job_id: str
    frame: int | None = None

    def __str__(self) -> str:
        tail = "" if self.frame is None else f"-{self.frame}"
        return f"{self.title}.{self.job_id}{tail}"


def parse_stem(text: str) -> Stem | None:
    """`text` as a stem, or None where it is none."""
    match = _STEM.fullmatch(text)
    if match is None:
        return None
    frame = match["frame"]
    return Stem(title=match["title"], job_id=match["id"], frame=int(frame) if frame else None)


def package_name(stem: str) -> str:
    return f"{stem}.tar"


def claim_name(stem: str) -> str:
    return f"{CLAIMED}{stem}.tar"


def result_name(stem: str, ending: Ending) -> str:
    return f"{stem}{ending.value}"


def sidecar_name(stem: str, ending: Ending) -> str:
    return f"{stem}{ending.sidecar_suffix}"


def control_name(stem: str) -> str:
    return f"{CONTROL}{stem}.json"


def progress_name(stem: str) -> str:
    return f"{PROGRESS}{stem}.json"


def progress_log_name(stem: str) -> str:
    return f"{PROGRESS}{stem}.log"


def attempt_name(stem: str, attempt: int, suffix: str) -> str:
    """`suffix` is `.zip` (stale), `.failed.zip` or `.killed.zip`, or such a package's sidecar suffix."""
    return f"{ATTEMPTS}{stem}.{attempt}{suffix}"


def snapshot_name(name: str) -> str:
    """`name` is a job's, `<title>.<id>`."""
    return f"{SNAPSHOTS}{name}.jsonl.gz"


def worker_name(worker: str) -> str:
    return f"{WORKERS}{worker}.json"


CLAIMED: Final = "claimed/"
CONTROL: Final = "control/"
PROGRESS: Final = "progress/"
ATTEMPTS: Final = "attempts/"
SNAPSHOTS: Final = "snapshots/"
WORKERS: Final = "workers/"


def stem_of_package(name: str) -> str | None:
    """The stem of `<stem>.tar` or `claimed/<stem>.tar`; None for any other name."""
    bare = name.removeprefix(CLAIMED)
    if "/" in bare or not bare.endswith(".tar"):
        return None
    stem = bare.removesuffix(".tar")
    return stem if parse_stem(stem) else None


def parse_result(name: str) -> tuple[str, Ending, bool] | None:
    """(stem, ending, is the sidecar) of a file in the root of results; None for any other name."""
    match = _RESULT.fullmatch(name)
    if match is None:
        return None
    ending = Ending.COMPLETE if match["failed"] is None else Ending.FAILED
    return match["stem"], ending, match["package"] is None


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageMeta:
    """What a package's blob says of it; every value travels as printable ASCII.

    `records` is the number of records packaged, `sha256` that of the tar. A package of an older tool has
    none of this: all None, attempt 1.
    """

    uid: str | None = None
    attempt: int = 1
    owner: str | None = None
    submitted_at: datetime | None = None
    deadline: datetime | None = None
    expires_at: datetime | None = None
    sha256: str | None = None
    records: int | None = None
    nonce: str | None = None  # claims only
    worker: str | None = None  # claims only

    def to_metadata(self) -> dict[str, str]:
        pairs = {
            "uid": self.uid,
            "attempt": str(self.attempt),
            "owner": quote(self.owner) if self.owner is not None else None,
            "submitted_at": self.submitted_at.isoformat() if self.submitted_at else None,
            "deadline": self.deadline.isoformat() if self.deadline else None,
            "expires_at": self.expires_at.isoformat() if self.expires_at else None,
            "sha256": self.sha256,
            "records": str(self.records) if self.records is not None else None,
            "nonce": self.nonce,
            "worker": self.worker,
        }
        return {key: value for key, value in pairs.items() if value is not None}

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str]) -> PackageMeta:
        get = {key.lower(): value for key, value in metadata.items()}.get
        owner = get("owner")
        return cls(
            uid=get("uid"),
            attempt=_whole(get("attempt")) or 1,
            owner=unquote(owner) if owner is not None else None,
            submitted_at=foreign.moment(get("submitted_at")),
            deadline=foreign.moment(get("deadline")),
            expires_at=foreign.moment(get("expires_at")),
            sha256=get("sha256"),
            records=_whole(get("records")),
            nonce=get("nonce"),
            worker=get("worker"),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class RunMark:
    """Who wrote a result package or sidecar: the blob metadata that decides conflicts and staleness.

    `attempt` is None on files of an older worker: they count as the last packaged attempt.
    """

    uid: str | None = None
    attempt: int | None = None
    nonce: str | None = None
    sha256: str | None = None
    crc32: str | None = None  # of a zip, 8 hex digits: what a zip of zips needs to know

    def to_metadata(self) -> dict[str, str]:
        pairs = {
            "uid": self.uid,
            "attempt": str(self.attempt) if self.attempt is not None else None,
            "nonce": self.nonce,
            "sha256": self.sha256,
            "crc32": self.crc32,
        }
        return {key: value for key, value in pairs.items() if value is not None}

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str]) -> RunMark:
        get = {key.lower(): value for key, value in metadata.items()}.get
        return cls(
            uid=get("uid"),
            attempt=_whole(get("attempt")),
            nonce=get("nonce"),
            sha256=get("sha256"),
            crc32=get("crc32"),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultPackage:
    """The zip a sidecar speaks for: if any of these differs from the blob, the sidecar is not its own."""

    name: str
    size: int
    sha256: str
    crc32: str
    etag: str

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "size": self.size,
            "sha256": self.sha256,
            "crc32": self.crc32,
            "etag": self.etag,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Sidecar:
    """`<stem>.metadata.json` or its failed twin, as read: what the scheduler needs, the rest in `body`.

    An older worker's sidecar is a usage summary with `error`; uid, attempt and package are then None.
    """

    uid: str | None
    attempt: int | None
    nonce: str | None
    error: JobError | None
    usage: Usage | None
    packaged_count: int | None
    worker: str | None
    package_sha256: str | None
    result_sha256: str | None
    result_bytes: int | None = None
    body: Mapping[str, Any] = field(default_factory=dict)


def parse_sidecar(data: bytes) -> Sidecar:
    """Read a sidecar; raises `Damaged` for what is no JSON object or of a newer version.

    Of what only informs (usage, worker), a part of another form than ours is unknown: older workers count.
    """
    try:
        body = json.loads(data.decode("utf-8"), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"not JSON: {error}") from error
    if not isinstance(body, dict):
        raise Damaged("not a JSON object")
    _require_known(body.get("version", VERSION))
    for key in ("uid", "nonce"):
        if not isinstance(body.get(key), str | None):
            raise Damaged(f"{key} is not a string")
    usage, result = body.get("usage"), body.get("result")
    return Sidecar(
        uid=body.get("uid"),
        attempt=_whole(body.get("attempt")),
        nonce=body.get("nonce"),
        error=_error(body.get("error")),
        usage=Usage.from_json(usage) if isinstance(usage, dict) else None,
        packaged_count=_whole(body.get("records")),
        worker=_part(body, "worker", "host"),
        package_sha256=_part(body, "package", "sha256"),
        result_sha256=_part(body, "result", "sha256"),
        result_bytes=_whole(result.get("size")) if isinstance(result, dict) else None,
        body=body,
    )


def _part(body: Mapping[str, Any], name: str, key: str) -> str | None:
    part = body.get(name)
    value = part.get(key) if isinstance(part, dict) else None
    return value if isinstance(value, str) else None


def _require_known(version: object) -> None:
    if not isinstance(version, int) or version > VERSION:
        raise Damaged(f"of version {version!r:.40}, this service reads up to {VERSION}")


def _no_number(name: str) -> None:
    """NaN and Infinity, which some JSON writers let through: a figure not known."""


def _error(value: object) -> JobError | None:
    if value is None:
        return None
    return JobError.from_json(value if isinstance(value, dict) else {"message": str(value)})


@dataclass(frozen=True, kw_only=True, slots=True)
class Control:
    """`control/<stem>.json`: what the worker shall do with this attempt's run."""

    attempt: int
    action: str  # kill, interrupt or discard

    def to_bytes(self) -> bytes:
        return json.dumps({"version": VERSION, "attempt": self.attempt, "action": self.action}).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Control:
        """Raises `Damaged` for what cannot be read, or is of a newer version."""
        try:
            body = json.loads(data)
            _require_known(body.get("version", VERSION))
            return cls(attempt=int(body["attempt"]), action=str(body["action"]))
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise Damaged(f"control blob cannot be read: {error}") from error


def _whole(value: object) -> int | None:
    try:
        return int(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else None
    except ValueError:
        return None
