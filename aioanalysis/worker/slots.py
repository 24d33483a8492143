"""A worker's places: slots that packages run in, and beside them as many that they are committed in."""

from __future__ import annotations

import asyncio

from aioanalysis.worker.admission import Admission
from aioanalysis.worker.claims import Claim
from aioanalysis.worker.progress import Presence


class Slots:
    """At most `count` packages run at once, and at most as many that have run are committed beside them.

    One that has run while no more may be committed keeps its slot until it may. `freed` is set when there is
    room again.
    """

    def __init__(self, count: int, admission: Admission, presence: Presence, freed: asyncio.Event) -> None:
        self.admission = admission
        self.presence = presence
        self.commits = asyncio.Semaphore(count)
        self.freed = freed
        self.running = 0
        self._count = count

    @property
    def free(self) -> bool:
        """Whether a package may be claimed."""
        return self.running < self._count

    def take(self, claim: Claim) -> Slot:
        """A slot for what is now to run; there must be one."""
        return Slot(self, claim)


class Slot:
    """The place of one package: a slot at first, one to be committed in later, none after `close`."""

    def __init__(self, slots: Slots, claim: Claim) -> None:
        self._slots = slots
        self._claim = claim
        self._uses_room = True
        self._left = False
        slots.running += 1
        slots.presence.runs(claim)

    async def ended(self) -> None:
        """Its container has ended: the host's CPUs and memory are free, the slot too if there is a place."""
        self._give_room_back()
        if not self._slots.commits.locked():
            await self.leave()

    async def leave(self) -> None:
        """Go on to a place to be committed in, once there is one; repeatable."""
        if self._left:
            return
        self._give_room_back()
        await self._slots.commits.acquire()
        self._left = True
        self._slots.running -= 1
        self._slots.presence.finishes(self._claim)
        self._slots.freed.set()

    def close(self) -> None:
        """Nothing of the package is left here."""
        self._give_room_back()
        if self._left:
            self._slots.commits.release()
        else:
            self._slots.running -= 1
        self._slots.presence.ended(self._claim)

    def _give_room_back(self) -> None:
        if self._uses_room:
            self._uses_room = False
            self._slots.admission.release(self._claim.stem)
