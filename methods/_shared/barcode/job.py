"""What a stage script works with: the job directory, its parameters, progress, notes, and how to refuse."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from .alignment import AlignmentError
from .parameters import ParameterError, load_parameters


class RefusalError(Exception):
    """The job cannot be done; the text is a plain sentence for the user."""


class Job:
    """JOB_DIR and METHOD_DIR, as the orchestrator sets them; `work` has what a stage leaves for the next."""

    def __init__(self) -> None:
        self.dir = Path(os.environ.get("JOB_DIR", "."))
        self.method_dir = Path(os.environ["METHOD_DIR"])
        self.work = self.dir / "work"
        self.work.mkdir(exist_ok=True)
        self.method: dict[str, Any] = json.loads(
            (self.method_dir / "method.json").read_text(encoding="utf-8")
        )
        self.parameters = load_parameters(self.dir / "params.json", self.method)
        self.reported = 0.0

    def progress(self, done: int, total: int, message: str | None = None) -> None:
        """Tell the orchestrator how many records are done, at most twice a second."""
        now = time.monotonic()
        if now - self.reported < 0.5:
            return
        self.reported = now
        beside = self.dir / ".progress.stage.json"
        said = {"records_done": int(done), "records_total": int(total), "message": message}
        beside.write_text(json.dumps(said), encoding="utf-8")
        beside.replace(self.dir / "progress.stage.json")

    def save(self, name: str, value: object) -> None:
        (self.work / f"{name}.json").write_text(to_json(value), encoding="utf-8")

    def load(self, name: str) -> Any:
        return json.loads((self.work / f"{name}.json").read_text(encoding="utf-8"))

    def note(self, level: str, text: str) -> None:
        """Something the report must say; `level` is "warning" or "note"."""
        with (self.work / "notes.jsonl").open("a", encoding="utf-8") as file:
            file.write(to_json({"level": level, "text": text}) + "\n")
        print(f"{level}: {text}")

    def notes(self) -> list[dict[str, str]]:
        path = self.work / "notes.jsonl"
        return read_jsonl(path) if path.exists() else []

    def clear(self) -> None:
        shutil.rmtree(self.work)


def to_json(value: object) -> str:
    """JSON in which numpy's numbers are numbers and NaN and infinities are null."""
    return json.dumps(plain(value), ensure_ascii=False, allow_nan=False)


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value


def write_jsonl(path: Path, rows: Iterable[object]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{to_json(row)}\n" for row in rows)


def read_jsonl(path: Path) -> list[Any]:
    with path.open(encoding="utf-8", newline="\n") as file:
        return [json.loads(line) for line in file]


def versions() -> dict[str, str]:
    return {"python": platform.python_version(), "numpy": np.__version__}


def run_stage(stage: Callable[[Job], None]) -> NoReturn:
    """Run a stage; whatever goes wrong ends in one plain sentence on standard output and exit code 1."""
    try:
        stage(Job())
    except (RefusalError, ParameterError, AlignmentError) as refusal:
        print(refusal)
        sys.exit(1)
    except MemoryError:
        print("The records need more memory than the method may use; use fewer or shorter ones.")
        sys.exit(1)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        print(
            "The method has a fault, please report it: "
            f"{type(error).__name__}: {error} ({Path(place.filename).name}, line {place.lineno})"
        )
        sys.exit(1)
    sys.exit(0)
