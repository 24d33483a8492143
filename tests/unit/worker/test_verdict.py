"""A run's end is told by the engine and the orchestrator together, and every failure has its reason."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from aioanalysis.domain.method import Limits
from aioanalysis.domain.outcomes import JobError, Reason
from aioanalysis.errors import JobFailure
from aioanalysis.interfaces import Exit
from aioanalysis.worker.verdict import Report, exit_code, judge, read_report

LIMITS = Limits(memory_bytes=64 << 20)


def stage(code: int) -> dict[str, Any]:
    return {"script": "3_analyse.py", "exit_code": code, "cpu_seconds": 0.5, "max_rss_bytes": 1000}


def report(code: int, reason: str, *, stages: list[dict[str, Any]] | None = None, oom: int = 0) -> Report:
    return Report(
        finished=True,
        exit_code=code,
        reason=reason,
        oom_kills=oom,
        stages=stages or [],
        script="3_analyse.py",
        error="what it printed",
    )


CASES: dict[str, tuple[Exit, Report, Reason | None, str]] = {
    "complete": (Exit(code=0), report(0, "complete"), None, ""),
    "a child died of memory, the stage went on": (
        Exit(code=0, out_of_memory=True),
        report(0, "complete", oom=1),
        None,
        "",
    ),
    "stage": (Exit(code=3), report(3, "stage"), Reason.STAGE, "container exited with code 3"),
    "missing inputs": (Exit(code=148), report(404, "input"), Reason.INPUT, "container exited with code 404"),
    "main process out of memory": (
        Exit(code=137, out_of_memory=True),
        Report(),
        Reason.OUT_OF_MEMORY,
        "container exited with code 137: out of memory",
    ),
    "stage killed for memory": (
        Exit(code=3, out_of_memory=True),
        report(3, "stage", stages=[stage(-9)]),
        Reason.OUT_OF_MEMORY,
        "container exited with code 3: out of memory",
    ),
    "stage's child killed for memory, by the kernel's count": (
        Exit(code=3),
        report(3, "stage", stages=[stage(137)], oom=1),
        Reason.OUT_OF_MEMORY,
        "out of memory",
    ),
    "killed, not for memory": (Exit(code=137, detail="Killed."), Report(), Reason.CONTAINER, "137.*Killed."),
    "zero without a completion file": (Exit(code=0), Report(), Reason.CONTAINER, "before its orchestrator"),
    "zero, but the orchestrator says otherwise": (
        Exit(code=0),
        report(3, "stage"),
        Reason.CONTAINER,
        "code 0",
    ),
    "no code at all": (
        Exit(code=None, detail="gone"),
        Report(),
        Reason.CONTAINER,
        "without an exit code.*gone",
    ),
    "method": (Exit(code=70), report(70, "method"), Reason.METHOD, "code 70"),
    "orchestrator's own fault": (Exit(code=70), report(70, "internal"), Reason.CONTAINER, "code 70"),
    "full disk": (Exit(code=73), Report(), Reason.DISK, "could not be written"),
    "no sign of life": (Exit(code=75), report(75, "lease"), Reason.CONTAINER, "sign of life"),
    "terminated": (Exit(code=143), report(143, "terminated"), Reason.CONTAINER, "143"),
    "ended by its engine": (
        Exit(code=143, detail="its engine was stopped"),
        report(143, "terminated"),
        Reason.CONTAINER,
        "code 143: its engine was stopped",
    ),
    "a forged status": (Exit(code=137), report(0, "complete"), Reason.CONTAINER, "137"),
}


@pytest.mark.parametrize("case", CASES)
def test_each_end_has_its_reason(case: str) -> None:
    ended, told, reason, message = CASES[case]
    error = judge(ended, told, LIMITS, None)
    if reason is None:
        assert error is None
        return
    assert error is not None
    assert error.reason is reason
    assert re.search(message, error.message), error.message


@pytest.mark.parametrize("reason", [Reason.TIME_LIMIT, Reason.SILENT, Reason.DISK])
def test_a_limit_that_we_ended_it_for_comes_first(reason: Reason) -> None:
    error = judge(Exit(code=143), report(143, "terminated"), LIMITS, JobFailure(reason, "the limit"))
    assert error == JobError(
        reason=reason,
        message="the limit; container exited with code 143",
        script="3_analyse.py",
        error="what it printed",
    )


def test_404_is_told_in_full_where_the_status_kept_a_byte() -> None:
    assert exit_code(Exit(code=148), report(404, "input")) == 404
    assert exit_code(Exit(code=148), Report()) == 148


def test_the_engines_output_stands_in_where_there_is_no_error_file() -> None:
    error = judge(Exit(code=127, output_tail="no python3"), Report(), LIMITS, None)
    assert error is not None
    assert error.error == "no python3"


def test_the_orchestrators_files_are_read_with_care(tmp_path: Path) -> None:
    (tmp_path / "status.json").write_text(
        json.dumps({"exit_code": 3, "reason": "stage", "stages": [stage(3)]})
    )
    (tmp_path / "error.json").write_text('{"script": "3_analyse.py", "error": "bad \\ud800 text"}')
    got = read_report(tmp_path)
    assert (got.finished, got.exit_code, got.script, got.cpu_seconds, got.memory_bytes) == (
        True, 3, "3_analyse.py", 0.5, 1000,
    )  # fmt: skip
    error = judge(Exit(code=3), got, LIMITS, None)
    assert error is not None
    assert error.error == "bad ? text"


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"exit_code": true, "stages": [1], "reason": 5}', "[" * 100_000, "null"]
)
def test_nonsense_in_them_is_as_good_as_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / "status.json").write_text(content)
    os.mkfifo(tmp_path / "error.json")
    got = read_report(tmp_path)
    assert (got.exit_code, got.error, got.cpu_seconds, got.memory_bytes) == (None, None, None, None)


def test_on_a_full_disk_a_failure_is_the_disks_and_a_success_is_one_all_the_same() -> None:
    failed = judge(Exit(code=3), report(3, "stage"), LIMITS, None, disk_full=True)
    assert failed is not None
    assert (failed.reason, failed.error) == (Reason.DISK, "what it printed")
    assert failed.message == "container exited with code 3: the worker's disk is full"
    assert judge(Exit(code=0), report(0, "complete"), LIMITS, None, disk_full=True) is None
