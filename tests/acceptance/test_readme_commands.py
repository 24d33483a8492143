"""What README.md tells a newcomer and the author of a method to type, typed as it stands there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from aioanalysis.domain.states import State
from tests.support.parts import require
from tests.support.readme import README, blocks
from tests.support.waiting import until

ROOT = README.parent


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that looks like the repository's, with nothing in it that a run would change."""
    folder = tmp_path_factory.mktemp("clone")
    (folder / ".venv").symlink_to(ROOT / ".venv")
    shutil.copytree(ROOT / "methods", folder / "methods")
    return folder


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AIOANALYSIS_")}
    return {**kept, "AIOANALYSIS_RUNTIME": "process", "COLUMNS": "200"}


@pytest.fixture(scope="module")
def dev(clone: Path) -> Iterator[None]:
    """What `scripts/dev` leaves running."""
    require("valkey")
    with (clone / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(clone / ".venv/bin/aioanalysis"), "dev", "--port", "0"],
            cwd=clone,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        until((clone / ".aioanalysis" / "dev.json").exists, within=60, what="dev is ready")
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, (clone / "log").read_text(errors="replace")


def typed(folder: Path, block: str) -> str:
    """Run a block as a person's shell would, but stop at the first command that fails."""
    path = {"PATH": f"{folder}/.venv/bin:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-eu"],
        input=block,
        cwd=folder,
        env={**environment(), **path},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_first_job_runs_as_written(clone: Path, dev: None) -> None:
    first, attached = blocks(README.read_text(), "### Your first job")
    said = typed(clone, first)
    assert "distance_summary" in said
    assert "complete" in said
    with zipfile.ZipFile(clone / "result.zip") as package:
        assert {"analysis_report.html", "summary.tsv"} <= set(package.namelist())
    assert "complete" in typed(clone, attached)


def test_every_state_and_action_is_shown_as_written(clone: Path, dev: None) -> None:
    before = ids(clone)
    typed(clone, blocks(README.read_text(), "## Control")[-1])
    jobs = [json.loads(typed(clone, f"aioanalysis show {job} --json")) for job in ids(clone) - before]
    states = {event["to"] for job in jobs for event in job["history"]}
    assert states == {state.value for state in State}
    events = {event["event"] for job in jobs for event in job["history"]}
    assert {"block", "interrupt", "kill", "retry", "suspend", "unblock"} <= events
    assert sum(job["resubmitted_from"] is not None for job in jobs) == 1
    assert Counter(job["state"] for job in jobs) == {"complete": 4, "failed": 2}


def test_a_working_day_at_the_command_line_is_as_written(clone: Path, dev: None) -> None:
    [block] = blocks(README.read_text(), "## Command line")
    said = typed(clone, block)
    assert "min_length" in said
    assert "complete" in said
    assert list(clone.glob("barcode_gap.*.html"))
    with zipfile.ZipFile(next(clone.glob("barcode_gap.*.zip"))) as package:
        assert json.loads(package.read("params.json"))["min_length"] == 300


def test_the_python_program_runs_as_written(clone: Path, dev: None) -> None:
    [program] = blocks(README.read_text(), "## Python", "python")
    assert len([line for line in program.splitlines() if line]) <= 10
    (clone / "program.py").write_text(program)
    said = typed(clone, ".venv/bin/python program.py").splitlines()
    assert "'label': 'Within Species'" in said[0]
    assert int(said[-1]) > 10_000


def ids(clone: Path) -> set[str]:
    """Of all jobs."""
    listed = json.loads(typed(clone, "aioanalysis jobs --json"))
    return {job["id"] for job in listed}


def test_a_method_is_made_checked_and_tried_as_written(clone: Path) -> None:
    [block] = blocks(README.read_text(), "## Writing a method")
    typed(clone, block)
    assert (clone / "methods" / "my_method" / "stages").is_dir()
