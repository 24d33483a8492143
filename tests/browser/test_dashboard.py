"""The administrators' dashboard in a real browser: what it shows, what it follows, what it does to many."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Locator, Page, expect

from aioanalysis.client import AnalysisClient
from aioanalysis.domain.exchange import (
    Container,
    Ending,
    PackageMeta,
    package_name,
    result_name,
    worker_name,
)
from aioanalysis.domain.frames import Attempt, Hold
from aioanalysis.domain.job import Job
from aioanalysis.domain.outcomes import JobError, Reason
from aioanalysis.domain.states import State
from aioanalysis.domain.usage import Usage
from aioanalysis.domain.wrangling import MethodHealth
from aioanalysis.storage.directory import DirectoryStorage
from tests.support.apiserver import Api, open_api, stem_of
from tests.support.browsing import DevService, open_context
from tests.support.packages import names_in, new_stem
from tests.support.storedfiles import fill, put, sign

CODE = "SIMULATED-distance_summary"
TABS = ("overview", "analyses", "workers", "failures", "users", "files", "orphans")
ERROR = JobError(reason=Reason.OUT_OF_MEMORY, message="killed")


@pytest.fixture
async def api(redis_url: str, unique: str, tmp_path: Path) -> AsyncIterator[Api]:
    """An API without scheduler and worker: what is shown is what a test has put there."""
    storage = DirectoryStorage(tmp_path / "blobs")
    await storage.prepare()
    async with open_api(
        storage, redis_url=redis_url, prefix=unique, folder=tmp_path, orphan_seconds=0
    ) as api:
        yield api


@asynccontextmanager
async def administrator(browser: Browser, api: Api, **options: object) -> AsyncIterator[Page]:
    """A page whose own code must make no error."""
    service = DevService(url=api.url, keys={"user": api.keys["ann"], "administrator": api.keys["root"]})
    async with open_context(browser, service, "administrator", **options) as context:
        page = await context.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        yield page
        assert not errors


@pytest.fixture
async def page(browser: Browser, api: Api) -> AsyncIterator[Page]:
    async with administrator(browser, api) as page:
        yield page


async def populate(api: Api) -> None:
    """Something for every tab."""
    now = datetime.now(UTC)
    usage = Usage.from_json({"cpu_seconds": 90.0, "wall_seconds": 100})
    for hours, state in ((30, State.COMPLETE), (20, State.FAILED), (3, State.COMPLETE), (2, State.KILLED)):
        at = now - timedelta(hours=hours)
        run = Attempt(
            number=1,
            ending=state.value,
            started_at=(at + timedelta(seconds=20)).isoformat(),
            usage=usage,
            result_bytes=5000,
        )
        await api.add_job(
            state=state,
            submitted_at=at,
            state_changed_at=at + timedelta(minutes=2),
            attempts=(run,),
            error=ERROR if state is State.FAILED else None,
        )
    job = await api.add_job(state=State.QUEUED, submitter="ben")
    await put(api.storage, package_name(stem_of(job)), Container.QUEUE, uid=job.uid)
    running = await api.add_job(state=State.RUNNING, submitter="ben")
    run_of = {"stem": stem_of(running), "attempt": 1, "since": now.isoformat()}
    ended = {**run_of, "stem": new_stem()}
    busy = sign("busy", running=[run_of], finishing=[ended])
    await api.storage.write(Container.RESULTS, worker_name("busy"), busy)
    await api.storage.write(Container.RESULTS, worker_name("gone"), sign("gone", state="stopped"))
    await fill(api.storage, new_stem(), **expired())
    await fill(api.storage, new_stem(), uid="d" * 32)
    await put(api.storage, "notes.txt")


def expired() -> dict[str, str]:
    return PackageMeta(uid="b" * 32, expires_at=datetime.now(UTC)).to_metadata()


async def open_tab(page: Page, tab: str) -> Locator:
    """The tab's part of the page, once it has loaded."""
    await page.goto(f"/#/dashboard/{tab}")
    part = page.locator("section.dashboard")
    await expect(part).to_be_visible()
    await expect(part.locator(".loading")).to_have_count(0)
    return part


async def faults(page: Page) -> list[str]:
    """What axe-core finds, each with the places."""
    found = (await Axe().run(page)).response["violations"]
    return [f"{one['id']} ({one['impact']}): {[node['target'] for node in one['nodes']]}" for one in found]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
async def test_no_tab_has_an_accessibility_fault_nor_is_wider_than_the_screen(
    browser: Browser, api: Api, scheme: str, width: int
) -> None:
    await populate(api)
    viewport = {"width": width, "height": 800}
    async with administrator(browser, api, color_scheme=scheme, viewport=viewport) as page:
        for tab in TABS:
            part = await open_tab(page, tab)
            await part.evaluate(
                "node => node.querySelectorAll('details').forEach((one) => (one.open = true))"
            )
            assert await faults(page) == [], tab
            assert await page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, tab


async def test_a_worker_shows_apart_what_runs_and_what_is_being_stored(page: Page, api: Api) -> None:
    await populate(api)
    part = await open_tab(page, "workers")
    await expect(part.get_by_text("1 of 2 places taken")).to_be_visible()
    await expect(part.get_by_role("listitem").filter(has_text="being stored").last).to_contain_text("noop")


async def test_an_empty_service_says_so_on_every_tab(page: Page) -> None:
    for tab, text in (
        ("overview", "There are no analyses yet."),
        ("analyses", "There are no analyses yet."),
        ("workers", "No worker is alive."),
        ("failures", "Nothing has failed."),
        ("users", "Nobody has submitted anything yet."),
        ("files", "The queue is empty."),
        ("orphans", "There are no orphaned files."),
    ):
        part = await open_tab(page, tab)
        await expect(part.get_by_text(text)).to_be_visible()


async def test_the_dashboard_is_neither_offered_nor_shown_to_a_user(browser: Browser, api: Api) -> None:
    service = DevService(url=api.url, keys={"user": api.keys["ann"], "administrator": api.keys["root"]})
    async with open_context(browser, service) as context:
        page = await context.new_page()
        await page.goto("/#/dashboard")
        await expect(page.get_by_role("heading", name="Not found")).to_be_visible()
        await expect(page.get_by_role("link", name="Dashboard")).to_have_count(0)


async def test_a_fault_is_told_and_can_be_tried_again(page: Page) -> None:
    await page.route("**/v1/statistics**", lambda route: route.fulfill(status=503, body="{}"))
    await page.goto("/#/dashboard")
    alert = page.get_by_role("alert")
    await expect(alert).to_be_visible()
    await page.unroute("**/v1/statistics**")
    await alert.get_by_role("button", name="Try again").click()
    await expect(page.get_by_text("There are no analyses yet.")).to_be_visible()


async def test_the_overview_counts_charts_and_follows_what_happens(page: Page, api: Api) -> None:
    await populate(api)
    part = await open_tab(page, "overview")
    await expect(part.get_by_role("link", name="Complete")).to_contain_text("2")
    await expect(part.get_by_role("link", name="worker")).to_contain_text("1")
    chart = part.get_by_role("img", name="Analyses ended an hour")
    await expect(chart).to_have_accessible_description(
        re.compile("2 analyses completed, 1 failed and 1 were")
    )
    waits = part.get_by_role("img", name="Waiting time")
    await expect(waits).to_have_accessible_description(re.compile("half of 4 analyses began within 20 s"))
    bars = part.get_by_label("Bars of")
    await bars.select_option("24")
    await expect(bars).to_be_visible()
    await part.get_by_text("The figures as a table").first.click()
    table = part.get_by_role("table", name="Analyses ended an hour")
    await expect(table.get_by_role("row").nth(1)).to_be_visible()
    await api.add_job(state=State.COMPLETE)  # told by an event
    await expect(part.get_by_role("link", name="Complete")).to_contain_text("3")
    await part.get_by_role("link", name="Failed").click()
    await expect(page).to_have_url(re.compile("#/dashboard/analyses\\?state=failed"))
    await expect(page.get_by_role("table").get_by_role("row")).to_have_count(2)


async def test_a_method_that_is_held_is_told_with_what_it_holds(page: Page, api: Api) -> None:
    health = MethodHealth(
        title="noop", digest=None, failures=(("0123abcd", "w1"),), held_since=datetime.now(UTC)
    )
    await api.parts.store.set_method_health(health)
    await api.add_job(title="noop", state=State.BLOCKED, holds=frozenset({Hold.METHOD}))
    part = await open_tab(page, "overview")
    await expect(part.get_by_text("A method is held")).to_be_visible()
    await expect(part.get_by_text("1 packages of noop failed in a row")).to_be_visible()
    await part.get_by_role("link", name="What it holds").click()
    await expect(page.get_by_role("row").nth(1)).to_contain_text("noop")


# --- many analyses at once ---


async def test_selected_analyses_are_killed_after_a_question_that_says_how_many(page: Page, api: Api) -> None:
    waiting = [await api.add_job() for _ in range(3)]
    done = await api.add_job(state=State.COMPLETE)
    part = await open_tab(page, "analyses")
    await expect(part.get_by_role("row")).to_have_count(5)
    for job in (*waiting[:2], done):
        await part.get_by_role("checkbox", name=f"Select {job.title} {job.id}").check()
    await expect(part.get_by_text("3 analyses selected:")).to_be_visible()
    await part.get_by_role("button", name="Kill").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("heading", name="Kill 2 analyses?")).to_be_visible()
    await expect(dialog.get_by_text("1 analysis more is in a state that does not allow it")).to_be_visible()
    assert await faults(page) == []
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await expect(part.get_by_role("button", name="Kill")).to_be_focused()
    assert [job.state for job in [await job_of(api, one) for one in waiting]] == [State.WAITING] * 3
    await part.get_by_role("button", name="Kill").click()
    await dialog.get_by_role("button", name="Kill 2").click()
    await expect(part.get_by_text("Kill: 2 done.")).to_be_visible()
    await expect(part.locator("tbody .state", has_text="Killed")).to_have_count(2)
    states = [(await job_of(api, job)).state for job in (*waiting, done)]
    assert states == [State.KILLED, State.KILLED, State.WAITING, State.COMPLETE]


async def test_an_action_on_all_that_the_filter_finds_reaches_the_pages_not_shown_and_no_other(
    page: Page, api: Api
) -> None:
    theirs = [await api.add_job(submitter="ben", state=State.KILLED) for _ in range(60)]
    others = [await api.add_job(state=State.KILLED) for _ in range(2)]
    part = await open_tab(page, "analyses?submitter=ben")
    await expect(part.get_by_role("row")).to_have_count(51)
    await expect(part.get_by_text("All that the filter finds:")).to_be_visible()
    await part.get_by_role("button", name="Retry").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_text("60 killed.")).to_be_visible()
    await dialog.get_by_role("button", name="Retry 60").click()
    await expect(part.get_by_text("Retry: 60 done.")).to_be_visible()
    assert {(await job_of(api, job)).state for job in theirs} == {State.WAITING}
    assert {(await job_of(api, job)).state for job in others} == {State.KILLED}
    await part.get_by_role("link", name="Older").click()
    await expect(part.get_by_role("row")).to_have_count(11)
    await part.get_by_role("link", name="Newest").click()
    await expect(part.get_by_role("row")).to_have_count(51)


async def test_an_action_that_fits_none_asks_nothing_and_what_is_refused_meanwhile_is_told(
    page: Page, api: Api
) -> None:
    job = await api.add_job(state=State.KILLED)
    part = await open_tab(page, "analyses")
    await expect(part.get_by_role("row")).to_have_count(2)
    await part.get_by_role("button", name="Suspend").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("heading", name="Suspend: nothing to do")).to_be_visible()
    await dialog.get_by_role("button", name="All right").click()
    await part.get_by_role("button", name="Retry").click()
    await expect(dialog).to_be_visible()
    assert (await api.call("POST", f"/v1/jobs/{job.id}/actions/retry", by="root")).status == 200
    await dialog.get_by_role("button", name="Retry 1").click()
    await expect(part.get_by_text("Retry: 0 done, 1 refused.")).to_be_visible()
    await expect(part.get_by_text("does not fit a job that is waiting")).to_be_visible()


async def test_filters_are_in_the_address_and_rows_follow_events(page: Page, api: Api) -> None:
    await api.add_job(title="tree")
    await api.add_job(title="gap")
    part = await open_tab(page, "analyses")
    await part.get_by_label("Method").fill("gap")
    await page.keyboard.press("Enter")
    await expect(page).to_have_url(re.compile("title=gap"))
    await expect(part.get_by_role("row")).to_have_count(2)
    new = await api.add_job(title="gap", submitter="ben")
    row = part.get_by_role("row", name=new.id)
    await expect(row).to_contain_text("Waiting")
    await api.call("POST", f"/v1/jobs/{new.id}/actions/kill", by="root")
    await expect(row).to_contain_text("Killed")
    await part.get_by_label("Submitter").fill("nobody")
    await part.get_by_role("button", name="Filter").click()
    await expect(part.get_by_text("No analysis fits.")).to_be_visible()
    await part.get_by_role("link", name="Clear").click()
    await expect(part.get_by_role("row")).to_have_count(4)


# --- storage ---


async def test_files_are_listed_by_container_and_downloaded(page: Page, api: Api, tmp_path: Path) -> None:
    job = await api.complete_job(b"the package", title="noop")
    part = await open_tab(page, "files")
    await part.get_by_label("Container").select_option("results")
    async with page.expect_download() as waiting:
        await part.get_by_role("link", name=f"{stem_of(job)}.zip").click()
    await (await waiting.value).save_as(tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"the package"
    await part.get_by_label("Name begins with").fill("other")
    await part.get_by_role("button", name="List").click()
    await expect(part.get_by_text("No name begins like that.")).to_be_visible()


async def test_orphans_are_listed_first_then_swept_after_a_question_and_the_rest_stays(
    page: Page, api: Api
) -> None:
    job = await api.complete_job(b"wanted", title="noop")
    for _ in range(3):
        await put(api.storage, result_name(new_stem(), Ending.COMPLETE), **expired())
    unknown = result_name(new_stem(), Ending.COMPLETE)
    await put(api.storage, unknown, uid="d" * 32)
    await put(api.storage, "notes.txt")
    part = await open_tab(page, "orphans")
    await expect(part.get_by_role("table", name="Files of no analysis").get_by_role("row")).to_have_count(6)
    await expect(part.get_by_role("checkbox", name="Foreign")).to_be_disabled()
    await expect(part.get_by_role("checkbox", name="Unknown")).not_to_be_checked()
    await part.get_by_role("button", name="Sweep 3 files").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("heading", name="Remove 3 files for good?")).to_be_visible()
    assert await faults(page) == []
    await dialog.get_by_role("button", name="Cancel").click()
    assert len(await names_in(api.storage, Container.RESULTS)) == 6
    await part.get_by_role("button", name="Sweep 3 files").click()
    await dialog.get_by_role("button", name="Remove 3").click()
    await expect(part.get_by_text("3 files removed")).to_be_visible()
    kept = sorted([f"{stem_of(job)}.zip", unknown, "notes.txt"])
    assert await names_in(api.storage, Container.RESULTS) == kept
    await part.get_by_role("checkbox", name="Unknown").check()
    await part.get_by_role("button", name="Sweep 1 file").click()
    await expect(dialog.get_by_text("Some are of analyses whose records were lost.")).to_be_visible()
    await dialog.get_by_role("button", name="Remove 1").click()
    await expect(part.get_by_text("1 file removed")).to_be_visible()
    assert await names_in(api.storage, Container.RESULTS) == sorted([f"{stem_of(job)}.zip", "notes.txt"])


async def job_of(api: Api, job: Job) -> Job:
    """As it is stored now."""
    found = await api.parts.store.get(job.id)
    assert found is not None
    return found


# --- before the whole service ---


async def test_an_administrator_sees_a_users_analysis_run_on_its_worker(
    administrator_page: Page, client: AnalysisClient
) -> None:
    page = administrator_page
    part = await open_tab(page, "workers")
    await expect(part.get_by_text("At work")).to_be_visible()
    job = await client.submit("slow", recordset=CODE, params={"seconds": 600})
    await expect(part.get_by_role("listitem").filter(has_text=job["id"]).last).to_be_visible()
    part = await open_tab(page, "files?container=results&prefix=claimed/")
    await expect(part.get_by_role("row", name=job["id"])).to_contain_text("held by")
    part = await open_tab(page, "analyses?title=slow")
    row = part.get_by_role("row", name=job["id"])
    await expect(row).to_contain_text("Running")
    await part.get_by_role("checkbox", name=f"Select slow {job['id']}").check()
    await part.get_by_role("button", name="Kill").click()
    await page.get_by_role("dialog").get_by_role("button", name="Kill 1").click()
    await expect(row).to_contain_text("Killed")
