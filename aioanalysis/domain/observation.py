"""What a scheduler pass has seen in storage."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from aioanalysis.domain.exchange import Ending, PackageMeta, RunMark, Sidecar


@dataclass(frozen=True, kw_only=True, slots=True)
class QueuedPackage:
    """A package in the root of the queue."""

    meta: PackageMeta
    etag: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimedPackage:
    """A package under `claimed/`. `lapsed`: its lease was free for the grace time, in two observations."""

    meta: PackageMeta
    etag: str
    held: bool
    lapsed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """A result or failed package with its sidecar; `sidecar` is None, `problem` says why, if unreadable."""

    ending: Ending
    mark: RunMark
    sidecar: Sidecar | None
    problem: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """What exists, seen in the order queue, claimed, results.

    `outcomes` has an entry, maybe an empty one, for every stem whose results were looked up; of a stem
    without one nothing may be concluded from absence. `remains` are the stems that still have files in
    results, by a whole listing (full passes only).
    """

    queue: Mapping[str, QueuedPackage] = field(default_factory=dict)
    claims: Mapping[str, ClaimedPackage] = field(default_factory=dict)
    outcomes: Mapping[str, Sequence[Outcome]] = field(default_factory=dict)
    remains: Collection[str] = ()
