"""What a scheduler pass can do; decided by `planning`, performed by the scheduler."""

from __future__ import annotations

from dataclasses import dataclass

from aioanalysis.domain.exchange import Ending
from aioanalysis.domain.job import Job, Tombstone
from aioanalysis.domain.observation import ClaimedPackage


@dataclass(frozen=True, kw_only=True, slots=True)
class Save:
    """Write the record `job`, if it is still as it was loaded."""

    job: Job


@dataclass(frozen=True, kw_only=True, slots=True)
class Withdraw:
    """Delete the package from the queue, if it is still this one."""

    stem: str
    etag: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Recover:
    """Put a claimed package back into the queue, under the next attempt.

    Takes the claim's lease, looks once more for a sidecar of its attempt, raises the attempt on the record
    (unless that has been done), copies the package back, deletes the claim.
    """

    job_id: str
    number: int | None
    stem: str
    claim: ClaimedPackage


@dataclass(frozen=True, kw_only=True, slots=True)
class Interrupt:
    """Write a control blob that makes the worker end this attempt's run and commit nothing."""

    stem: str
    attempt: int
    action: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CleanUp:
    """Delete progress and control, and last the claim if there is one (not one that is held)."""

    stem: str
    claim: ClaimedPackage | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Archive:
    """Move a package and sidecar that do not count (any more) to `attempts/`."""

    stem: str
    ending: Ending
    attempt: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    """Delete what is left of a removed job in results, by its uid."""

    tombstone: Tombstone
    stem: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Forget:
    """Nothing of a removed job can arrive any more: forget its tombstone."""

    tombstone: Tombstone


@dataclass(frozen=True, kw_only=True, slots=True)
class Admit:
    """Begin packaging this run of the job."""

    job: Job
    number: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """Something for the log only."""

    text: str


Command = Save | Withdraw | Recover | Interrupt | CleanUp | Archive | Sweep | Forget | Admit | Note


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """Commands of one job, in order."""

    job_id: str
    commands: tuple[Command, ...]
