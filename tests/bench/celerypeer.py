"""Celery beside our own workers: as many bare containers, sent as tasks and awaited."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.bench.deployments import HOME
from tests.bench.measuring import Bench, NotMeasured

END_SECONDS = 120.0


@contextmanager
def celery_workers(bench: Bench, slots: int) -> Iterator[Callable[[int], None]]:
    """A Celery worker of `slots` processes; what it yields runs so many containers by it, and blocks."""
    try:
        celery: Any = importlib.import_module("celery")
    except ImportError:
        raise NotMeasured("Celery beside it: it is not installed; try: pip install -e '.[bench]'") from None
    folder, broker = bench.new_folder("celery"), bench.redis().url
    app = celery.Celery("bench", broker=broker, backend=broker, set_as_current=False)

    def run(count: int) -> None:
        sent = [app.send_task("container", [bench.fresh("celery")]) for _ in range(count)]
        try:
            for result in sent:
                result.get(timeout=END_SECONDS)
        finally:
            for result in sent:
                result.backend = None  # or it unsubscribes when it is collected, from a Redis that has gone

    with (folder / "log").open("wb") as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "tests.bench.celeryworker", "worker",
             "--pool", "prefork", "--concurrency", str(slots), "--loglevel", "warning"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(HOME), "BENCH_BROKER": broker, "BENCH_FOLDER": str(folder)},
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        run(2 * slots)  # once it is up; each process then has its connection to the engine
        yield run
    finally:
        worker.terminate()
        worker.wait(60)
        app.close()
