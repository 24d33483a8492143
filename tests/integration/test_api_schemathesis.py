"""schemathesis over the OpenAPI document against the running API on real parts, with all its checks.

`SCHEMATHESIS_CASES=5000 pytest tests/integration/test_api_schemathesis.py` is the long run, for each caller;
it takes some minutes: `-o faulthandler_timeout=1800`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.apiserver import Api, make_zip, open_api
from tests.support.servers import Azurite
from tests.support.storages import AzureBackend

LONG = "SCHEMATHESIS_CASES" in os.environ
CASES = int(os.environ.get("SCHEMATHESIS_CASES", "60"))
MEANING = (
    "/v1/jobs",  # a method that there is, its parameters, a cursor that was given, a form's parts in order
    "/v1/jobs/{id}/actions/resubmit",
    "/v1/jobs/{id}/actions/{action}",  # some queries go with some actions
    "/v1/actions/{action}",  # a filter that filters
    "/v1/jobs/{id}/links",  # the service's own limit of seconds
)
"""What a schema cannot tell: here, and nowhere else, a body that fits it may be refused."""
CONFIG = f"""
[[operations]]
include-path = {list(MEANING)}

[operations.checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", 400, 401, 403, 404, 409, 422, 429]
"""
PROGRAM = Path(sys.executable).with_name("schemathesis")


@pytest.fixture
async def api(redis_url: str, azurite: Azurite, unique: str, tmp_path: Path) -> AsyncIterator[Api]:
    backend = AzureBackend(azurite, unique)
    await backend.create()
    async with (
        backend.connect() as storage,
        open_api(
            storage,
            redis_url=redis_url,
            prefix=unique,
            folder=tmp_path,
            failed_signins_per_minute=1_000_000,
        ) as api,
    ):
        yield api


@pytest.mark.parametrize("by", ["ann", "root"])
async def test_the_api_keeps_to_its_document(api: Api, by: str, tmp_path: Path) -> None:
    await api.complete_job(make_zip({"analysis_report.html": b"<p>"}))
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    paths = (await api.get("/openapi.json")).json()["paths"]
    operations = sum(map(len, paths.values()))
    program = await asyncio.create_subprocess_exec(
        PROGRAM,
        "run",
        f"{api.url}/openapi.json",
        f"--header=Authorization: Bearer {api.keys[by]}",
        f"--max-examples={max(1, CASES // operations)}",
        f"--phases={'coverage,fuzzing' if LONG or by == 'root' else 'fuzzing'}",
        "--checks=all",
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
        output, _ = await program.communicate()
    finally:
        if program.returncode is None:
            program.kill()
            await program.wait()
    told = output.decode(errors="replace")
    print(told[-4000:])
    assert program.returncode == 0, told[-12000:]
