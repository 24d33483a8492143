"""Links, kept packages, usage and figures through the client, against a real API."""

from __future__ import annotations

import json
from pathlib import Path

import aiohttp
import pytest

from aioanalysis.client import ApiProblem, open_client
from aioanalysis.domain.exchange import Container, attempt_name, progress_name
from aioanalysis.domain.job import Job
from aioanalysis.domain.states import State
from tests.support.apiserver import Api, make_zip, stem_of


async def kept(api: Api) -> Job:
    """A job under way whose first attempt has left a package."""
    job = await api.add_job(state=State.RUNNING, attempt=2)
    mark = {"uid": job.uid, "attempt": "1"}
    name = attempt_name(stem_of(job), 1, ".failed.zip")
    await api.storage.write(Container.RESULTS, name, make_zip({"job.log": b"failed"}), metadata=mark)
    told = json.dumps({"usage": {"samples": 3}, "limits": {"cpus": 2}}).encode()
    await api.storage.write(
        Container.RESULTS, progress_name(stem_of(job)), told, metadata={**mark, "attempt": "2"}
    )
    return job


async def fetched(address: str) -> tuple[int, bytes]:
    async with aiohttp.ClientSession() as session, session.get(address) as reply:
        return reply.status, await reply.read()


async def test_a_link_is_an_address_that_needs_no_key(api: Api) -> None:
    job = await api.complete_job(make_zip({"a b/ü.txt": b"text", "analysis_report.html": b"<p>"}))
    async with open_client(api.url, api.keys["ann"]) as client:
        report = await client.link(job.id, "report", seconds=60)
        file = await client.link(job.id, "file", path="a b/ü.txt")
        assert await fetched(report["link"]) == (200, b"<p>")
        assert await fetched(file["link"]) == (200, b"text")
        assert (await fetched(file["link"].replace("/files/", "/report/")))[0] in {401, 404}
        with pytest.raises(ApiProblem) as refused:
            await client.link(job.id, "file")
        assert refused.value.status == 422
        await client.remove(job.id)
        assert (await fetched(report["link"]))[0] == 401


async def test_kept_packages_and_usage_of_a_job_under_way_can_be_had(api: Api, tmp_path: Path) -> None:
    job = await kept(api)
    async with open_client(api.url, api.keys["ann"]) as client:
        [package] = await client.attempts(job.id)
        assert (package["attempt"], package["ending"]) == (1, "failed")
        saved = await client.package("results", package["name"], tmp_path / "attempt.zip")
        assert (saved.size, saved.verified) == (package["size"], True)
        usage = await client.usage(job.id)
        assert usage["usage"] is not None
        assert (usage["usage"]["samples"], usage["limits"]["cpus"]) == (3, 2)


async def test_an_administrator_sees_figures_files_and_orphans(api: Api) -> None:
    job = await kept(api)
    name = f"noop.{'z' * 8}.zip"
    await api.storage.write(Container.RESULTS, name, b"x", metadata={"uid": "gone", "attempt": "1"})
    async with open_client(api.url, api.keys["root"]) as client:
        assert (await client.statistics(hours=24))["states"]["running"] == 1
        listed = [blob["name"] for blob in await client.packages("results")]
        assert listed == sorted(listed)
        assert name in listed
        assert len(await client.packages("results", limit=2)) == 2
        [one] = await client.packages("results", prefix="attempts/")
        assert one["job"] == job.id
        stock = await client.orphans()
        assert {holding["container"] for holding in stock["holdings"]} == {"results"}
        assert (await client.sweep(["expired"]))["removed_files"] == 0  # too young yet
    async with open_client(api.url, api.keys["ann"]) as client:
        for refused in (client.statistics, client.packages, client.orphans, client.sweep):
            with pytest.raises(ApiProblem) as caught:
                await refused()  # type: ignore[operator]
            assert caught.value.status == 403
