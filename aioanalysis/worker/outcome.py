"""What a run came to: the sidecar's body, and the members that the worker adds to the package."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from aioanalysis.domain.exchange import VERSION, PackageMeta, ResultPackage, parse_stem
from aioanalysis.domain.method import Limits
from aioanalysis.domain.outcomes import JobError, Reason
from aioanalysis.domain.usage import SERIES_POINTS, Sample, Usage, summarise
from aioanalysis.interfaces import Exit, Image, MethodDirectory
from aioanalysis.worker.inputs import Package
from aioanalysis.worker.jobtree import read_small
from aioanalysis.worker.verdict import ERROR_MAX_BYTES, Report, exit_code


@dataclass(kw_only=True, slots=True)
class Facts:
    """What is known of a run so far; each step puts in its own."""

    started_at: datetime
    finished_at: datetime | None = None
    package: Package | None = None
    method: MethodDirectory | None = None
    image: Image | None = None
    limits: Limits | None = None
    samples: Sequence[Sample] = ()
    ended: Exit | None = None
    report: Report = field(default_factory=Report)
    error: JobError | None = None

    def usage(self, interval_seconds: float, *, points: int = SERIES_POINTS) -> Usage:
        """Of the container's time if one ran, else of ours; so far, while it runs."""
        ended = self.ended
        return summarise(
            self.samples,
            started_at=(ended.started_at if ended else None) or self.started_at,
            finished_at=(ended.finished_at if ended else None) or self.finished_at,
            interval_seconds=interval_seconds,
            memory_limit_bytes=self.limits.memory_bytes if self.limits else None,
            rusage_cpu_seconds=self.report.cpu_seconds,
            rusage_memory_bytes=self.report.memory_bytes,
            points=points,
        )


def draft(
    stem: str,
    meta: PackageMeta,
    facts: Facts,
    *,
    worker: Mapping[str, str],
    runtime: str,
    interval_seconds: float,
) -> dict[str, Any]:
    """The sidecar without `result`, which is known when the zip is there."""
    parsed, method, image, package = parse_stem(stem), facts.method, facts.image, facts.package
    return {
        "version": VERSION,
        "uid": meta.uid,
        "stem": stem,
        "title": parsed.title if parsed else None,
        "job_id": parsed.job_id if parsed else None,
        "attempt": meta.attempt,
        "nonce": meta.nonce,
        "job": {
            "owner": meta.owner,
            "submitted_at": _moment(meta.submitted_at),
            "deadline": _moment(meta.deadline),
            "expires_at": _moment(meta.expires_at),
        },
        "error": facts.error.to_json() if facts.error else None,
        "usage": facts.usage(interval_seconds).to_json(),
        "records": package.records if package else meta.records,
        "worker": dict(worker),
        "package": {
            "name": f"{stem}.tar",
            "sha256": package.sha256 if package else meta.sha256,
            "size": package.size if package else None,
        },
        "method": {
            "title": method.method.title,
            "version": method.method.version,
            "digest": method.digest,
        }
        if method
        else None,
        "image": {"id": image.id, "base": image.base} if image else None,
        "exit_code": exit_code(facts.ended, facts.report) if facts.ended else None,
        "limits": asdict(facts.limits) if facts.limits else None,
        "runtime": runtime,
        "started_at": facts.started_at.isoformat(),
        "finished_at": facts.finished_at.isoformat() if facts.finished_at else None,
    }


def _moment(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


def killed(body: Mapping[str, Any]) -> dict[str, Any]:
    """The same run, ended by a user."""
    error = JobError(reason=Reason.KILLED, message="the run was ended by a user")
    return {**body, "error": error.to_json()}


def added_members(body: Mapping[str, Any], job_dir: Path) -> dict[str, bytes]:
    """`resource_stats.json`, and `error.json` where a failed run's orchestrator has left none; blocks."""
    members = {"resource_stats.json": _json(body["usage"])}
    error = body["error"]
    if error is not None and read_small(job_dir, "error.json", ERROR_MAX_BYTES) is None:
        members["error.json"] = _json(
            {"script": error["script"], "error": error["error"] or error["message"]}
        )
    return members


def sidecar(body: Mapping[str, Any], result: ResultPackage) -> bytes:
    return _json({**body, "result": result.to_json()})


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", errors="replace")
