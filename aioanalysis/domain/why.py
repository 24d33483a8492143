"""Why a job is not finished yet: a code for programs and a sentence for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from aioanalysis.domain.dependencies import Dependency, is_met
from aioanalysis.domain.frames import Frame, Hold
from aioanalysis.domain.job import Job
from aioanalysis.domain.outlook import Outlook
from aioanalysis.domain.progress import Progress
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


IN_LINE: Final = frozenset({Code.ROOM, Code.WORKER})


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


def why(
    job: Job,
    now: datetime,
    outlook: Outlook | None = None,
    progress: Mapping[int | None, Progress] | None = None,
) -> Why | None:
    """What `job` waits for at `now`; None when it is finished.

    `outlook` is what the last pass foresaw, `progress` the latest of its runs by their frames' numbers.
    """
    if job.state in FINISHED:
        return None
    unfinished = [frame for frame in job.frames if not frame.is_finished]
    if not unfinished:
        return Why(code=Code.FRAMES, text="Its state was set by hand; the next pass works it out anew.")
    first = unfinished[0]
    if outlook is not None and outlook.phase is not first.phase:
        outlook = None  # it has gone on since
    reason = _of_run(job, first, now, outlook, (progress or {}).get(first.number))
    if outlook is not None:
        reason = replace(
            reason,
            position=outlook.position if reason.code in IN_LINE else None,
            expected_start=_still(outlook.starts, now),
            expected_finish=_still(outlook.finishes, now),
        )
    if not job.has_frames:
        return reason
    counts = Counter(frame.state.value for frame in job.frames)
    told = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    code = Code.FRAMES if job.state is State.FAILING else reason.code
    return replace(reason, code=code, text=f"Of {len(job.frames)} frames: {told}. {reason.text}")


def why_holds_until(job: Job, now: datetime, outlook: Outlook | None = None) -> datetime | None:
    """The next moment from `now` on at which `why` may say something else though nothing else changes."""
    moments = [frame.postponed.until for frame in job.frames if frame.postponed is not None]
    if outlook is not None:
        moments += [moment for moment in (outlook.starts, outlook.finishes) if moment is not None]
    return min((moment for moment in moments if moment >= now), default=None)


def _still(moment: datetime | None, now: datetime) -> datetime | None:
    """What was expected for a moment that has gone by is not known any more."""
    return moment if moment is not None and moment >= now else None


def _of_run(job: Job, frame: Frame, now: datetime, outlook: Outlook | None, progress: Progress | None) -> Why:
    if frame.phase is State.WAITING:
        return _waiting(frame, now, outlook)
    if frame.phase is State.BLOCKED:
        return _blocked(job, frame)
    if frame.phase is State.QUEUED:
        again = " again" if frame.attempt > 1 else ""
        text = f"Its package is in the queue{again} and waits for a worker{_ahead(outlook)}."
        return Why(code=Code.WORKER, text=text + _no_worker(outlook))
    return _running(frame, progress)


def _running(frame: Frame, progress: Progress | None) -> Why:
    stage = ""
    if progress is not None and progress.attempt == frame.attempt:
        stage = f" Running {progress.text.rstrip('.')}."
    if frame.retried:
        text = f"A run failed; a worker has it for the {_nth(frame.retried + 1)} time.{stage}"
        return Why(code=Code.RETRY, text=text)
    return Why(code=Code.RUNNING, text=stage.strip() or "A worker has it.")


def _ahead(outlook: Outlook | None) -> str:
    """How many are ahead in the line it stands in."""
    if outlook is None or outlook.position is None:
        return ""
    return f"; {outlook.position - 1} ahead of it" if outlook.position > 1 else "; it is the next"


def _no_worker(outlook: Outlook | None) -> str:
    if outlook is None or outlook.workers != 0:
        return ""
    if outlook.seen_at is None:
        return " No worker has been seen."
    return f" No worker has been seen since {outlook.seen_at:%Y-%m-%d %H:%M} UTC."


def _waiting(frame: Frame, now: datetime, outlook: Outlook | None) -> Why:
    if frame.packaging is not None:
        return Why(code=Code.PACKAGING, text="Its records are being fetched and packaged.")
    if frame.postponed is not None:
        times = "once" if frame.postponed.tries == 1 else f"{frame.postponed.tries} times"
        text = f"Its records could not be had ({frame.postponed.text}); tried {times}"
        if frame.postponed.until > now:
            return Why(code=Code.RECORDS, text=f"{text}, next after a pause.", until=frame.postponed.until)
        return Why(code=Code.RECORDS, text=f"{text}, next when there is room in the queue.")
    text = f"It waits for room in the queue{_ahead(outlook)}."
    return Why(code=Code.ROOM, text=text + _no_worker(outlook))


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
