"""What a scheduler pass has seen in storage, and of other jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from aioanalysis.domain.dependencies import Parent
from aioanalysis.domain.exchange import Ending, PackageMeta, RunMark, Sidecar


@dataclass(frozen=True, kw_only=True, slots=True)
class QueuedPackage:
    """A package in the root of the queue; `since` is when it came there."""

    meta: PackageMeta
    etag: str
    since: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimedPackage:
    """A package under `claimed/`.

    `lapsed`: its lease ran out and was free for the grace time, in two observations; its container has ended
    by now. `released`: nobody holds it and no lease ran out: its worker has let it go, or not yet taken it.
    `since` is when it was claimed.
    """

    meta: PackageMeta
    etag: str
    held: bool
    lapsed: bool = False
    released: bool = False
    since: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """A result or failed package with its sidecar; `sidecar` is None, `problem` says why, if unreadable."""

    ending: Ending
    mark: RunMark
    sidecar: Sidecar | None
    problem: str = ""

    @property
    def attempt(self) -> int | None:
        """Of the run that left it; None from an older worker: it counts as the present one."""
        if self.mark.attempt is None and self.sidecar is not None:
            return self.sidecar.attempt
        return self.mark.attempt


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """What exists, seen in the order queue, claimed, results.

    `outcomes` has an entry, maybe an empty one, for every stem whose results were looked up; of a stem
    without one nothing may be concluded from absence. `remains` are the stems that still have files in
    results, by a whole listing (full passes only). `parents` are the jobs that others wait for, by id.
    """

    queue: Mapping[str, QueuedPackage] = field(default_factory=dict)
    claims: Mapping[str, ClaimedPackage] = field(default_factory=dict)
    outcomes: Mapping[str, Sequence[Outcome]] = field(default_factory=dict)
    remains: Collection[str] = ()
    parents: Mapping[str, Parent] = field(default_factory=dict)
