"""schemathesis over the OpenAPI document against the running API: no 5xx, and nothing that it does not tell.

`SCHEMATHESIS_EXAMPLES=200 pytest tests/integration/test_api_schemathesis.py` is the long run.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aioanalysis.storage.directory import DirectoryStorage
from tests.support.apiserver import Api, make_zip, open_api

EXAMPLES = os.environ.get("SCHEMATHESIS_EXAMPLES", "2")
PROGRAM = Path(sys.executable).with_name("schemathesis")
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


@pytest.fixture
async def api(redis_url: str, unique: str, tmp_path: Path) -> AsyncIterator[Api]:
    storage = DirectoryStorage(tmp_path / "blobs")
    await storage.prepare()
    async with open_api(
        storage,
        redis_url=redis_url,
        prefix=unique,
        folder=tmp_path,
        failed_signins_per_minute=1_000_000,
    ) as api:
        yield api


@pytest.mark.parametrize("by", ["ann", "root"])
async def test_the_api_keeps_to_its_document(api: Api, by: str, tmp_path: Path) -> None:
    await api.complete_job(make_zip({"analysis_report.html": b"<p>"}))
    program = await asyncio.create_subprocess_exec(
        PROGRAM,
        "run",
        f"{api.url}/openapi.json",
        f"--header=Authorization: Bearer {api.keys[by]}",
        f"--max-examples={EXAMPLES}",
        "--phases=fuzzing",
        f"--checks={CHECKS}",
        "--exclude-path=/v1/events",
        "--request-timeout=20",
        "--seed=1",
        "--no-shrink",
        "--continue-on-failure",
        "--suppress-health-check=all",
        "--warnings=off",
        "--no-color",
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(600):
            output, _ = await program.communicate()
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()
    assert program.returncode == 0, output.decode(errors="replace")[-8000:]
