"""The Protocols between the parts; every adapter passes the one suite of its Protocol in tests/contract.

Library errors never pass an adapter: what is listed under *raises*, and `Unavailable` for whatever is passing
(network, 5xx, throttling, time-outs), is all that a caller can meet. *Repeatable* means that a call whose
reply was lost may be made again with the same arguments.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Literal, Protocol

from aioanalysis.domain.exchange import Container
from aioanalysis.domain.job import Job, Source, Tombstone
from aioanalysis.domain.method import Limits, Method
from aioanalysis.domain.outlook import Outlook, PastRun
from aioanalysis.domain.progress import Progress
from aioanalysis.domain.states import State
from aioanalysis.domain.usage import Sample
from aioanalysis.domain.wrangling import MethodHealth

# --- package storage -------------------------------------------------------------------------------------


class LeaseState(StrEnum):
    HELD = "held"
    FREE = "free"  # never held, or released
    LAPSED = "lapsed"  # ran out, and nobody has taken it since


@dataclass(frozen=True, kw_only=True, slots=True)
class BlobInfo:
    """One blob as storage describes it. `metadata` keys are lower case. `etag` changes with every write."""

    name: str
    size: int
    etag: str
    modified_at: datetime
    metadata: Mapping[str, str] = field(default_factory=dict)
    lease: LeaseState = LeaseState.FREE


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """What must hold for a write or delete: `absent` (create only) or the blob's present `etag`."""

    absent: bool = False
    etag: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Head:
    """`size` bytes to stand before a body that they depend on; `make` gives them once it has ended."""

    size: int
    make: Callable[[], bytes]


class BlobStream(Protocol):
    """A blob being read. `info` is known before the first byte (`info.size` is the whole blob's)."""

    info: BlobInfo

    def chunks(self) -> AsyncIterator[bytes]:
        """The asked bytes in order, in pieces as they come. Ends early only by raising `Unavailable`."""
        ...


class PackageStorage(Protocol):
    """The two blob containers. All methods are safe concurrently, in and across processes.

    Names and metadata that one of the backends could not keep raise `Invalid`.
    """

    async def check(self) -> str:
        """Say which account and containers these are; raises `Misconfigured` if one is not reachable."""
        ...

    def names(self, container: Container, prefix: str = "") -> AsyncIterator[str]:
        """Names of all blobs (folders included) that begin with `prefix`, in order; complete or raises."""
        ...

    def list(
        self, container: Container, prefix: str = "", *, root_only: bool = False
    ) -> AsyncIterator[BlobInfo]:
        """As `names`, with each blob's metadata and lease state; `root_only` leaves out names with a `/`."""
        ...

    async def stat(self, container: Container, name: str) -> BlobInfo | None:
        """The blob's description, None when it is not there."""
        ...

    def open(
        self,
        container: Container,
        name: str,
        *,
        start: int = 0,
        end: int | None = None,
        etag: str | None = None,
    ) -> AbstractAsyncContextManager[BlobStream]:
        """Read bytes `start` up to (not including) `end`, of the version `etag` if given.

        Whatever of that range the blob does not have is left out, as with slices.
        Leaving the context early or being cancelled frees the connection. Raises `Missing`, `Contested` when
        the blob is not (or stops being) of `etag`.
        """
        ...

    async def write(
        self,
        container: Container,
        name: str,
        body: bytes | AsyncIterator[bytes],
        *,
        head: Head | None = None,
        metadata: Mapping[str, str] | Callable[[], Mapping[str, str]] | None = None,
        condition: Condition | None = None,
        lease: str | None = None,
    ) -> BlobInfo:
        """Write a whole blob; nothing is to be seen before all of it is there, nor when `body` raises.

        Holds at most some 16 MiB. `metadata` may be a function, called when `body` has ended; so is the one
        of `head`, whose bytes come first. Repeatable with `bytes` only; raises `Contested` when `condition`
        does not hold or a lease stands in the way, at the end of the body at the latest (a lost reply looks
        the same: read back).
        """
        ...

    async def copy(
        self,
        source: tuple[Container, str],
        target: tuple[Container, str],
        *,
        metadata: Mapping[str, str],
        source_etag: str | None = None,
        condition: Condition | None = None,
        lease: str | None = None,
    ) -> BlobInfo:
        """Copy server-side, with `metadata` (not empty) in place of the source's; done when it returns.

        Raises `Missing` (no source), `Contested` (condition, source's etag, or target under another lease).
        """
        ...

    async def delete(
        self, container: Container, name: str, *, etag: str | None = None, lease: str | None = None
    ) -> bool:
        """Delete; False when it was not there. Repeatable. Raises `Contested` (etag, or another's lease)."""
        ...


class Leases(Protocol):
    """Leases on blobs; `lease` is a uuid of the holder's choosing. Seconds are 15 to 60.

    Every call ends, well or badly, within a quarter of a lease.
    """

    async def acquire_lease(
        self, container: Container, name: str, lease: str, seconds: int, *, etag: str | None = None
    ) -> None:
        """Take it; repeatable with the same `lease`. Raises `Missing`, `LeaseLost` (another holds it).

        With `etag` of that version only, else `Contested`; a lease changes no ETag.
        """
        ...

    async def renew_lease(self, container: Container, name: str, lease: str) -> None:
        """Renew for the same time again. Raises `Missing`, `LeaseLost`."""
        ...

    async def release_lease(self, container: Container, name: str, lease: str) -> None:
        """Give it up; nothing happens if it is not held or the blob has gone. Repeatable."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class BlobPage:
    """Some of a listing; `place` leads to the next, None at the end."""

    blobs: Sequence[BlobInfo]
    place: str | None


class Pages(Protocol):
    """Long listings in parts, each at its own price: what comes before it is not listed again."""

    async def page(
        self, container: Container, prefix: str = "", *, limit: int, place: str | None = None
    ) -> BlobPage:
        """Up to `limit` blobs as `PackageStorage.list` gives them, from `place` of the page before on.

        Raises `Invalid` for a place that is none.
        """
        ...


class ExchangeStorage(PackageStorage, Leases, Pages, Protocol):
    """Package storage with leases and pages: what both adapters are."""


# --- job store -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class JobFilter:
    """Which jobs to list; None or empty means any. `since` is by submission."""

    submitter: str | None = None
    states: frozenset[State] = frozenset()
    title: str | None = None
    recordset: str | None = None
    since: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class JobPage:
    """Jobs, newest first; `cursor` leads to the next page, None at the end."""

    jobs: Sequence[Job]
    cursor: str | None


class JobStore(Protocol):
    """Job records with their expiry, the submitters' lists and the index of unfinished jobs."""

    async def create(self, job: Job, key: str) -> Job:
        """Write the record with its expiry and list it, all or nothing; `key` is stored encrypted.

        Raises `Contested` when the id is taken by another uid. Repeatable.
        """
        ...

    async def get(self, job_id: str) -> Job | None:
        """The job, None when there is none; raises `Damaged`."""
        ...

    async def replace(self, job: Job, *, fence: int | None = None) -> Job:
        """Write `job` if the stored version is still `job.version`; the expiry stays. Repeatable.

        Raises `Contested` (changed meanwhile, or `fence` is older than the newest holder's), `Missing`.
        """
        ...

    async def remove(self, job: Job, tombstone: Tombstone) -> None:
        """Delete the record, leave `tombstone`. Raises `Contested` when it changed. Repeatable."""
        ...

    async def unfinished(self, *, whole: bool = True) -> tuple[Sequence[Job], Mapping[str, str]]:
        """All jobs that are not complete, oldest first, and of damaged ones id -> what is wrong.

        Made for many calls: a job that has not changed since the last one is the same object, not read again,
        and its `last_updated` that of then. Not `whole`, only what was changed is looked at, by whichever
        process: what has expired or was damaged meanwhile is seen by the next whole look.
        """
        ...

    async def page(self, wanted: JobFilter, *, limit: int, cursor: str | None = None) -> JobPage:
        """Jobs, newest first, stable under new submissions. Raises `Invalid` for a cursor that is none."""
        ...

    async def key(self, job_id: str) -> str:
        """The submitter's key in the clear; raises `Missing`, `Damaged` (sealed under a secret not ours)."""
        ...

    async def checked(self, at: datetime) -> None:
        """A pass looked at every unfinished job that was there at `at`: their `last_updated`. Repeatable."""
        ...


class JobIndex(Protocol):
    """Which jobs there are, without reading their records."""

    async def uids(self, job_ids: Collection[str]) -> Mapping[str, str]:
        """The uid of each of these jobs that has a record, empty where it cannot be read."""
        ...


class PassLog(Protocol):
    """What is known of passes, whichever process made them."""

    async def last_pass(self) -> datetime | None:
        """When `JobStore.checked` was last called; None if never."""
        ...


class Tokens(Protocol):
    """What clients' tokens stand for, so that a request made twice is done once."""

    async def claim(self, token: str, meaning: str, *, seconds: int) -> str:
        """Keep `meaning` for `token` unless it has one; the one it has, for so long from its first claim.

        Repeatable.
        """
        ...


class AttachedRecords(Protocol):
    """Records that came with a submission, compressed, in chunks beside the job's record.

    An attachment has an id of its own, which the job's source names. Until it is kept it goes by itself soon.
    """

    async def add(self, attachment: str, number: int, chunk: bytes, *, size: int) -> None:
        """Stage chunk `number` (from 0), `size` bytes with it and those before it.

        Repeatable. Raises `NoRoom` when all attachments together would be over their budget.
        """
        ...

    async def keep(self, attachment: str, until: datetime) -> None:
        """Keep all its chunks until then. Repeatable; raises `Missing` when one has gone."""
        ...

    def chunks(self, attachment: str) -> AsyncIterator[bytes]:
        """Its chunks in order; raises `Missing`."""
        ...

    async def copy(self, source: str, target: str, until: datetime) -> None:
        """Make a kept attachment of another. Repeatable; raises `Missing`, `NoRoom`."""
        ...

    async def drop(self, attachment: str) -> None:
        """Delete it; nothing happens when it is not there. Repeatable."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class JobEvent:
    """That a job was created, changed or removed; `id` grows with every event of the job store."""

    id: str
    kind: Literal["created", "changed", "removed"]
    job: str
    submitter: str
    title: str
    state: str


class JobEvents(Protocol):
    """The latest changes of all jobs, whichever process made them."""

    async def newest(self) -> str:
        """The id of the event that came last; that of the beginning when there was none."""
        ...

    async def after(self, event: str, *, limit: int) -> Sequence[JobEvent]:
        """Events after this one, oldest first.

        Raises `Missing` when some of them are not kept any more, `Invalid` when it is no id.
        """
        ...

    async def wait(self, event: str, *, limit: int) -> Sequence[JobEvent]:
        """As `after`, without a look at what has gone; waits about a second. May be cancelled."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class JobProgress:
    """How far one run of a job is; `frame` is None for a job without frames."""

    job: str
    submitter: str
    title: str
    frame: int | None
    progress: Progress


class ProgressBoard(Protocol):
    """What running jobs last told of themselves, whichever process posted it."""

    async def post(self, news: Sequence[JobProgress]) -> None:
        """Keep each as its run's latest, for a day, and tell those that wait. Repeatable."""
        ...

    async def latest(self, runs: Mapping[str, Sequence[int | None]]) -> Mapping[str, Sequence[JobProgress]]:
        """The latest of these runs (frames' numbers, by job) in one call; of jobs without any nothing."""
        ...

    async def newest(self) -> str:
        """The place from which `wait` gives what comes from now on."""
        ...

    async def wait(self, place: str, *, limit: int) -> tuple[str, Sequence[JobProgress]]:
        """What was posted after `place` and is still kept, and the next place; waits about a second.

        May be cancelled.
        """
        ...


class Outlooks(Protocol):
    """What the scheduler foresees of unfinished jobs, and the earlier runs that it tells it by."""

    async def foretell(self, outlooks: Mapping[str, Outlook]) -> None:
        """Keep these, by job, for an hour, in place of all that there were. Repeatable."""
        ...

    async def outlooks(self, job_ids: Collection[str]) -> Mapping[str, Outlook]:
        """Of those jobs that have one, in one call."""
        ...

    async def past_runs(self) -> Mapping[str, Sequence[PastRun]]:
        """The latest complete runs by their method's title, oldest first."""
        ...

    async def set_past_runs(self, title: str, runs: Sequence[PastRun]) -> None:
        """Repeatable."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, weakref_slot=True)
class Glance:
    """A job with what is known of it beside its record: what is foreseen, and how far its runs are."""

    job: Job
    outlook: Outlook | None
    progress: Sequence[JobProgress]


class Glances(Protocol):
    """Single jobs, made for many calls."""

    async def glance(self, job_id: str) -> Glance | None:
        """The job as it is now, None when there is none; raises `Damaged`, and `Unavailable` within seconds.

        As long as nothing of it changes it may be the very object that was given before.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """A browser's sign-in: the key it was made with, and what a changing request must show besides."""

    key: str
    csrf: str
    expires_at: datetime


class Sessions(Protocol):
    """Sessions by their token; only what cannot be read without the token is stored."""

    async def open(self, token: str, session: Session) -> None:
        """Keep it until it expires. Repeatable."""
        ...

    async def find(self, token: str) -> Session | None:
        """None when there is none (any more)."""
        ...

    async def close(self, token: str) -> None:
        """Forget it. Repeatable."""
        ...


class Tombstones(Protocol):
    """What is remembered of removed jobs."""

    async def tombstones(self) -> Sequence[Tombstone]: ...

    async def forget(self, tombstone: Tombstone) -> None: ...


class MethodHealthStore(Protocol):
    """What is remembered of methods whose packages fail in a row, by title."""

    async def method_health(self) -> Mapping[str, MethodHealth]: ...

    async def set_method_health(self, health: MethodHealth) -> None:
        """Repeatable."""
        ...

    async def clear_method_health(self, title: str) -> None:
        """Repeatable."""
        ...


class SubmissionStore(JobStore, JobIndex, Tokens, MethodHealthStore, Protocol):
    """Job records with the tokens of their submissions."""


class SchedulerLock(Protocol):
    """At most one holder at a time, most of the time; writes are safe without it by their fence."""

    def hold(self) -> AbstractAsyncContextManager[Holding]:
        """Wait until it is ours, keep it renewed, release it at the end; raises `Unavailable`."""
        ...


class Holding(Protocol):
    """The lock while held. `fence` grows with every holder."""

    fence: int

    @property
    def lost(self) -> bool:
        """Whether renewal failed for so long that another may hold it now: stop."""
        ...

    async def wait_lost(self) -> None:
        """Return when it is lost."""
        ...


class Bell(Protocol):
    """Wakes the scheduler, whichever process it runs in. A ring may get lost: nothing depends on it."""

    async def ring(self) -> None:
        """Never raises."""
        ...

    async def wait(self, seconds: float) -> bool:
        """Wait for a ring, at most so long; whether one came. Rings since the last wait count."""
        ...


# --- record store, identity ------------------------------------------------------------------------------


class RecordStream(Protocol):
    """Records on their way; `announced` is the number of records that the store promised, if it did."""

    announced: int | None

    def chunks(self) -> AsyncIterator[bytes]:
        """JSON Lines, decompressed, in pieces. A stream that breaks raises `Unavailable`."""
        ...


class RecordStore(Protocol):
    """Where records come from."""

    async def check(self) -> str:
        """Say which store this is; raises `Misconfigured`."""
        ...

    def open(self, source: Source, key: str) -> AbstractAsyncContextManager[RecordStream]:
        """Records of a recordset or set token, with the submitter's key.

        Raises `JobFailure` (reason `records`: 401, 403, 404 and the like, with the store's own words) and
        `Unavailable` (429, 5xx, faults, an HTML page with status 200; `retry_after` as the store says).
        """
        ...


Role = Literal["user", "administrator", "system"]


@dataclass(frozen=True, kw_only=True, slots=True)
class User:
    """Who is behind a key."""

    name: str
    role: Role = "user"

    @property
    def sees_all(self) -> bool:
        return self.role in {"administrator", "system"}


class Identity(Protocol):
    """Says who is behind a key."""

    async def identify(self, key: str) -> User | None:
        """The user, None for a key that nobody holds. Compares in constant time. Raises `Unavailable`."""
        ...


# --- runtime ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class MethodDirectory:
    """A method as deployed: its definition, its directory, and the digest of all that its build takes."""

    method: Method
    path: Path
    digest: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """What a method runs from: an image id (docker) or the method's directory (process)."""

    id: str
    digest: str
    base: str | None = None
    built: bool = False  # False: nothing had changed


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSpec:
    """One run. `name` is unique a run; `labels` find it again; `job_dir` is mounted at /job.

    `alive_seconds`: the orchestrator ends the run when `job_dir/.alive` is older than this.
    """

    name: str
    labels: Mapping[str, str]
    job_dir: Path
    method: MethodDirectory
    limits: Limits
    alive_seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Exit:
    """How a run ended. `code` is None when the engine cannot tell; `detail` holds its words."""

    code: int | None
    out_of_memory: bool = False
    started_at: datetime | None = None
    finished_at: datetime | None = None
    output_tail: str = ""
    detail: str = ""


class Runtime(Protocol):
    """Runs a method's five stages on a job directory: the docker engine, or child processes.

    Run ids are the runtime's own. Raises `MethodFailure` for the method's faults, `Unavailable` for the
    engine's.
    """

    name: str

    async def check(self) -> str:
        """Say which engine this is (name and version); raises `Unavailable`."""
        ...

    async def build(self, directory: MethodDirectory) -> Image:
        """The image of this very content: built now if absent, else nothing is paid.

        Raises `MethodFailure` (reason `image`, with the end of the build's output). Concurrent calls for one
        digest build once.
        """
        ...

    async def start(self, image: Image, spec: RunSpec) -> str:
        """Start a run, return its id. Raises `MethodFailure` (reason `container`)."""
        ...

    async def wait(self, run: str) -> Exit:
        """Wait for the run's end, through engine restarts. Repeatable; may be cancelled."""
        ...

    async def sample(self, run: str) -> Sample | None:
        """One reading; None when there is nothing (more) to read. Never raises for a run that has ended."""
        ...

    async def kill(self, run: str) -> None:
        """End the run within seconds, its children included. Repeatable."""
        ...

    async def remove(self, run: str) -> None:
        """Take away all that the run left in the engine; done when it returns. Repeatable."""
        ...

    async def leftovers(self, label: str, value: str) -> Sequence[str]:
        """Ids of runs, running or ended, whose `label` is `value`."""
        ...


class Clearing(Protocol):
    """Takes away what a worker that is not root has no right to."""

    async def clear(self, folder: Path) -> None:
        """Delete all that is in `folder`, whoever owns it; nothing may run there any more. Repeatable.

        Raises `Unavailable` when it cannot be done here.
        """
        ...


class WorkerRuntime(Runtime, Clearing, Protocol):
    """A runtime that also clears up: what both adapters are."""
