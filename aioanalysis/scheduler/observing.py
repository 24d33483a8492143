"""Sees what exists in storage: queue, then claims, then results; complete, or an error."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aioanalysis import logs
from aioanalysis.domain.exchange import (
    CLAIMED,
    SIDECAR_MAX_BYTES,
    Container,
    Ending,
    PackageMeta,
    RunMark,
    Sidecar,
    parse_result,
    parse_sidecar,
    parse_stem,
    result_name,
    sidecar_name,
    stem_of_package,
)
from aioanalysis.domain.job import Job
from aioanalysis.domain.observation import ClaimedPackage, Observation, Outcome, QueuedPackage
from aioanalysis.domain.states import State
from aioanalysis.errors import AnalysisError, Contested, Damaged, Missing, Unavailable
from aioanalysis.interfaces import BlobInfo, ExchangeStorage, LeaseState

LOOKUPS: Final = 8
PACKAGED: Final = frozenset({State.QUEUED, State.RUNNING})
NO_ENDING: Final[frozenset[Ending]] = frozenset()
MEANINGLESS: Final = {State.COMPLETE: frozenset(Ending), State.FAILED: frozenset({Ending.FAILED})}
"""What changes no run that is in that state already."""

ONLY: Final = {ending: frozenset({ending}) for ending in Ending}
log = logs.get()


@dataclass(frozen=True, kw_only=True, slots=True)
class Packages:
    """The packages that exist, by their stems; seen in the order queue, claims."""

    queue: Mapping[str, QueuedPackage]
    claims: Mapping[str, ClaimedPackage]

    @property
    def stems(self) -> set[str]:
        return {*self.queue, *self.claims}


class Observer:
    """Looks at storage for one scheduler; remembers only since when claims have been free."""

    def __init__(
        self,
        storage: ExchangeStorage,
        *,
        grace_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._storage = storage
        self._grace_seconds = grace_seconds
        self._clock = clock
        self._free_since: dict[str, tuple[str, float]] = {}

    async def packages(self) -> Packages:
        """What is in the queue and what is claimed now. Raises `Unavailable` rather than miss any."""
        queue = {stem: _queued(blob) async for stem, blob in self._packages(Container.QUEUE)}
        claims = {stem: self._claimed(stem, blob) async for stem, blob in self._packages(Container.RESULTS)}
        self._free_since = {s: v for s, v in self._free_since.items() if s in claims and not claims[s].held}
        return Packages(queue=queue, claims=claims)

    async def observe(self, packages: Packages, jobs: Sequence[Job], *, full: bool) -> Observation:
        """What else is there of `jobs`; a full look lists all of results. Raises `Unavailable`."""
        names = await self._result_names() if full else {}
        suspects = _suspects(jobs, packages, names)
        outcomes = await self._look_up(suspects)
        if full:  # of these, too, it is known now that there is nothing
            packaged = {job.stem(f) for job in jobs for f in job.frames if f.phase in PACKAGED}
            outcomes |= dict.fromkeys(packaged - suspects, ())
        return Observation(
            queue=packages.queue, claims=packages.claims, outcomes=outcomes, remains=frozenset(names)
        )

    async def _packages(self, container: Container) -> AsyncIterator[tuple[str, BlobInfo]]:
        root_only = container is Container.QUEUE
        prefix = "" if root_only else CLAIMED
        async for blob in self._storage.list(container, prefix, root_only=root_only):
            stem = stem_of_package(blob.name)
            if stem is not None:
                yield stem, blob

    def _claimed(self, stem: str, blob: BlobInfo) -> ClaimedPackage:
        held = blob.lease is LeaseState.HELD
        lapsed = False
        if not held:
            etag, since = self._free_since.get(stem, ("", 0.0))
            if etag == blob.etag:
                lapsed = self._clock() - since >= self._grace_seconds
            else:
                self._free_since[stem] = (blob.etag, self._clock())
        return ClaimedPackage(
            meta=PackageMeta.from_metadata(blob.metadata),
            etag=blob.etag,
            held=held,
            lapsed=lapsed,
            released=blob.lease is LeaseState.FREE,
            since=blob.modified_at,
        )

    async def _result_names(self) -> Mapping[str, frozenset[Ending]]:
        """Per stem with files in results (claims aside): the endings that have a sidecar."""
        found: dict[str, frozenset[Ending]] = {}
        async for name in self._storage.names(Container.RESULTS):
            folder, _, bare = name.rpartition("/")
            if not folder:
                parsed = parse_result(bare)
                if parsed is not None:
                    stem, ending, is_sidecar = parsed
                    endings = found.setdefault(stem, NO_ENDING)
                    if is_sidecar:
                        found[stem] = ONLY[ending] | endings if endings else ONLY[ending]
            elif folder + "/" != CLAIMED:
                stem = ".".join(bare.split(".", 2)[:2])
                if parse_stem(stem):
                    found.setdefault(stem, NO_ENDING)
        return found

    async def _look_up(self, stems: Iterable[str]) -> dict[str, Sequence[Outcome]]:
        """Outcomes by stem. A stem that cannot be looked up has no entry: nothing is concluded of it."""
        places = asyncio.Semaphore(LOOKUPS)

        async def look(stem: str) -> tuple[str, Sequence[Outcome]] | None:
            async with places:
                try:
                    return stem, await self.outcomes(stem)
                except AnalysisError as error:
                    log.warning("lookup_failed", stem=stem, error=str(error))
                    return None

        found = await asyncio.gather(*(look(stem) for stem in stems))
        return dict(pair for pair in found if pair is not None)

    async def outcomes(self, stem: str) -> Sequence[Outcome]:
        """The packages of `stem` in results that have a sidecar; raises `Unavailable`."""
        blobs = {b.name: b async for b in self._storage.list(Container.RESULTS, f"{stem}.")}
        outcomes = []
        for ending in Ending:
            package = blobs.get(result_name(stem, ending))
            marker = blobs.get(sidecar_name(stem, ending))
            if package is not None and marker is not None:
                outcomes.append(await self._outcome(ending, package, marker))
        return outcomes

    async def _outcome(self, ending: Ending, package: BlobInfo, marker: BlobInfo) -> Outcome:
        mark = RunMark.from_metadata(marker.metadata)
        try:
            sidecar: Sidecar | None = await self._sidecar(package, marker)
            problem = ""
        except Damaged as error:
            sidecar, problem = None, str(error)
        if mark.uid is None and sidecar is not None:
            mark = RunMark(uid=sidecar.uid, attempt=sidecar.attempt, nonce=sidecar.nonce)
        return Outcome(ending=ending, mark=mark, sidecar=sidecar, problem=problem)

    async def _sidecar(self, package: BlobInfo, marker: BlobInfo) -> Sidecar:
        theirs, ours = (RunMark.from_metadata(b.metadata).nonce for b in (package, marker))
        if theirs is not None and ours is not None and theirs != ours:
            raise Damaged("it speaks for another run's package")
        if marker.size > SIDECAR_MAX_BYTES:
            raise Damaged(f"larger than {SIDECAR_MAX_BYTES} bytes")
        try:
            async with self._storage.open(Container.RESULTS, marker.name, etag=marker.etag) as stream:
                data = b"".join([chunk async for chunk in stream.chunks()])
        except (Missing, Contested) as error:
            raise Unavailable(f"{marker.name} changed while it was read") from error
        return parse_sidecar(data)


def _queued(blob: BlobInfo) -> QueuedPackage:
    return QueuedPackage(
        meta=PackageMeta.from_metadata(blob.metadata), etag=blob.etag, since=blob.modified_at
    )


def _suspects(jobs: Sequence[Job], packages: Packages, names: Mapping[str, frozenset[Ending]]) -> set[str]:
    """Stems whose results must be looked up.

    In any pass: whose package has left the queue with no worker holding it, and whose claim is free. In full
    passes also those with a sidecar that could change their job.
    """
    suspects = set()
    for job in jobs:
        for frame in job.frames:
            stem = job.stem(frame)
            claim = packages.claims.get(stem)
            if claim is not None:
                if not claim.held:
                    suspects.add(stem)
            elif frame.phase in PACKAGED and stem not in packages.queue:
                suspects.add(stem)
            endings = names.get(stem, NO_ENDING) - MEANINGLESS.get(frame.phase, NO_ENDING)
            if endings:
                suspects.add(stem)
    return suspects
