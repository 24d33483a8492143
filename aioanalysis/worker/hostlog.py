"""What a run leaves on the host: a log of its own, and `last_run_summary.json`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from aioanalysis.worker.workspace import write_whole

SUMMARY: Final = "last_run_summary.json"
LOG_TAIL_BYTES: Final = 1 << 20


class HostLog:
    """The course of one run: which phase began when, and how it ended."""

    def __init__(self, started_at: datetime) -> None:
        self.started_at = started_at
        self._began = time.monotonic()
        self._phases: list[tuple[str, float]] = []

    def enter(self, phase: str) -> None:
        self._phases.append((phase, time.monotonic()))

    @property
    def seconds(self) -> float:
        return round(time.monotonic() - self._began, 3)

    def phases(self) -> dict[str, float]:
        """Seconds each phase took."""
        ends = [began for _, began in self._phases[1:]] + [time.monotonic()]
        return {phase: round(end - began, 3) for (phase, began), end in zip(self._phases, ends, strict=True)}

    def write(self, folder: Path, name: str, summary: Mapping[str, Any], output: bytes, keep: int) -> None:
        """Write both files into `folder`, with the run's `output`; keep so many logs. Blocks."""
        path = folder / f"{self.started_at:%Y%m%dT%H%M%S}_{name}.log"
        head = json.dumps({**summary, "log": path.name}, ensure_ascii=False, indent=1)
        path.write_bytes(head.encode("utf-8", "replace") + b"\n\n" + output)
        write_whole(folder / SUMMARY, head.encode("utf-8", "replace"))
        with os.scandir(folder) as entries:
            logs = sorted(entry.name for entry in entries if entry.name.endswith(".log"))
        for old in logs[:-keep]:
            (folder / old).unlink(missing_ok=True)
