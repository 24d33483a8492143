"""Which run of a job a request is about, and that run's files in storage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aiohttp import web

from aioanalysis.api.access import job_of
from aioanalysis.api.context import CONTEXT
from aioanalysis.api.problems import InvalidQuery
from aioanalysis.api.requests import read_frame
from aioanalysis.domain.exchange import Container, Ending, RunMark
from aioanalysis.domain.job import Job
from aioanalysis.domain.states import State
from aioanalysis.errors import NotFound, Refused
from aioanalysis.interfaces import BlobInfo

ENDINGS: Final = {State.COMPLETE: Ending.COMPLETE, State.FAILED: Ending.FAILED}


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One run of a job: a frame, or (without a number) its only one."""

    job: Job
    stem: str
    state: State
    attempt: int
    number: int | None

    @property
    def query(self) -> str:
        return "" if self.number is None else f"?frame={self.number}"

    def ending(self, wanted: Ending | None = None) -> Ending:
        """How it ended; raises `Refused` while it has not, or not in the wanted way."""
        ending = ENDINGS.get(self.state)
        if ending is None or wanted not in {None, ending}:
            kind = "failed package" if wanted is Ending.FAILED else "result package"
            what = "job" if self.number is None else "frame"
            raise Refused(f"A {what} that is {self.state} has no {kind}.", state=self.state.value)
        return ending


async def run_of(request: web.Request) -> Run:
    """The run of the path's job that the query names, which it must if there are frames."""
    job, number = await job_of(request), read_frame(request)
    if job.has_frames and number is None:
        raise InvalidQuery("The job has frames.", [("frame", f"1 to {len(job.frames)} must be given")])
    return run_numbered(job, number)


def run_numbered(job: Job, number: int | None) -> Run:
    frame = job.frame(number)
    if frame is None:
        raise NotFound("The job has no such frame.")
    return Run(
        job=job,
        stem=job.stem(frame),
        state=job.state if number is None else frame.state,
        attempt=frame.attempt,
        number=number,
    )


async def stat(
    request: web.Request,
    job: Job,
    name: str,
    absent: str = "It is not in storage; a job that failed before it ran has left nothing.",
) -> BlobInfo:
    """The blob, if it is this job's; raises `NotFound`."""
    blob = await request.app[CONTEXT].storage.stat(Container.RESULTS, name)
    if blob is None or RunMark.from_metadata(blob.metadata).uid not in {None, job.uid}:
        raise NotFound(absent)
    return blob
