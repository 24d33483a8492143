"""What the service answers, as typed dictionaries: its JSON as it came, with the fields' types beside it."""

from __future__ import annotations

from typing import Any, Final, Literal, TypedDict

State = Literal[
    "waiting", "queued", "running", "complete", "failed", "blocked", "failing", "retrying", "killed"
]
UNFINISHED: Final = frozenset({"waiting", "queued", "running", "blocked", "failing", "retrying"})
"""States that a job leaves by itself, or once it is unblocked."""


class ErrorJson(TypedDict):
    """Why a run failed: `reason` for programs, `message` for people; `error` is what `script` printed."""

    reason: str
    message: str
    script: str | None
    error: str | None


class WhyJson(TypedDict):
    """Why a job is not finished. `position` counts from 1; what is not known is null."""

    code: str
    text: str
    until: str | None
    position: int | None
    expected_start: str | None
    expected_finish: str | None


class ProgressJson(TypedDict):
    """How far a run under way is: `fraction` (0 to 1) and `message` are what its stage says of itself."""

    frame: int | None
    stage: int
    stages: int
    name: str | None
    message: str | None
    fraction: float | None
    at: str


class UsageJson(TypedDict):
    """What a run used; CPU in percent of one core, sizes in bytes, times in seconds or RFC 3339 UTC."""

    started_at: str | None
    finished_at: str | None
    wall_seconds: float | None
    samples: int
    interval_seconds: float
    cpu_percent: dict[str, float | None]
    memory_bytes: dict[str, int | None]
    cpu_seconds: float | None
    network_bytes: int | None
    block_bytes: int | None
    series: list[dict[str, Any]]


class LimitsJson(TypedDict):
    """What a run may use; null means the analysis host's own setting, or that it is not known."""

    run_seconds: float | None
    silence_seconds: float | None
    memory_bytes: int | None
    cpus: float | None
    output_bytes: int | None


class RunUsageJson(TypedDict):
    """What a run used, so far if it is under way, and the limits in force."""

    usage: UsageJson | None
    limits: LimitsJson


class AttemptJson(TypedDict):
    """A run that is over."""

    attempt: int
    ending: str
    started_at: str | None
    finished_at: str | None
    host: str | None
    exit_code: int | None
    error: ErrorJson | None
    usage: UsageJson | None


HistoryJson = TypedDict(
    "HistoryJson",
    {"at": str, "event": str, "from": State | None, "to": State, "by": str, "note": str | None},
)


class FramesJson(TypedDict):
    """How many frames there are, and in which states."""

    total: int
    by_state: dict[State, int]


class JobSummaryJson(TypedDict):
    """A job as a list tells it; times are RFC 3339 UTC."""

    id: str
    title: str
    params: dict[str, Any]
    recordset: str | None
    set_token: str | None
    attached: bool
    record_count: int | None
    packaged_count: int | None
    tags: list[str]
    submitter: str
    state: State
    submitted_at: str
    expires_at: str
    deadline: str
    last_updated: str
    state_changed_at: str
    attempt: int
    recoveries: int
    retries: int
    frames: FramesJson | None
    holds: list[str]
    actions: list[str]
    resubmitted_from: str | None
    error: ErrorJson | None
    usage: UsageJson | None
    why: WhyJson | None
    progress: list[ProgressJson]
    links: dict[str, str | None]


class JobJson(JobSummaryJson):
    """A job, whole."""

    selection: dict[str, list[str] | None] | None
    split: dict[str, int | str | None] | None
    after: list[dict[str, Any]]
    wrangled: str | None
    attempts: list[AttemptJson]
    history: list[HistoryJson]


class FrameSummaryJson(TypedDict):
    """A frame as a list tells it; `params` are what differs from the job's."""

    number: int
    state: State
    params: dict[str, Any]
    value: str | None
    records: int | None
    packaged_count: int | None
    holds: list[str]
    attempt: int
    recoveries: int
    retried: int
    error: ErrorJson | None
    usage: UsageJson | None
    links: dict[str, str | None]


class FrameJson(FrameSummaryJson):
    """A frame, whole."""

    attempts: list[AttemptJson]


class MethodJson(TypedDict):
    """A method's definition; `parameters` is a JSON Schema."""

    title: str
    label: str
    description: str
    version: str
    parameters: dict[str, Any]
    limits: LimitsJson
    network: bool
    digest: str


class FileJson(TypedDict):
    """A member of a package; sizes in bytes."""

    path: str
    size: int
    compressed_size: int
    crc32: str
    media_type: str
    link: str


class KeptJson(TypedDict):
    """The package of an earlier attempt: how that ended, and its name in storage."""

    attempt: int
    ending: Literal["complete", "failed", "killed"]
    name: str
    size: int
    modified_at: str
    link: str


class LinkJson(TypedDict):
    """An address that needs no key until it expires."""

    link: str
    expires_at: str


class BlobJson(TypedDict):
    """A file in storage; what its metadata does not tell is null. `held`: a worker has a lease on it."""

    container: Literal["queue", "results"]
    name: str
    size: int
    modified_at: str
    held: bool
    job: str | None
    attempt: int | None
    owner: str | None
    worker: str | None
    sha256: str | None
    link: str


class HoldingJson(TypedDict):
    """So many files of one kind."""

    container: Literal["queue", "results"]
    kind: str
    files: int
    bytes: int


class OrphanReasonJson(TypedDict):
    """So many orphans for one reason; a sweep takes them (`removable`), unasked even (`sure`)."""

    reason: str
    removable: bool
    sure: bool
    files: int
    bytes: int


class OrphanJson(TypedDict):
    """A file that belongs to no job; `job` is the id in its name."""

    container: Literal["queue", "results"]
    name: str
    kind: str
    reason: str
    job: str | None
    size: int
    modified_at: str
    link: str


class OrphansJson(TypedDict):
    """What storage held at `at`: all files by kind, orphans by reason, the first 1,000 one by one."""

    at: str
    safe_seconds: float
    holdings: list[HoldingJson]
    reasons: list[OrphanReasonJson]
    files: list[OrphanJson]


class SweepJson(TypedDict):
    """What was removed, what stayed because it had changed or failed; `more`: sweep again."""

    removed_files: int
    removed_bytes: int
    changed: list[str]
    failed: dict[str, str]
    more: bool


class WaitingJson(TypedDict):
    """Seconds from submission to the first run's start, over so many jobs."""

    jobs: int
    median: float
    p95: float


class BucketJson(TypedDict):
    """What happened from `start` on."""

    start: str
    submitted: int
    complete: int
    failed: int
    killed: int
    waiting: WaitingJson | None


class FailureJson(TypedDict):
    """Runs that have failed for good, by method and reason, in so many jobs."""

    title: str
    reason: str
    runs: int
    jobs: int
    last_at: str
    last_job: str


class LoadJson(TypedDict):
    """One submitter's jobs, and what their runs used."""

    submitter: str
    unfinished: int
    ended: int
    failed: int
    cpu_seconds: float
    run_seconds: float
    result_bytes: int


class HeldMethodJson(TypedDict):
    """A method whose new jobs start blocked, since when, and on which evidence."""

    title: str
    since: str
    evidence: str


class StatisticsJson(TypedDict):
    """All recorded jobs as they were at `at`; `buckets` cover the last 7 days, oldest first."""

    at: str
    jobs: int
    states: dict[State, int]
    bucket_hours: int
    buckets: list[BucketJson]
    waiting: WaitingJson | None
    failures: list[FailureJson]
    submitters: list[LoadJson]
    held_methods: list[HeldMethodJson]


class WorkerJson(TypedDict):
    """A worker by its last sign of life; what that does not tell is null."""

    worker: str
    alive: bool
    state: str
    seen_at: str
    started_at: str | None
    host: str | None
    service_version: str | None
    runtime: str | None
    engine: str | None
    slots: int | None
    running: list[dict[str, Any]]
    finishing: list[dict[str, Any]]
    methods: list[dict[str, Any]]
    disk: dict[str, int | None]


class SessionJson(TypedDict):
    """Who the holder of the key is."""

    user: str
    role: Literal["user", "administrator", "system"]
    csrf_token: str | None
    expires_at: str | None
