"""The service as its operators run it: `serve` and `worker` processes over real parts, spoken to by HTTP."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet

from aioanalysis.client import AnalysisClient, open_client
from aioanalysis.identity import keyfile
from tests.support.waiting import until

SYSTEM_TOKEN = "the-platforms-own-token"
START_SECONDS = 30.0


@dataclass(kw_only=True)
class Running:
    """One process of ours; its log is structured lines."""

    process: subprocess.Popen[bytes]
    log_file: Path

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.wait(10)

    def stop(self, within: float = 40) -> int:
        """End it in order; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(within)

    def ensure_ended(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.kill()


@dataclass(kw_only=True)
class Deployment:
    """Settings shared by one service and its workers. Started processes end with the fixture."""

    folder: Path
    environment: dict[str, str]
    keys: dict[str, str] = field(default_factory=dict)
    processes: list[Running] = field(default_factory=list)
    server: str = ""

    def __post_init__(self) -> None:
        keys_file = self.folder / "keys"
        for name, role in (("ada", "user"), ("bob", "user"), ("root", "administrator")):
            self.keys[name], entry = keyfile.new_key(name, role)  # type: ignore[arg-type]
            keyfile.add(keys_file, entry)
        self.keys["system"] = SYSTEM_TOKEN
        self.recordsets.mkdir(exist_ok=True)
        self.environment = {
            "AIOANALYSIS_KEYS_FILE": str(keys_file),
            "AIOANALYSIS_SYSTEM_TOKEN": SYSTEM_TOKEN,
            "AIOANALYSIS_JOB_KEY_SECRET": Fernet.generate_key().decode(),
            "AIOANALYSIS_RECORDS_DIRECTORY": str(self.recordsets),
            "AIOANALYSIS_PORT": "0",
            "AIOANALYSIS_LOG_FORMAT": "json",
            "AIOANALYSIS_LEASE_SECONDS": "15",
            "AIOANALYSIS_LEASE_GRACE_SECONDS": "3",
            **self.environment,
        }

    @property
    def recordsets(self) -> Path:
        return self.folder / "recordsets"

    def add_records(self, code: str, lines: str) -> None:
        (self.recordsets / f"{code}.jsonl").write_text(lines)

    def run(self, name: str, *arguments: str, **settings: Any) -> Running:
        """Start `aioanalysis ARGUMENTS` with a data folder and log of its own."""
        home = self.folder / name
        home.mkdir(exist_ok=True)
        log_file = home / f"log-{len(self.processes)}"
        changes = {f"AIOANALYSIS_{key.upper()}": str(value) for key, value in settings.items()}
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("AIOANALYSIS_")}
        with log_file.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "aioanalysis", *arguments],
                cwd=home,
                env={**inherited, **self.environment, "AIOANALYSIS_DATA_DIR": str(home), **changes},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        running = Running(process=process, log_file=log_file)
        self.processes.append(running)
        return running

    def serve(self, name: str = "api", **settings: Any) -> Running:
        """Start API and scheduler; returns when it listens."""
        running = self.run(name, "serve", **settings)
        self.server = until(lambda: self._address(running), within=START_SECONDS, what="serve listens")
        return running

    def worker(self, name: str = "w1", *arguments: str, **settings: Any) -> Running:
        """Start a worker, with its own id and data folder."""
        return self.run(name, "worker", *arguments, worker_id=name, **settings)

    def _address(self, running: Running) -> str:
        if (code := running.process.poll()) is not None:
            raise RuntimeError(f"serve ended with {code}: {running.log[-3000:]}")
        found = re.search(r'"address": ?"([^"]+)"', running.log)
        return found[1] if found else ""

    @asynccontextmanager
    async def client(self, who: str = "ada") -> AsyncIterator[AnalysisClient]:
        async with open_client(self.server, self.keys[who]) as client:
            yield client

    def logs(self) -> Mapping[str, str]:
        return {str(p.log_file.parent.name): p.log for p in self.processes}

    def close(self) -> None:
        for running in reversed(self.processes):
            if running.process.poll() is None:
                running.process.send_signal(signal.SIGTERM)
                running.process.send_signal(signal.SIGCONT)
        deadline = time.monotonic() + 15
        for running in self.processes:
            try:
                running.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                running.ensure_ended()
