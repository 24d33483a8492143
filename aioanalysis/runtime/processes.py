"""What the process runtime notes of its runs, and finds and measures of their processes; blocking calls."""

from __future__ import annotations

import json
import os
import signal
import stat
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import psutil

from aioanalysis.domain.usage import Sample
from aioanalysis.interfaces import Exit

MARK: Final = "AIOANALYSIS_RUN"
"""Environment variable by which every process of a run is found, orphans of a dead one too."""

OUTPUT_BYTES: Final = 64 * 1024
STATUS_MAX_BYTES: Final = 1024 * 1024
SAME_SECONDS: Final = 2.0  # psutil works a start out from the boot time, which the clock moves


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRecord:
    """A run as noted on disk. `pid` and `created_at` (its start, so that a pid used again is not taken for
    it) are None until it has started."""

    name: str
    labels: dict[str, str]
    job_dir: str
    mark: str
    started_at: str
    pid: int | None = None
    created_at: float | None = None


class RunFiles:
    """The notes and outputs of runs in one directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()

    @property
    def home(self) -> Path:
        """HOME of the runs: what their libraries cache is kept."""
        return self._folder / "home"

    def output(self, name: str) -> Path:
        return self._folder / f"{name}.out"

    def _note(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def write(self, record: RunRecord) -> None:
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = self._folder / f".{record.name}.part"
        beside.write_text(json.dumps(asdict(record)), encoding="utf-8")
        beside.replace(self._note(record.name))

    def read(self, name: str) -> RunRecord | None:
        try:
            return RunRecord(**json.loads(self._note(name).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def all(self) -> list[RunRecord]:
        records = (self.read(path.stem) for path in sorted(self._folder.glob("*.json")))
        return [record for record in records if record is not None]

    def output_tail(self, name: str) -> str:
        try:
            with self.output(name).open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - OUTPUT_BYTES))
                return file.read(OUTPUT_BYTES).decode("utf-8", "replace")
        except OSError:
            return ""

    def delete(self, name: str) -> None:
        self._note(name).unlink(missing_ok=True)
        self.output(name).unlink(missing_ok=True)


def identified(record: RunRecord, pid: int) -> RunRecord:
    """The record with its process, found again by pid and start."""
    try:
        return replace(record, pid=pid, created_at=psutil.Process(pid).create_time())
    except psutil.Error:  # over already
        return replace(record, pid=pid)


def main_process(record: RunRecord) -> psutil.Process | None:
    """The run's orchestrator; None when it has ended."""
    if record.pid is None or record.created_at is None:
        return None
    try:
        process = psutil.Process(record.pid)
        same = abs(process.create_time() - record.created_at) < SAME_SECONDS
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.Error:
        return None


def terminate(record: RunRecord) -> None:
    """Ask the orchestrator to end its stage and itself."""
    process = main_process(record)
    if process is not None:
        with suppress(psutil.Error):
            process.terminate()


def kill_family(record: RunRecord) -> bool:
    """Kill all processes of the run with SIGKILL; False when there were none (any more)."""
    family = _family(record)
    for process in family:
        with suppress(psutil.Error):
            process.kill()
    if record.pid is not None and any(process.pid == record.pid for process in family):
        with suppress(OSError):
            os.killpg(record.pid, signal.SIGKILL)
    return bool(family)


def _family(record: RunRecord) -> set[psutil.Process]:
    main = main_process(record)
    family = set(_with_children(main)) if main else set()
    return family | {process for process in psutil.process_iter() if _carries(process, record.mark)}


def _carries(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:  # another user's, or gone
        return False


def _with_children(main: psutil.Process) -> list[psutil.Process]:
    alive = [main]
    with suppress(psutil.Error):
        alive += [p for p in main.children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE]
    return alive


def measure(record: RunRecord) -> Sample | None:
    """CPU, memory and input/output of the run's processes, of its ended children too; None when it is over.

    Memory counts pages that processes share once for each.
    """
    main = main_process(record)
    if main is None:
        return None
    cpu, memory, blocks = 0.0, 0, None
    for process in _with_children(main):
        with suppress(psutil.Error):
            with process.oneshot():
                times = process.cpu_times()
                cpu += times.user + times.system + times.children_user + times.children_system
                memory += process.memory_info().rss
            moved = _moved(process)
            blocks = moved if blocks is None else blocks + (moved or 0)
    if not memory:
        return None
    return Sample(at=datetime.now(UTC), cpu_seconds=cpu, memory_bytes=memory, block_bytes=blocks)


def _moved(process: Any) -> int | None:
    try:
        counters = process.io_counters()
    except (psutil.Error, AttributeError):  # not on every system
        return None
    return int(counters.read_bytes + counters.write_bytes)


def told_exit(job_dir: Path) -> Exit | None:
    """The exit as the orchestrator noted it last; None when it did not."""
    try:
        handle = os.open(job_dir / "status.json", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return None
            body = json.loads(file.read(STATUS_MAX_BYTES))
        return Exit(
            code=int(body["exit_code"]) & 0xFF,
            finished_at=datetime.fromisoformat(body["finished_at"]),
            detail="The exit code is what the run noted of itself.",
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
