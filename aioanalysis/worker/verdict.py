"""Says what a run's end means: the engine's facts and the orchestrator's files become an error, or none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aioanalysis.domain import foreign
from aioanalysis.domain.method import Limits
from aioanalysis.domain.outcomes import JobError, Reason
from aioanalysis.errors import JobFailure
from aioanalysis.interfaces import Exit
from aioanalysis.worker.jobtree import read_small

STATUS_MAX_BYTES: Final = 1 << 20
ERROR_MAX_BYTES: Final = 8 << 20
ERROR_TEXT_MAX: Final = 1 << 20
INPUT_CODE: Final = 404  # the orchestrator's; a process status keeps its low byte
INPUT_STATUS: Final = INPUT_CODE & 0xFF
UNWRITABLE_CODE: Final = 73
LEASE_CODE: Final = 75
KILLED_CODES: Final = frozenset({137, -9})
STAGES: Final = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What the orchestrator left: `status.json` and `error.json`, as far as they are what they should be."""

    finished: bool = False
    exit_code: int | None = None
    reason: str | None = None
    oom_kills: int = 0
    stages: Sequence[Mapping[str, Any]] = ()
    script: str | None = None
    error: str | None = None

    @property
    def cpu_seconds(self) -> float | None:
        """The stages' own CPU time; None when not known."""
        known = [v for s in self.stages if (v := _number(s.get("cpu_seconds"))) is not None]
        return sum(known) if known else None

    @property
    def memory_bytes(self) -> int | None:
        """The largest stage process's peak; None when not known."""
        known = [v for s in self.stages if (v := _number(s.get("max_rss_bytes"))) is not None]
        return int(max(known)) if known else None


def read_report(job_dir: Path) -> Report:
    """Read both files with the care that a method's directory needs; blocks."""
    status = _object(read_small(job_dir, "status.json", STATUS_MAX_BYTES))
    error = _object(read_small(job_dir, "error.json", ERROR_MAX_BYTES))
    stages = status.get("stages")
    return Report(
        finished=bool(status),
        exit_code=foreign.whole(status.get("exit_code")),
        reason=foreign.text(status.get("reason")),
        oom_kills=foreign.whole(status.get("oom_kills")) or 0,
        stages=[s for s in stages if isinstance(s, dict)] if isinstance(stages, list) else (),
        script=foreign.text(error.get("script")),
        error=foreign.text(error.get("error")),
    )


def exit_code(ended: Exit, report: Report) -> int | None:
    """The code to be shown: a process status keeps the low byte of 404, we do not."""
    if ended.code == INPUT_STATUS and report.exit_code == INPUT_CODE:
        return INPUT_CODE
    return ended.code


def judge(
    ended: Exit,
    report: Report,
    limits: Limits,
    broken: JobFailure | None,
    *,
    disk_full: bool = False,
) -> JobError | None:
    """None for a run that is complete.

    `broken` is the limit for which we ended it ourselves; `disk_full`, that the host's disk was.
    """
    code = exit_code(ended, report)
    said = (
        f"container exited with code {code}" if code is not None else "container ended without an exit code"
    )
    if broken is not None:
        return _error(Reason(broken.reason), f"{broken.text}; {said}", report, ended)
    if code == 0 and report.finished and report.exit_code == 0:
        return None
    if _out_of_memory(ended, report):
        limit = f" of {limits.memory_bytes} bytes" if limits.memory_bytes else ""
        return _error(
            Reason.OUT_OF_MEMORY, f"{said}: out of memory, the limit{limit} was reached", report, ended
        )
    if code == INPUT_CODE:
        return _error(Reason.INPUT, said, report, ended)
    if disk_full:
        return _error(Reason.DISK, f"{said}: the worker's disk is full", report, ended)
    if report.finished and code == report.exit_code:
        return _told(report, ended, said)
    if code == UNWRITABLE_CODE:
        return _error(Reason.DISK, f"{said}: the job directory could not be written", report, ended)
    detail = f": {ended.detail}" if ended.detail else ""
    before = "" if report.finished else ", before its orchestrator had finished"
    return _error(Reason.CONTAINER, f"{said}{before}{detail}", report, ended)


def _told(report: Report, ended: Exit, said: str) -> JobError:
    """The orchestrator's own word, with an exit code that agrees."""
    if report.reason == "stage" and 1 <= (report.exit_code or 0) <= STAGES:
        return _error(Reason.STAGE, said, report, ended)
    if report.reason == "method":
        return _error(Reason.METHOD, f"{said}: the method's directory is at fault", report, ended)
    if report.exit_code == LEASE_CODE:
        return _error(Reason.CONTAINER, f"{said}: the worker gave no sign of life", report, ended)
    detail = f": {ended.detail}" if ended.detail else ""
    return _error(Reason.CONTAINER, f"{said}{detail}", report, ended)


def _out_of_memory(ended: Exit, report: Report) -> bool:
    """The word of engine or kernel, and a death that fits it: a child may be killed and the run go on."""
    last = foreign.whole(report.stages[-1].get("exit_code")) if report.stages else None
    if ended.out_of_memory and (ended.code in KILLED_CODES or not report.finished):
        return True
    return last in KILLED_CODES and (ended.out_of_memory or report.oom_kills > 0)


def _error(reason: Reason, message: str, report: Report, ended: Exit) -> JobError:
    text = report.error if report.error is not None else ended.output_tail or None
    return JobError(reason=reason, message=message, script=report.script, error=clean(text))


def clean(text: str | None) -> str | None:
    """The end of a text, without what UTF-8 cannot carry."""
    return None if text is None else text[-ERROR_TEXT_MAX:].encode("utf-8", "replace").decode()


def _object(data: bytes | None) -> dict[str, Any]:
    try:
        body = json.loads((data or b"").decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
