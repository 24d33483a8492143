"""Why a job is not finished yet: a code for programs and a sentence for people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from aioanalysis.domain.job import Job
from aioanalysis.domain.states import FINISHED, State


class Code(StrEnum):
    ROOM = "room"  # the queue is full, or the next pass has not come yet
    PACKAGING = "packaging"  # its records are being fetched
    RECORDS = "records"  # they could not be had; tried again later
    WORKER = "worker"  # its package waits in the queue
    RUNNING = "running"
    HELD = "held"
    FRAMES = "frames"  # at least one frame has failed, others are not finished
    RETRY = "retry"


@dataclass(frozen=True, kw_only=True, slots=True)
class Why:
    """`until` is when what stands in the way is looked at again; what is not known is None.

    `position` counts from 1 among those who wait for the same thing; the expectations come from earlier runs.
    """

    code: Code
    text: str
    until: datetime | None = None
    position: int | None = None
    expected_start: datetime | None = None
    expected_finish: datetime | None = None


def why(job: Job, now: datetime) -> Why | None:
    """What `job` waits for at `now`; None when it is finished."""
    if job.state in FINISHED:
        return None
    if job.state is State.WAITING:
        return _waiting(job, now)
    code, text = _REASONS[job.state]
    return Why(code=code, text=text)


def _waiting(job: Job, now: datetime) -> Why:
    if job.packaging is not None:
        return Why(code=Code.PACKAGING, text="Its records are being fetched and packaged.")
    if job.postponed is not None:
        times = "once" if job.postponed.tries == 1 else f"{job.postponed.tries} times"
        text = f"Its records could not be had ({job.postponed.text}); tried {times}"
        if job.postponed.until > now:
            return Why(code=Code.RECORDS, text=f"{text}, next after a pause.", until=job.postponed.until)
        return Why(code=Code.RECORDS, text=f"{text}, next when there is room in the queue.")
    return Why(code=Code.ROOM, text="It waits for room in the queue.")


_REASONS = {
    State.QUEUED: (Code.WORKER, "Its package is in the queue and waits for a worker."),
    State.RUNNING: (Code.RUNNING, "A worker has it."),
    State.BLOCKED: (Code.HELD, "It is held until it is unblocked."),
    State.FAILING: (Code.FRAMES, "A frame has failed; others are not finished."),
    State.RETRYING: (Code.RETRY, "A run failed; it is tried again."),
}
