"""Which failed runs are put back automatically."""

from __future__ import annotations

from aioanalysis.domain.frames import Frame
from aioanalysis.domain.outcomes import UNMENDABLE, JobError


def is_retried(frame: Frame, error: JobError, retries: int) -> bool:
    """Whether a run that failed with `error` is tried again: not for what a rerun cannot mend."""
    return error.reason not in UNMENDABLE and frame.retried < retries
