"""What the tests of the API, its page, its client and its command line share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aioanalysis.storage.directory import DirectoryStorage
from tests.support.apiserver import Api, open_api


@pytest.fixture
async def api(redis_url: str, unique: str, tmp_path: Path) -> AsyncIterator[Api]:
    """An API over directory storage; a file that needs other storage or settings has its own."""
    storage = DirectoryStorage(tmp_path / "blobs")
    await storage.prepare()
    async with open_api(storage, redis_url=redis_url, prefix=unique, folder=tmp_path) as api:
        yield api
