"""The package storages that the contract runs over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aioanalysis.interfaces import ExchangeStorage
from tests.support.storages import AzureBackend, Backend, DirectoryBackend


@pytest.fixture(params=["directory", "azure by key", "azure by SAS"])
async def backend(request: pytest.FixtureRequest, unique: str, tmp_path: Path) -> Backend:
    if request.param == "directory":
        return DirectoryBackend(tmp_path)
    backend = AzureBackend(request.getfixturevalue("azurite"), unique, sas=request.param == "azure by SAS")
    await backend.create()
    return backend


@pytest.fixture
async def storage(backend: Backend) -> AsyncIterator[ExchangeStorage]:
    async with backend.connect() as storage:
        yield storage
