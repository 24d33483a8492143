"""The page with hundreds of analyses and runs, at a zoom of 200 % (a window half as wide)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from aioanalysis.domain.exchange import Container, attempt_name
from aioanalysis.domain.frames import Attempt, Frame
from aioanalysis.domain.job import Job
from aioanalysis.domain.outcomes import JobError, Reason
from aioanalysis.domain.states import State
from aioanalysis.storage.directory import DirectoryStorage
from tests.support.apiserver import Api, open_api, stem_of
from tests.support.browsing import DevService, open_context

JOBS, FRAMES = 300, 200
ZOOMED = {"width": 640, "height": 400}
TOO_WIDE = """() => {
  if (document.documentElement.scrollWidth <= innerWidth) return [];
  const scrolls = (node) =>
    node && (getComputedStyle(node).overflowX !== "visible" || scrolls(node.parentElement));
  const wide = [...document.querySelectorAll("main *")].filter(
    (node) => node.getBoundingClientRect().right > innerWidth && !scrolls(node.parentElement));
  return wide.map((node) => `${node.tagName}.${node.className}: ${node.textContent.slice(0, 40)}`);
}"""
ERROR = JobError(reason=Reason.STAGE, message="container exited with code 3", error="x" * 3000)


@pytest.fixture
async def api(redis_url: str, unique: str, tmp_path: Path) -> AsyncIterator[Api]:
    storage = DirectoryStorage(tmp_path / "blobs")
    await storage.prepare()
    async with open_api(storage, redis_url=redis_url, prefix=unique, folder=tmp_path) as api:
        yield api


@pytest.fixture
async def many(api: Api) -> Job:
    """The newest of many jobs, one of many frames whose first has been retried."""
    now = datetime.now(UTC)
    for number in range(JOBS - 1):
        state = (State.COMPLETE, State.FAILED, State.KILLED)[number % 3]
        error = ERROR if state is State.FAILED else None
        await api.add_job(
            submitter="root", state=state, submitted_at=now - timedelta(minutes=number + 1), error=error
        )
    over = Attempt(number=1, ending="failed", error=ERROR)
    frames = (
        Frame(number=1, phase=State.RUNNING, attempt=2, retried=1, attempts=(over,)),
        *(
            Frame(number=n, phase=State.FAILED, error=ERROR, params={"x": "y" * 90})
            for n in range(2, FRAMES + 1)
        ),
    )
    job = await api.add_job(
        submitter="root", state=State.FAILING, frames=frames, submitted_at=now, tags=("t" * 60,) * 8
    )
    name = attempt_name(f"{stem_of(job)}-1", 1, ".failed.zip")
    await api.storage.write(Container.RESULTS, name, b"zip", metadata={"uid": job.uid, "attempt": "1"})
    return job


@pytest.fixture
async def page(browser: Browser, api: Api, many: Job) -> AsyncIterator[Page]:
    service = DevService(url=api.url, keys={"user": api.keys["ann"], "administrator": api.keys["root"]})
    async with open_context(browser, service, "administrator", viewport=ZOOMED) as context:
        opened = await context.new_page()
        errors: list[str] = []
        opened.on("pageerror", lambda error: errors.append(str(error)))
        yield opened
        assert not errors


async def fits(page: Page) -> None:
    """Nothing loads any more, and nothing is wider than the window but what scrolls by itself."""
    await expect(page.locator(".loading")).to_have_count(0)
    assert await page.evaluate(TOO_WIDE) == []


async def test_hundreds_of_analyses_and_runs_are_shown_page_by_page_and_fit(
    page: Page, api: Api, many: Job
) -> None:
    await page.goto("/#/jobs")
    rows = page.locator("ul.jobs > li")
    await expect(rows.first).to_contain_text(many.id)
    while await page.get_by_role("button", name="Show older ones").count():
        before = await rows.count()
        await page.get_by_role("button", name="Show older ones").click()
        await expect(rows.nth(before)).to_be_visible()
    await expect(rows).to_have_count(JOBS)
    await fits(page)
    await page.goto(f"/#/jobs/{many.id}/runs")
    runs = page.locator("table.runs tbody tr")
    await expect(runs).to_have_count(FRAMES)
    await fits(page)
    await page.get_by_text("Earlier attempts").first.click()
    async with page.expect_download() as waiting:
        await page.get_by_role("link", name=re.compile("^Failed package \\(3 ")).click()
    assert (await waiting.value).suggested_filename == f"{stem_of(many)}-1.1.failed.zip"
    await page.get_by_label("State").select_option("retrying")
    await expect(runs).to_have_count(1)
    for tab in ("overview", "history", "usage"):
        await page.goto(f"/#/jobs/{many.id}/{tab}")
        await fits(page)
    for tab in ("analyses", "failures"):
        await page.goto(f"/#/dashboard/{tab}")
        await expect(page.locator("section.dashboard tbody tr").first).to_be_visible()
        await fits(page)
