"""The page before a service that is slow, silent or odd: it says so, and offers a way on."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from playwright.async_api import BrowserContext, Error, Page, Route, expect

from aioanalysis.client import AnalysisClient
from tests.support.browsing import DevService
from tests.support.faultproxy import FaultProxy
from tests.support.waiting import eventually

REFRESHED = """async () => {
  const { html, render, useEffect, useLoad } = await import("/page/dom.js");
  const seen = { loads: 0, data: [] };
  function Part() {
    const loaded = useLoad(async (signal) => {
      const number = ++seen.loads;
      await new Promise((resolve) => setTimeout(resolve, 200));
      if (!signal.aborted) seen.data.push(number);
      return number;
    }, []);
    useEffect(() => {
      const timer = setInterval(loaded.refresh, 20);
      return () => clearInterval(timer);
    }, []);
    return html`<p>${loaded.data}</p>`;
  }
  const place = document.createElement("div");
  render(html`<${Part} />`, place);
  await new Promise((resolve) => {
    const timer = setInterval(() => seen.data.length > 2 && (clearInterval(timer), resolve()), 20);
  });
  render(null, place);
  return seen;
}"""


@pytest.fixture
async def page(context: BrowserContext) -> Page:
    """With a clock that tests can put forward; faults of the page's own code are what is looked for here."""
    opened = await context.new_page()
    await opened.clock.install()
    return opened


class Held:
    """Requests to one address that get no answer until `go`."""

    def __init__(self) -> None:
        self.came, self._free = asyncio.Event(), asyncio.Event()

    async def __call__(self, route: Route) -> None:
        self.came.set()
        await self._free.wait()
        with suppress(Error):  # the page may have given it up
            await route.continue_()

    def go(self) -> None:
        self._free.set()


async def test_changes_that_come_faster_than_answers_do_not_keep_answers_from_coming(
    context: BrowserContext,
) -> None:
    page = await context.new_page()
    await page.goto("/")
    async with asyncio.timeout(60):
        seen = await page.evaluate(REFRESHED)
    assert seen["data"] == list(range(1, len(seen["data"]) + 1))  # none was given up


async def test_a_page_whose_modules_take_long_says_so_and_goes_on(page: Page) -> None:
    held = Held()
    await page.route("**/page/views/job.js", held)
    await page.goto("/", wait_until="commit")
    await expect(page.get_by_text("Loading …")).to_be_visible()
    async with asyncio.timeout(60):
        await held.came.wait()
    await page.clock.fast_forward(11_000)
    await expect(page.get_by_text("The page is slow to load …")).to_be_visible()
    held.go()
    await expect(page.get_by_role("heading", name="Analyses")).to_be_visible()
    await expect(page.get_by_role("button", name="Try again")).to_have_count(0)


class Refused:
    """Breaks off the first so many requests, as a browser does when a network comes or goes."""

    def __init__(self, most: int) -> None:
        self.count = 0
        self._most = most

    async def __call__(self, route: Route) -> None:
        self.count += 1
        await (route.abort("internetdisconnected") if self.count <= self._most else route.continue_())


async def test_a_page_whose_modules_fail_loads_itself_anew(page: Page) -> None:
    refused = Refused(2)
    await page.route("**/page/views/job.js", refused)
    await page.goto("/")
    await expect(page.get_by_role("heading", name="Analyses")).to_be_visible()
    assert refused.count == 3
    assert await page.evaluate("sessionStorage.getItem('starts')") == "0"


async def test_a_page_whose_modules_fail_again_and_again_says_so_and_can_be_tried_again(page: Page) -> None:
    refused = Refused(4)
    await page.route("**/page/views/job.js", refused)
    await page.goto("/")
    await eventually(lambda: refused.count == 4, within=60)
    await expect(page.get_by_text("The page could not be loaded.")).to_be_visible()
    await page.get_by_role("button", name="Try again").click()
    await expect(page.get_by_role("heading", name="Analyses")).to_be_visible()


async def test_a_service_that_does_not_answer_is_told_and_asked_again(page: Page) -> None:
    held = Held()
    await page.route("**/v1/jobs?**", held)
    await page.goto("/#/jobs")
    async with asyncio.timeout(60):
        await held.came.wait()
    await page.clock.fast_forward(9_000)
    await expect(page.get_by_text("still trying")).to_be_visible()
    await page.clock.fast_forward(30_000)
    alert = page.get_by_role("alert")
    await expect(alert).to_contain_text("has not answered for 30 seconds")
    await alert.get_by_role("button", name="Try again").click()
    held.go()
    await expect(page.locator("ul.jobs, .empty")).to_be_visible()
    await expect(alert).to_have_count(0)


async def test_a_view_that_cannot_be_drawn_leaves_the_rest_of_the_page_and_says_so(page: Page) -> None:
    odd = {"jobs": [{"id": "x"}], "cursor": None}
    await page.route("**/v1/jobs?**", lambda route: route.fulfill(json=odd))
    await page.goto("/#/jobs")
    await expect(page.get_by_role("alert")).to_contain_text("This part of the page has a fault")
    await page.unroute("**/v1/jobs?**")
    await page.get_by_role("link", name="New analysis").first.click()
    await expect(page.get_by_role("heading", name="New analysis")).to_be_visible()
    await page.get_by_role("link", name="Analyses", exact=True).first.click()
    await expect(page.locator("ul.jobs, .empty")).to_be_visible()


async def test_a_stream_of_events_that_never_opens_is_given_up_and_tried_again(page: Page) -> None:
    held = Held()
    await page.route("**/v1/events", held)
    await page.goto("/#/jobs")
    async with asyncio.timeout(60):
        await held.came.wait()
    async with page.expect_request("**/v1/events"):
        await page.clock.fast_forward(21_000)
    held.go()
    await expect(page.get_by_text("No connection to the service.")).to_have_count(0)


async def test_output_grows_on_after_an_outage(
    context: BrowserContext, client: AnalysisClient, service: DevService
) -> None:
    page = await context.new_page()
    job = await client.submit("slow", recordset="SIMULATED-distance_summary", params={"seconds": 600})
    async with FaultProxy(("127.0.0.1", int(service.url.rpartition(":")[2]))) as proxy:
        await page.goto(f"http://127.0.0.1:{proxy.port}/#/jobs/{job['id']}/log")
        output = page.get_by_role("region", name="Output")
        await expect(output).to_contain_text("step 1", timeout=60_000)
        await proxy.refuse()
        await expect(page.get_by_text("No connection to the service.")).to_be_visible()
        before = await output.inner_text()
        await proxy.accept()
        await expect(output).not_to_have_text(before, use_inner_text=True)
        assert (await output.inner_text()).startswith(before)
        await page.close()
    await client.action(job["id"], "kill")


async def test_a_session_that_has_ended_leads_to_the_sign_in_and_back_to_the_same_place(
    page: Page, context: BrowserContext
) -> None:
    await page.goto("/#/new")
    await page.get_by_role("link", name="Distance Summary").click()
    await expect(page.get_by_label("Recordset code")).to_be_visible()
    await context.clear_cookies()
    await page.get_by_label("Recordset code").fill("SIMULATED-distance_summary")
    await page.get_by_role("button", name="Submit").click()
    await expect(page.get_by_label("API key")).to_be_visible()
    assert page.url.endswith("#/new/distance_summary")
