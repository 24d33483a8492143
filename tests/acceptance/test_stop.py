"""A graceful stop of the API: what is under way is finished in time, or cut where everybody sees it."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from aioanalysis.domain.exchange import Container
from aioanalysis.storage.directory import DirectoryStorage
from tests.support.deployment import SYSTEM_TOKEN, Deployment
from tests.support.storages import MIB, block
from tests.support.waiting import eventually

SIZE = 64 * MIB  # more than the sockets' buffers hold
DRAIN_SECONDS = 6
FILE = "/v1/packages/results/big.zip"


@pytest.fixture
async def session(quick: Deployment) -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"Authorization": f"Bearer {SYSTEM_TOKEN}"}
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout, read_bufsize=2**16) as session:
        yield session


async def test_a_stop_lets_downloads_finish_and_cuts_those_that_take_too_long(
    quick: Deployment, session: aiohttp.ClientSession
) -> None:
    content = b"".join(block(number) for number in range(SIZE // MIB))
    storage = DirectoryStorage(quick.folder / "storage")
    await storage.prepare()
    await storage.write(Container.RESULTS, "big.zip", content)
    process = quick.serve(drain_seconds=DRAIN_SECONDS)
    async with (
        session.get(quick.server + FILE) as finishing,
        session.get(quick.server + FILE) as stuck,
        session.get(f"{quick.server}/v1/events") as events,
    ):
        begun = [await one.content.readexactly(1000) for one in (finishing, stuck)]
        assert begun == [content[:1000]] * 2
        stopped_at = time.monotonic()
        ending = asyncio.create_task(asyncio.to_thread(process.stop))
        await asyncio.wait_for(events.content.read(), DRAIN_SECONDS)  # its client comes back, elsewhere
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(f"{quick.server}/healthz")
        rest = await finishing.content.read()
        assert hashlib.sha256(begun[0] + rest).digest() == hashlib.sha256(content).digest()
        assert await ending == 0
        assert time.monotonic() - stopped_at < DRAIN_SECONDS + 15
        with pytest.raises(aiohttp.ClientError):
            await stuck.content.read()
    assert "Traceback" not in process.log


async def test_the_metrics_tell_what_is_the_case(quick: Deployment, session: aiohttp.ClientSession) -> None:
    quick.serve(pass_interval=1, watch_interval=0.2)

    async def metrics() -> dict[str, float]:
        async with session.get(f"{quick.server}/metrics") as response:
            lines = (await response.text()).splitlines()
        pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name.removeprefix("aioanalysis_"): float(value) for name, _, value in pairs}

    async def submit(**more: Any) -> None:
        async with session.post(
            f"{quick.server}/v1/jobs", json={"title": "noop", "recordset": "DS-TWO", **more}
        ) as response:
            assert response.status == 201

    assert {name: count for name, count in (await metrics()).items() if re.match(r"jobs\W", name)} == {
        f'jobs{{state="{state}"}}': 0
        for state in ["waiting", "queued", "running", "failed", "blocked", "failing", "retrying", "killed"]
    }
    await submit(hold=True)
    for _ in range(12):  # two more than the queue takes
        await submit()

    async def settled() -> bool:
        return (await metrics())['jobs{state="queued"}'] == 10

    await eventually(settled, within=30)
    found = await metrics()
    assert found['jobs{state="blocked"}'] == 1
    assert found['jobs{state="waiting"}'] == 2
    assert found["queue_packages"] == 10
    assert found["jobs_damaged"] == 0
    assert found['faults_total{part="storage"}'] == found['faults_total{part="record store"}'] == 0
    assert 0 <= found["pass_age_seconds"] < 30
    assert 0 < found["pass_seconds"] < 30
    assert found["http_downloads"] == 0
    assert found['http_requests_total{method="POST",route="/v1/jobs",status="201"}'] == 13
    results = quick.folder / "storage" / "results"
    results.rename(results.with_name("away"))

    async def told() -> bool:
        return (await metrics())['faults_total{part="storage"}'] > 0

    await eventually(told, within=30)
    results.with_name("away").rename(results)
