"""What axe-core finds in each of a user's views, in light and dark, at a desktop's and a phone's width."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, expect

from aioanalysis.client import AnalysisClient
from tests.support.browsing import ROOT, DevService, open_context

CODE = "SIMULATED-distance_summary"
SAMPLE = ROOT / "methods/distance_summary/sample/records.jsonl"
FIRST = json.loads(SAMPLE.read_text().partition("\n")[0])["processid"]
SERIOUS = {"serious", "critical"}
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
BY_LOOK = ["color-contrast", "scrollable-region-focusable", "target-size", "link-in-text-block"]
"""Rules whose findings hang on colours and widths; the others find the same in every look."""


async def check(page: Page, what: str) -> None:
    """Nothing serious, and nothing wider than the window, both light on a desktop and dark on a phone."""
    await page.emulate_media(color_scheme="light")
    await page.set_viewport_size(DESKTOP)
    await _check(page, f"{what}, light", {})
    await page.emulate_media(color_scheme="dark")
    await page.set_viewport_size(PHONE)
    await _check(page, f"{what}, dark on a phone", {"runOnly": BY_LOOK})


async def _check(page: Page, what: str, options: Mapping[str, Any]) -> None:
    found = await Axe().run(page, options={"resultTypes": ["violations"], "iframes": False, **options})
    serious = [
        f"{one['id']}: {node['html'][:200]} ({node['failureSummary']})"
        for one in found.response["violations"]
        if one["impact"] in SERIOUS
        for node in one["nodes"]
    ]
    assert not serious, f"{what}: " + "\n".join(serious)
    over = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert over <= 0, f"{what} is {over} px wider than the window"


async def test_axe_finds_nothing_serious_in_any_view(page: Page, client: AnalysisClient) -> None:
    some = {"include": [FIRST]}  # a small table: axe looks at every cell
    complete = await client.submit("record_export", recordset=CODE, selection=some, tags=["axe"])
    failed = await client.submit("fail_stage3", recordset=CODE)
    many = await client.submit("record_export", recordset=CODE, split={"records": 60})
    held = await client.submit("slow", recordset=CODE, hold=True)
    for job in (complete, failed, many):
        await client.wait(job["id"], timeout=60)

    await page.goto("/#/jobs")
    await expect(page.get_by_text(held["id"])).to_be_visible()
    await check(page, "analyses")
    await page.locator("summary", has_text="developer").click()
    await check(page, "menu")
    await page.goto("/#/new")
    await expect(page.get_by_role("link", name="Record Export")).to_be_visible()
    await check(page, "methods")
    await page.goto("/#/new/distance_summary")
    await page.get_by_text("More: several runs").click()
    await page.get_by_label("A file of yours").check()
    await page.get_by_label("One run for each value of a parameter").check()
    await page.get_by_role("button", name="Another analysis has ended").click()
    await page.get_by_role("button", name="Submit").click()
    await expect(page.locator(".wrong").first).to_be_visible()
    await check(page, "form")

    for tab, sign in (
        ("overview", ".facts"),
        ("report", "iframe"),
        ("files?path=export.tsv", "table.data"),
        ("log", "pre.output"),
        ("usage", ".facts"),
        ("history", ".history"),
    ):
        await page.goto(f"/#/jobs/{complete['id']}/{tab}")
        await expect(page.locator(sign).first).to_be_visible()
        await check(page, tab)
    await page.goto(f"/#/jobs/{failed['id']}")
    await expect(page.locator("pre.output")).to_be_visible()
    await check(page, "failure")
    await page.goto(f"/#/jobs/{many['id']}/runs")
    await expect(page.get_by_role("region", name="Runs")).to_be_visible()
    await check(page, "runs")
    await page.goto(f"/#/jobs/{held['id']}")
    await page.get_by_role("button", name="Kill").click()
    await check(page, "question")
    await page.get_by_role("dialog").get_by_role("button", name="Kill").click()
    await expect(page.locator("main .state").first).to_contain_text("Killed")
    await page.goto("/#/jobs/00000000")
    await expect(page.get_by_text("There is no such analysis.")).to_be_visible()
    await check(page, "nothing")


async def test_axe_finds_nothing_serious_in_the_sign_in(browser: Browser, service: DevService) -> None:
    async with open_context(browser, service, None) as context:
        page = await context.new_page()
        await page.goto("/")
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("alert")).to_be_visible()
        await check(page, "sign-in")
