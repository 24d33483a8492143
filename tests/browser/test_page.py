"""A user's ways through the page, in a real browser before the real service."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

from playwright.async_api import Browser, Page, expect

from aioanalysis.client import AnalysisClient
from tests.support.browsing import ROOT, DevService, open_context
from tests.support.faultproxy import FaultProxy
from tests.support.waiting import eventually

SAMPLE = ROOT / "methods/distance_summary/sample/records.jsonl"
CODE = "SIMULATED-distance_summary"


async def open_form(page: Page, method: str) -> None:
    await page.goto("/#/new")
    await page.get_by_role("link", name=method).click()
    await expect(page.get_by_role("heading", name=method, level=1)).to_be_focused()


async def submit_form(page: Page) -> str:
    """The new job's id."""
    await page.get_by_role("button", name=re.compile("^Submit")).click()
    await page.wait_for_url(re.compile("#/jobs/[0-9a-z]{8}$"))
    return page.url.rpartition("/")[2]


async def expect_state(page: Page, label: str) -> None:
    await expect(page.locator("main .state").first).to_have_text(re.compile(label), timeout=60_000)


async def tab(page: Page, name: str) -> None:
    await page.get_by_role("navigation", name="Parts of this analysis").get_by_role("link", name=name).click()


async def test_a_key_signs_in_and_signing_out_ends_the_session(browser: Browser, service: DevService) -> None:
    async with open_context(browser, service, None) as context:
        page = await context.new_page()
        await page.goto("/#/new")
        await page.get_by_label("API key").fill("aioa_nobody-holds-this")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_contain_text("Nobody holds this key")
        await page.get_by_label("API key").fill(service.keys["user"])
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("heading", name="New analysis")).to_be_visible()
        (cookie,) = await context.cookies()
        assert cookie["httpOnly"]
        assert cookie["sameSite"] == "Strict"
        assert service.keys["user"] not in await page.evaluate(
            "JSON.stringify([localStorage, sessionStorage])"
        )
        await page.locator("summary", has_text="developer").click()
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_label("API key")).to_be_focused()
        assert await context.cookies() == []
        await page.reload()
        await expect(page.get_by_label("API key")).to_be_visible()


async def test_a_job_submitted_in_the_form_is_followed_to_its_report_tables_package_and_figures(
    page: Page, tmp_path: Path
) -> None:
    await open_form(page, "Distance Summary")
    await page.get_by_label("Recordset code").fill(CODE)
    await page.get_by_label("Distance model").select_option("p")
    job_id = await submit_form(page)
    await expect(page.get_by_role("region", name="How far it is")).to_be_visible()
    await expect_state(page, "Complete")  # by events: nothing here loads the page anew
    await expect(page.locator("dd", has_text=re.compile("^p$"))).to_be_visible()

    await page.get_by_role("link", name="Read the report").click()
    report = page.frame_locator("iframe[title=Report]")
    await expect(report.get_by_role("heading", name="Distance Summary").first).to_be_visible()
    assert await page.locator("iframe[title=Report]").get_attribute("sandbox") == ""

    await tab(page, "Files")
    await page.get_by_role("link", name="families.tsv").click()
    table = page.get_by_role("region", name="Table families.tsv")
    await expect(table.get_by_role("columnheader").first).to_have_text("family")
    await expect(table.get_by_role("row")).to_have_count(5)
    await page.get_by_role("link", name="params.json").click()
    await expect(page.get_by_role("region", name="Content")).to_contain_text('"distance_model": "p"')

    async with page.expect_download() as waiting:
        await page.get_by_role("link", name="Download all (zip)").click()
    download = await waiting.value
    await download.save_as(tmp_path / "package.zip")
    assert download.suggested_filename == f"distance_summary.{job_id}.zip"
    with zipfile.ZipFile(tmp_path / "package.zip") as package:
        assert json.loads(package.read("params.json"))["distance_model"] == "p"

    await tab(page, "Output")
    await expect(page.get_by_role("region", name="Output")).to_contain_text("123 records read")
    await tab(page, "CPU and memory")
    await expect(page.get_by_role("img", name="Memory")).to_contain_text("limit 2.0 GB")
    assert await page.locator(".chart .line, .chart circle").count() >= 2


async def test_a_value_that_is_wrong_is_told_at_its_field_before_and_after_it_is_sent(page: Page) -> None:
    await open_form(page, "Distance Summary")
    await page.get_by_label("Minimum length (bp)").fill("-3")
    await page.keyboard.press("Tab")
    length = page.locator(".field", has_text="Minimum length (bp)")
    await expect(length.locator(".wrong")).to_have_text("0 is the least.")
    await page.get_by_role("button", name="Submit").click()
    code = page.get_by_label("Recordset code")
    await expect(code).to_be_focused()
    await expect(code).to_have_attribute("aria-invalid", "true")
    await page.get_by_label("Minimum length (bp)").fill("100")
    await expect(length.locator(".wrong")).to_have_count(0)
    await code.fill("no such code!")
    await page.get_by_role("button", name="Submit").click()
    await expect(page.locator("#recordset-wrong")).to_be_visible()  # told by the service
    await expect(page.locator("#recordset-wrong")).to_contain_text("pattern")


async def test_a_dropped_file_is_sent_with_a_selection_and_taken_along_when_resubmitted(
    page: Page,
) -> None:
    first = json.loads(SAMPLE.read_text().partition("\n")[0])["processid"]
    await open_form(page, "Record Export")
    await page.get_by_label("A file of yours").check()
    dropped = await page.evaluate_handle(
        """text => {
          const data = new DataTransfer();
          data.items.add(new File([text], "records.jsonl"));
          return data;
        }""",
        SAMPLE.read_text(),
    )
    await page.dispatch_event(".drop", "drop", {"dataTransfer": dropped})
    await expect(page.get_by_role("status").get_by_text("records.jsonl")).to_be_visible()
    await page.get_by_label("Only some, by their ids").check()
    await page.get_by_label("Record ids or process ids").fill(first)
    await submit_form(page)
    await expect_state(page, "Complete")
    await expect(page.get_by_text("A file, 1 record; only 1 of them chosen")).to_be_visible()
    await page.get_by_role("link", name="Resubmit with changes").click()
    await expect(page.get_by_label("Record ids or process ids")).to_have_value(first)
    await page.get_by_label("All of them").check()
    await submit_form(page)
    await expect_state(page, "Complete")
    await expect(page.get_by_text("A file, 123 records")).to_be_visible()


async def test_a_failed_job_says_why_and_can_be_resubmitted_with_another_parameter(
    page: Page, client: AnalysisClient
) -> None:
    job = await client.submit("distance_summary", recordset=CODE, params={"marker": "matK"})
    await page.goto(f"/#/jobs/{job['id']}")
    await expect_state(page, "Failed")
    failure = page.get_by_role("region", name="A step of the analysis stopped with an error.")
    await expect(failure).to_contain_text("1_")
    await expect(failure.get_by_role("region", name="The end of what it printed")).to_contain_text("matK")
    await expect(page.get_by_role("link", name="Download the failed package")).to_be_visible()
    await page.get_by_role("link", name="Resubmit with changes").click()
    await expect(page.get_by_label("Marker")).to_have_value("matK")
    await expect(page.get_by_label("Recordset code")).to_have_value(CODE)
    await page.get_by_label("Marker").fill("COI-5P")
    again = await submit_form(page)
    assert again != job["id"]
    await expect_state(page, "Complete")
    await expect(page.get_by_role("link", name=job["id"])).to_be_visible()  # made from


async def test_records_that_are_not_there_are_told_and_nothing_is_offered_for_download(
    page: Page, client: AnalysisClient
) -> None:
    job = await client.submit("record_export", recordset="NOT-THERE")
    await page.goto(f"/#/jobs/{job['id']}")
    await expect_state(page, "Failed")
    failure = page.get_by_role("region", name="Its records could not be had.")
    await expect(failure).to_contain_text("There is no record set 'NOT-THERE'")
    await expect(page.get_by_role("link", name="Resubmit with changes")).to_be_visible()
    await expect(page.get_by_role("link", name=re.compile("Download|Files"))).to_have_count(0)


async def test_a_running_job_is_killed_after_a_question_then_retried_and_removed(
    page: Page, client: AnalysisClient
) -> None:
    job = await client.submit("slow", recordset=CODE, params={"seconds": 600})
    await page.goto(f"/#/jobs/{job['id']}")
    await expect_state(page, "Running")
    await expect(page.get_by_role("progressbar", name="Stages")).to_have_attribute(
        "aria-valuetext", re.compile("Stage 2 of 5")
    )
    await tab(page, "Output")
    await expect(page.get_by_role("region", name="Output")).to_contain_text("step 1")
    await tab(page, "CPU and memory")
    await expect(page.get_by_role("img", name="Memory")).to_contain_text("limit 256 MB")
    samples = page.get_by_role("region", name="In short").locator("dd", has_text=re.compile("times, every"))
    before = await samples.inner_text()
    await expect(samples).not_to_have_text(before)  # by events: nothing here loads the page anew
    await expect(page.locator(".chart polyline.line").first).to_be_visible()
    await page.get_by_role("button", name="Kill").click()
    await page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    await expect_state(page, "Running")
    await page.get_by_role("button", name="Kill").click()
    await page.get_by_role("dialog").get_by_role("button", name="Kill").click()
    await expect_state(page, "Killed")
    await tab(page, "Overview")
    async with page.expect_download() as waiting:
        await page.get_by_role("link", name="Package so far").click()
    assert (await waiting.value).suggested_filename == f"slow.{job['id']}.1.killed.zip"
    await page.get_by_role("button", name="Retry").click()
    await expect_state(page, "Waiting|Queued|Running")
    await expect_state(page, "Running")
    await page.get_by_role("button", name="Kill").click()
    await page.get_by_role("dialog").get_by_role("button", name="Kill").click()
    await expect_state(page, "Killed")
    await page.get_by_role("button", name="Remove").click()
    await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    await expect(page.get_by_role("heading", name="Analyses")).to_be_visible()
    await expect(page.get_by_text(job["id"])).to_have_count(0)


async def test_a_chain_of_dependencies_is_made_in_the_form_and_says_what_it_waits_for(
    page: Page, client: AnalysisClient
) -> None:
    first = await client.submit("record_export", recordset=CODE, hold=True)
    await open_form(page, "Record Export")
    await page.get_by_label("Recordset code").fill(CODE)
    await page.get_by_text("More: several runs").click()
    await page.get_by_role("button", name="Another analysis has ended").click()
    await page.get_by_label("Analysis to wait for, by its id").fill("zzzzzzzz")
    await page.get_by_role("button", name="Submit").click()
    await expect(page.get_by_text("there is no job zzzzzzzz")).to_be_visible()  # told by the service
    await expect(page.get_by_label("Analysis to wait for, by its id")).to_be_focused()
    await page.get_by_label("Analysis to wait for, by its id").fill(first["id"])
    await submit_form(page)
    await expect_state(page, "On hold")
    await expect(page.get_by_text(f"It waits for job {first['id']} to be complete.")).to_be_visible()
    second = await page.context.new_page()
    await second.goto(f"/#/jobs/{first['id']}")
    await second.get_by_role("button", name="Release").click()
    await expect_state(page, "Complete")


async def test_one_run_for_each_value_of_a_parameter_gives_reports_side_by_side(page: Page) -> None:
    await open_form(page, "Distance Summary")
    await page.get_by_label("Recordset code").fill(CODE)
    await page.get_by_text("More: several runs").click()
    await page.get_by_label("One run for each value of a parameter").check()
    await page.get_by_label("Parameter", exact=True).select_option("distance_model")
    await page.get_by_label("Its values, one a line").fill("p\nk2p")
    await submit_form(page)
    await expect_state(page, "Complete")
    await tab(page, "Runs")
    rows = page.get_by_role("region", name="Runs").get_by_role("row")
    await expect(rows).to_have_count(3)
    await expect(rows.nth(2)).to_contain_text("distance_model: k2p")
    await rows.nth(2).get_by_role("link", name="Report").click()
    await expect(page.get_by_role("combobox", name="Run")).to_have_value("2")
    await expect(page.frame_locator("iframe[title=Report]").get_by_text("k2p").first).to_be_visible()


async def test_the_list_is_live_and_goes_on_after_an_outage(
    page: Page, client: AnalysisClient, service: DevService
) -> None:
    async with FaultProxy(("127.0.0.1", int(service.url.rpartition(":")[2]))) as proxy:
        await page.goto(f"http://127.0.0.1:{proxy.port}/#/jobs")
        await expect(page.get_by_role("heading", name="Analyses")).to_be_visible()
        job = await client.submit("record_export", recordset=CODE, hold=True, tags=["seen-live"])
        row = page.locator("ul.jobs > li", has_text=job["id"])
        await expect(row.locator(".state")).to_have_text(re.compile("On hold"))
        await proxy.refuse()
        await expect(page.get_by_text("No connection to the service.")).to_be_visible()
        await client.action(job["id"], "kill")
        await proxy.accept()
        await expect(row.locator(".state")).to_have_text(re.compile("Killed"))
        await expect(page.get_by_text("No connection to the service.")).to_have_count(0)
        await page.get_by_label("Find").fill("seen-live")
        await expect(page.locator("ul.jobs > li")).to_have_count(1)
        await client.remove(job["id"])
        await expect(row).to_have_count(0)
        await page.close()


async def test_a_hidden_tab_keeps_no_connection_and_is_up_to_date_when_seen_again(
    page: Page, client: AnalysisClient
) -> None:
    job = await client.submit("record_export", recordset=CODE, hold=True)
    await page.goto("/#/jobs")
    row = page.locator("ul.jobs > li", has_text=job["id"])
    await expect(row.locator(".state")).to_have_text(re.compile("On hold"))
    show = """hidden => {
      Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
      document.dispatchEvent(new Event("visibilitychange"));
    }"""
    await page.evaluate(show, True)
    ended = "performance.getEntriesByName(location.origin + '/v1/events').length > 0"
    await eventually(lambda: page.evaluate(ended), within=60, what="the stream of events has ended")
    await client.action(job["id"], "kill")
    await page.evaluate(show, False)
    await expect(row.locator(".state")).to_have_text(re.compile("Killed"))


async def test_a_tree_is_drawn(page: Page, client: AnalysisClient) -> None:
    job = await client.submit("taxon_id_tree", recordset="SIMULATED-taxon_id_tree")
    await page.goto(f"/#/jobs/{job['id']}")
    await expect_state(page, "Complete")
    await tab(page, "Files")
    await page.get_by_role("link", name="tree.nwk").click()
    tree = page.get_by_role("img", name=re.compile(r"Tree of \d+ tips"))
    await expect(tree).to_be_visible()
    newick = await page.evaluate(
        "path => fetch(path).then(r => r.text())", f"/v1/jobs/{job['id']}/files/tree.nwk"
    )
    assert await tree.locator("text.tree-label").count() == newick.count(",") + 1 + 1  # and the scale
    await page.get_by_role("link", name="tree.svg").click()
    picture = page.get_by_role("img", name="Picture tree.svg")
    await expect(picture).to_be_visible()
    assert await picture.evaluate("image => image.decode().then(() => image.naturalWidth)") > 0


async def test_the_page_is_used_by_keyboard_alone(page: Page, client: AnalysisClient) -> None:
    job = await client.submit("record_export", recordset=CODE, hold=True)
    await page.goto("/#/jobs")
    await expect(page.get_by_text(job["id"])).to_be_visible()
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="New analysis").last).to_be_focused()
    await page.goto(f"/#/jobs/{job['id']}")
    kill = page.get_by_role("button", name="Kill")
    await kill.focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(kill).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog").get_by_role("button", name="Cancel")).to_be_focused()
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await expect_state(page, "Killed")
    await expect(page.locator("#announcer")).to_have_text(f"Analysis {job['id']} is now killed.")
