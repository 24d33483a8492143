"""Running a method's stages over records, and the reference numbers where they are at hand.

The methods' shared library is not installed: methods find it beside their stages, tests in methods/_shared.
`AIOANALYSIS_REFERENCE` names the directory with reference-numbers/ and data/; default ../shared/domain.
"""

from __future__ import annotations

import csv
import io
import json
import os
import runpy
import sys
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "methods" / "_shared"))


@pytest.fixture(scope="session")
def reference() -> Path:
    path = Path(os.environ.get("AIOANALYSIS_REFERENCE") or ROOT.parent / "shared" / "domain")
    if not path.is_dir():
        pytest.skip(f"no reference numbers in {path}; name their directory in AIOANALYSIS_REFERENCE")
    return path


@dataclass(frozen=True)
class Outcome:
    """What a method left: its exit code, what it printed, its files."""

    code: int
    printed: str
    dir: Path

    def table(self, name: str) -> list[dict[str, str]]:
        with (self.dir / name).open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))

    def rows(self, name: str) -> list[dict[str, Any]]:
        with (self.dir / name).open(encoding="utf-8", newline="\n") as file:
            return [json.loads(line) for line in file]

    def json(self, name: str) -> Any:
        return json.loads((self.dir / name).read_text(encoding="utf-8"))

    @property
    def report(self) -> str:
        return (self.dir / "analysis_report.html").read_text(encoding="utf-8")

    @property
    def notes(self) -> str:
        return "\n".join(note["text"] for note in self.json("run.json")["notes"])


class MethodRun:
    """Runs a method's stages in this process, as the orchestrator would: up to the first that fails."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, title: str) -> None:
        self.root, self.monkeypatch, self.method = tmp_path, monkeypatch, ROOT / "methods" / title
        self.number = 0
        self.files: dict[str, bytes] = {}  # further files of the next packages

    def __call__(self, records: Iterable[dict[str, Any]] | bytes | Path, **parameters: object) -> Outcome:
        self.number += 1
        job = self.root / f"job{self.number}"
        job.mkdir()
        (job / "params.json").write_text(json.dumps(parameters), encoding="utf-8")
        (job / "records.jsonl").write_bytes(as_lines(records))
        for name, content in self.files.items():
            (job / name).write_bytes(content)
        self.monkeypatch.setenv("JOB_DIR", str(job))
        self.monkeypatch.setenv("METHOD_DIR", str(self.method))
        printed = io.StringIO()
        for script in sorted((self.method / "stages").glob("[1-5]_*.py")):
            with redirect_stdout(printed), pytest.raises(SystemExit) as ended:
                runpy.run_path(str(script), run_name="__main__")
            if ended.value.code:
                return Outcome(int(script.name[0]), printed.getvalue(), job)
        return Outcome(0, printed.getvalue(), job)


def as_lines(records: Iterable[dict[str, Any]] | bytes | Path) -> bytes:
    if isinstance(records, bytes):
        return records
    if isinstance(records, Path):
        return records.read_bytes()
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


@pytest.fixture
def distance_summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MethodRun:
    """With the built-in aligner, whatever is installed."""
    monkeypatch.setattr("barcode.alignment.shutil.which", lambda name: None)
    return MethodRun(tmp_path, monkeypatch, "distance_summary")


@pytest.fixture
def method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], MethodRun]:
    """Any method by its title, with the built-in aligner, whatever is installed."""
    monkeypatch.setattr("barcode.alignment.shutil.which", lambda name: None)

    @cache
    def of(title: str) -> MethodRun:
        root = tmp_path / title
        root.mkdir()
        return MethodRun(root, monkeypatch, title)

    return of


def read_fasta(path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for block in path.read_text(encoding="utf-8").split(">")[1:]:
        name, _, body = block.partition("\n")
        found[name.strip()] = "".join(body.split())
    return found


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
