"""How a run or a job ended: reasons, the error in a job's JSON, and what a rerun could mend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class Reason(StrEnum):
    STAGE = "stage"  # a stage script exited non-zero
    INPUT = "input"  # the package is not what it should be
    IMAGE = "image"  # the method's image does not build
    METHOD = "method"  # no such method, or its definition is wrong
    CONTAINER = "container"  # the engine could not run it, or lost it
    OUT_OF_MEMORY = "out_of_memory"
    DISK = "disk"
    SILENT = "silent"  # no output for longer than allowed
    TIME_LIMIT = "time_limit"
    WORKER_LOST = "worker_lost"
    RECORDS = "records"  # the record store refuses them, or there are none
    DEPENDENCY = "dependency"
    KILLED = "killed"


UNMENDABLE: Final = frozenset(
    {Reason.TIME_LIMIT, Reason.KILLED, Reason.DEPENDENCY, Reason.RECORDS, Reason.INPUT, Reason.METHOD}
)
"""Reasons that a rerun of the same package cannot mend: no automatic retry."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobError:
    """Why a job failed: `reason` for programs, `message` for people.

    `script` is the stage script, `error` what it printed (at most its last MiB); both null unless a stage
    failed. `message` names the container's exit code where a container ran.
    """

    reason: Reason
    message: str
    script: str | None = None
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "reason": self.reason.value,
            "message": self.message,
            "script": self.script,
            "error": self.error,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> JobError:
        """Read a sidecar's `error`; tolerant of older workers, which give no reason."""
        try:
            reason = Reason(str(value.get("reason")))
        except ValueError:
            reason = Reason.STAGE if value.get("script") else Reason.CONTAINER
        return cls(
            reason=reason,
            message=_text(value.get("message")) or "the run failed",
            script=_text(value.get("script")),
            error=_text(value.get("error")),
        )


def _text(value: object) -> str | None:
    """`value` as text that UTF-8 can carry: a stage may have printed anything."""
    return None if value is None else str(value).encode("utf-8", "replace").decode()
