"""Why a job is not finished yet: a code for programs and a sentence for people."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from aioanalysis.domain.dependencies import Dependency, is_met
from aioanalysis.domain.frames import Frame, Hold
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
    DEPENDENCY = "dependency"
    WRANGLED = "wrangled"


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
    unfinished = [frame for frame in job.frames if not frame.is_finished]
    reasons = [_of_run(job, frame, now) for frame in unfinished]
    if not reasons:
        return Why(code=Code.FRAMES, text="Its state was set by hand; the next pass works it out anew.")
    if not job.has_frames:
        return reasons[0]
    counts = Counter(frame.state.value for frame in job.frames)
    told = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    code = Code.FRAMES if job.state is State.FAILING else reasons[0].code
    return Why(
        code=code, text=f"Of {len(job.frames)} frames: {told}. {reasons[0].text}", until=reasons[0].until
    )


def _of_run(job: Job, frame: Frame, now: datetime) -> Why:
    if frame.phase is State.WAITING:
        return _waiting(frame, now)
    if frame.phase is State.BLOCKED:
        return _blocked(job, frame)
    if frame.phase is State.QUEUED:
        again = " again" if frame.attempt > 1 else ""
        return Why(code=Code.WORKER, text=f"Its package is in the queue{again} and waits for a worker.")
    if frame.retried:
        return Why(
            code=Code.RETRY, text=f"A run failed; a worker has it for the {_nth(frame.retried + 1)} time."
        )
    return Why(code=Code.RUNNING, text="A worker has it.")


def _waiting(frame: Frame, now: datetime) -> Why:
    if frame.packaging is not None:
        return Why(code=Code.PACKAGING, text="Its records are being fetched and packaged.")
    if frame.postponed is not None:
        times = "once" if frame.postponed.tries == 1 else f"{frame.postponed.tries} times"
        text = f"Its records could not be had ({frame.postponed.text}); tried {times}"
        if frame.postponed.until > now:
            return Why(code=Code.RECORDS, text=f"{text}, next after a pause.", until=frame.postponed.until)
        return Why(code=Code.RECORDS, text=f"{text}, next when there is room in the queue.")
    return Why(code=Code.ROOM, text="It waits for room in the queue.")


def _blocked(job: Job, frame: Frame) -> Why:
    if Hold.METHOD in frame.holds:
        told = job.wrangled or "packages of its method failed in a row"
        text = f"It is held until the method changes or an administrator unblocks it: {told}."
        return Why(code=Code.WRANGLED, text=text)
    if Hold.WRANGLED in frame.holds:
        return Why(code=Code.WRANGLED, text=f"It is held: {job.wrangled or 'frames have failed in a row'}.")
    if Hold.USER in frame.holds:
        return Why(code=Code.HELD, text="It is held until it is unblocked.")
    waits = [_dependency(d) for d in job.after]
    return Why(code=Code.DEPENDENCY, text=f"It waits for {'; '.join(waits) or 'other jobs'}.")


def _dependency(dependency: Dependency) -> str:
    text = f"job {dependency.job} to be {dependency.when.value}"
    if dependency.seen is not None and is_met(dependency, None, None) is False:
        text += f", which ended as {dependency.seen.value}: retry that one, or unblock this"
    return text


def _nth(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")
