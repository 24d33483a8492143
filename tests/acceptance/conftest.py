"""Deployments on the real parts: Redis, Azurite and the Docker engine, or quick ones on a directory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.storage.blob import BlobServiceClient

from tests.support.deployment import Deployment
from tests.support.parts import require
from tests.support.servers import Azurite, RedisServer

METHODS = Path(__file__).parent.parent / "support" / "methods"
TWO_RECORDS = (
    '{"record_id": "A-1.COI-5P", "processid": "A-1"}\n{"record_id": "A-2.COI-5P", "processid": "A-2"}\n'
)


@pytest.fixture
def quick(tmp_path: Path, redis_url: str, unique: str) -> Iterator[Deployment]:
    """On a directory, with child processes as runtime: for what does not hang on storage or engine."""
    deployment = Deployment(
        folder=tmp_path,
        environment={
            "AIOANALYSIS_REDIS_URL": redis_url,
            "AIOANALYSIS_REDIS_PREFIX": f"{unique}:",
            "AIOANALYSIS_STORAGE_DIRECTORY": str(tmp_path / "storage"),
            "AIOANALYSIS_METHODS_DIR": str(METHODS),
            "AIOANALYSIS_RUNTIME": "process",
        },
    )
    deployment.add_records("DS-TWO", TWO_RECORDS)
    yield deployment
    deployment.close()


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    """For a test that stops or freezes it."""
    with RedisServer(require("redis-server")) as server:
        yield server


@pytest.fixture
def whole(
    tmp_path: Path, redis_url: str, azurite: Azurite, base_image: str, unique: str
) -> Iterator[Deployment]:
    """On Azurite, with containers of the Docker engine."""
    containers = {"queue": f"{unique}-queue", "results": f"{unique}-results"}
    with BlobServiceClient.from_connection_string(azurite.connection_string) as service:
        for name in containers.values():
            service.create_container(name)
    methods = tmp_path / "methods"
    shutil.copytree(METHODS, methods)
    deployment = Deployment(
        folder=tmp_path,
        environment={
            "AIOANALYSIS_REDIS_URL": redis_url,
            "AIOANALYSIS_REDIS_PREFIX": f"{unique}:",
            "AIOANALYSIS_AZURE_CONNECTION_STRING": azurite.connection_string,
            "AIOANALYSIS_QUEUE_CONTAINER": containers["queue"],
            "AIOANALYSIS_RESULTS_CONTAINER": containers["results"],
            "AIOANALYSIS_METHODS_DIR": str(methods),
            "AIOANALYSIS_RUNTIME": "docker",
            "AIOANALYSIS_BASE_IMAGE": base_image,
        },
    )
    deployment.add_records("DS-TWO", TWO_RECORDS)
    yield deployment
    deployment.close()
