"""How jobs, tombstones, cursors and submitters' keys are written in Redis, and read back with suspicion."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from pydantic import TypeAdapter, ValidationError

from aioanalysis.domain.frames import Hold
from aioanalysis.domain.job import Job, Tombstone, is_job_id
from aioanalysis.domain.states import State
from aioanalysis.domain.wrangling import MethodHealth
from aioanalysis.errors import Damaged, Invalid, Misconfigured

SCHEMA: Final = 1
"""Version of both documents. Fields that are unknown are passed over, missing ones take their default."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)

Place = tuple[int, str]
"""Where a job stands in an index: (microseconds of its submission, its id)."""

NO_HOLDS: Final[frozenset[Hold]] = frozenset()
NO_PARAMS: Final[Mapping[str, Any]] = {}
NEWEST: Final[Place] = (2**53, "")
T = TypeVar("T", "_JobDocument", "_TombstoneDocument")


@dataclass(frozen=True, slots=True)
class _JobDocument:
    schema: int
    job: Job


@dataclass(frozen=True, slots=True)
class _TombstoneDocument:
    schema: int
    tombstone: Tombstone


_jobs = TypeAdapter(_JobDocument)
_tombstones = TypeAdapter(_TombstoneDocument)
_health = TypeAdapter(MethodHealth)


def score(moment: datetime) -> int:
    """Microseconds since 1970, exact."""
    return (moment - EPOCH) // MICROSECOND


def moment(score: float) -> datetime:
    return EPOCH + timedelta(microseconds=int(score))


def dump_job(job: Job) -> str:
    """The job as compact JSON, without its version. Raises `Invalid` for text that is no Unicode."""
    try:
        return _jobs.dump_json(_JobDocument(SCHEMA, job), exclude={"job": {"version"}}).decode()
    except ValueError as error:
        raise Invalid("the job holds a value that cannot be stored as JSON") from error


def load_job(document: str, *, version: str, looked: datetime | None = None) -> Job:
    """Read a document; `looked` is when the scheduler last looked at all unfinished. Raises `Damaged`."""
    job = _load(_jobs, document).job
    # nobody else has it yet, and `replace` would cost as much as all the rest: a pass reads thousands
    object.__setattr__(job, "version", version)
    _share(job)
    if _is_newer(looked, job):
        object.__setattr__(job, "last_updated", looked)
    return job


def _share(job: Job) -> None:
    """Let one object stand for what is equal and never changes: of very many jobs a tenth of the memory."""
    for frame in job.frames:
        if not frame.holds:
            object.__setattr__(frame, "holds", NO_HOLDS)
        if not frame.params:
            object.__setattr__(frame, "params", NO_PARAMS)
    if job.state_changed_at == job.submitted_at:
        object.__setattr__(job, "state_changed_at", job.submitted_at)
    for event in job.history:
        for moment in (job.submitted_at, job.state_changed_at):
            if event.at == moment:
                object.__setattr__(event, "at", moment)


def found_job(version: str | None, document: str | None, looked: datetime | None) -> Job | Damaged | None:
    """What these two fields of a record hold; None where there is no record."""
    if version is None and document is None:
        return None
    if version is None or document is None:
        return Damaged("record: not a hash with version and document")
    try:
        return load_job(document, version=version, looked=looked)
    except Damaged as error:
        return error


def looked(stored: str | None) -> datetime | None:
    """When the scheduler last looked at all that is unfinished, as it is stored."""
    return moment(float(stored)) if stored else None


def looked_at(job: Job, looked: datetime | None) -> Job:
    """A job that was read earlier, now that the scheduler last looked then."""
    return replace(job, last_updated=looked) if looked is not None and _is_newer(looked, job) else job


def _is_newer(looked: datetime | None, job: Job) -> bool:
    return looked is not None and looked > job.last_updated and job.state is not State.COMPLETE


def dump_tombstone(tombstone: Tombstone) -> str:
    return _tombstones.dump_json(_TombstoneDocument(SCHEMA, tombstone)).decode()


def load_tombstone(document: str) -> Tombstone:
    """Raises `Damaged`."""
    return _load(_tombstones, document).tombstone


def dump_health(health: MethodHealth) -> str:
    return _health.dump_json(health).decode()


def load_health(document: str) -> MethodHealth:
    """Raises `Damaged`."""
    try:
        return _health.validate_json(document)
    except ValidationError as error:
        raise Damaged(f"the health of a method: {error.error_count()} fields are wrong") from None


def _load(adapter: TypeAdapter[T], document: str) -> T:
    try:
        found = adapter.validate_json(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "document"
        raise Damaged(f"{where}: {first['msg']}") from None
    except ValueError:
        raise Damaged("document: not text") from None
    if found.schema > SCHEMA:
        raise Damaged(f"document: of schema {found.schema}, this service reads up to {SCHEMA}")
    return found


def next_version(previous: str, uid: str, document: str) -> str:
    """The version that `document` gets when it replaces version `previous`.

    Made from the content: the same write made twice has the same version, so a repeat is known as done.
    """
    number = int(previous.partition(":")[0] or 0) + 1
    digest = hashlib.blake2b("\0".join((previous, uid, document)).encode(), digest_size=12)
    return f"{number}:{digest.hexdigest()}"


def write_cursor(place: Place) -> str:
    text = f"{place[0]}:{place[1]}"
    return base64.urlsafe_b64encode(f"{text}:{_checksum(text)}".encode()).decode().rstrip("=")


def read_cursor(cursor: str) -> Place:
    """Raises `Invalid` for anything that `write_cursor` did not make."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        text, _, checksum = base64.b64decode(padded, altchars=b"-_", validate=True).decode().rpartition(":")
        digits, _, job_id = text.partition(":")
        place = (int(digits), job_id)
    except (ValueError, binascii.Error):
        text, checksum, place = "", "", NEWEST
    if not is_job_id(place[1]) or checksum != _checksum(text) or write_cursor(place) != cursor:
        raise Invalid("not a cursor of this list", [("/cursor", "is not one that this service gave")])
    return place


def _checksum(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()


class Seal:
    """Seals submitters' keys with Fernet, each bound to its job: a key moved to another record is refused."""

    def __init__(self, secret: str) -> None:
        """`secret`: Fernet keys, comma separated, newest first. Raises `Misconfigured`."""
        try:
            self._fernet = MultiFernet([Fernet(part.strip()) for part in secret.split(",")])
        except ValueError:
            raise Misconfigured("AIOANALYSIS_JOB_KEY_SECRET: must be Fernet keys, comma separated") from None

    def close(self, key: str, *, job_id: str, uid: str) -> str:
        return self._fernet.encrypt(json.dumps([job_id, uid, key]).encode()).decode()

    def open(self, sealed: str, *, job_id: str, uid: str) -> str:
        """Raises `Damaged`."""
        try:
            content: Any = json.loads(self._fernet.decrypt(sealed))
        except (InvalidToken, ValueError):
            raise Damaged(
                f"the key of job {job_id}'s submitter is not sealed under AIOANALYSIS_JOB_KEY_SECRET"
            ) from None
        if not isinstance(content, list) or content[:2] != [job_id, uid] or len(content) != 3:
            raise Damaged(f"the sealed key at job {job_id} belongs to another job")
        return str(content[2])
