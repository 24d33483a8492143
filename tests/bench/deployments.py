"""The service as processes, for benchmarks: Redis, one of both storages, methods that do next to nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from azure.storage.blob import BlobServiceClient

from tests.bench.measuring import Bench
from tests.support.deployment import Deployment
from tests.support.parts import BASE_IMAGE

HOME = Path(__file__).parents[2]
METHODS = HOME / "tests" / "support" / "methods"
RECORDS = '{"record_id": "R1", "nuc": "ACGT"}\n' * 10
Backend = Literal["directory", "azurite"]


@contextmanager
def deployed(bench: Bench, backend: Backend, **settings: str) -> Iterator[Deployment]:
    """Keys, records and settings of a service of its own; its processes end with the block."""
    folder, name = bench.new_folder("service"), bench.fresh("service")
    environment = {
        "AIOANALYSIS_REDIS_URL": bench.redis().url,
        "AIOANALYSIS_REDIS_PREFIX": f"{name}:",
        "AIOANALYSIS_METHODS_DIR": str(METHODS),
        "AIOANALYSIS_BASE_IMAGE": BASE_IMAGE,
        "AIOANALYSIS_LEASE_SECONDS": "60",
        "AIOANALYSIS_LEASE_GRACE_SECONDS": "15",
        **{f"AIOANALYSIS_{key.upper()}": value for key, value in settings.items()},
    }
    if backend == "directory":
        environment["AIOANALYSIS_STORAGE_DIRECTORY"] = str(folder / "storage")
    else:
        azurite = bench.azurite()
        environment["AIOANALYSIS_AZURE_CONNECTION_STRING"] = azurite.connection_string
        with BlobServiceClient.from_connection_string(azurite.connection_string) as client:
            for container in ("queue", "results"):
                environment[f"AIOANALYSIS_{container.upper()}_CONTAINER"] = f"{name}-{container}"
                client.create_container(f"{name}-{container}").close()
    deployment = Deployment(folder=folder, environment=environment)
    deployment.add_records("DS", RECORDS)
    try:
        yield deployment
    finally:
        deployment.close()


@contextmanager
def running_dev(folder: Path, methods: Path, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """`aioanalysis dev` on `folder`, which holds `dev.json` once it listens."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AIOANALYSIS_")},
        "AIOANALYSIS_DATA_DIR": str(folder),
        "AIOANALYSIS_METHODS_DIR": str(methods),
        "AIOANALYSIS_PORT": "0",
        "PYTHONPATH": str(HOME),
        **{f"AIOANALYSIS_{key.upper()}": value for key, value in settings.items()},
    }
    (folder / "dev.json").unlink(missing_ok=True)
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "aioanalysis", "dev"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)
