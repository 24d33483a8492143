"""Files as workers and the scheduler leave them in storage, put there by hand."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

from aioanalysis.domain.exchange import (
    Container,
    Ending,
    attempt_name,
    claim_name,
    control_name,
    package_name,
    progress_name,
    result_name,
    sidecar_name,
    snapshot_name,
)
from aioanalysis.interfaces import ExchangeStorage


async def put(
    storage: ExchangeStorage, name: str, container: Container = Container.RESULTS, **metadata: str
) -> None:
    await storage.write(container, name, b"content", metadata=metadata)


def sign(worker: str, **changes: Any) -> bytes:
    body = {
        "worker": worker,
        "host": "node-1",
        "service_version": "0.1.0",
        "runtime": {"name": "docker", "engine": "Docker 29"},
        "state": "running",
        "slots": 2,
        "running": [],
        "finishing": [],
        "methods": [{"title": "noop", "version": "1", "digest": "d"}],
        "disk": {"free_bytes": 10, "reserve_bytes": 5},
        "started_at": datetime.now(UTC).isoformat(),
    }
    return json.dumps({**body, **changes}).encode()


def kinds_of(stem: str) -> list[tuple[Container, str]]:
    """One file of every kind that a job can have."""
    job = stem.split("-")[0]
    return [
        (Container.QUEUE, package_name(stem)),
        *(
            (Container.RESULTS, name)
            for name in (
                claim_name(stem),
                *(result_name(stem, ending) for ending in Ending),
                *(sidecar_name(stem, ending) for ending in Ending),
                control_name(stem),
                progress_name(stem),
                attempt_name(stem, 1, ".failed.zip"),
                attempt_name(stem, 1, ".failed.metadata.json"),
                snapshot_name(job),
            )
        ),
    ]


async def fill(storage: ExchangeStorage, stem: str, **metadata: str) -> set[str]:
    """Write them all; their places."""
    await asyncio.gather(*(put(storage, name, container, **metadata) for container, name in kinds_of(stem)))
    return {f"{container}/{name}" for container, name in kinds_of(stem)}
