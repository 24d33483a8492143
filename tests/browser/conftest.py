"""What browser tests share: one service and one Chromium for the session, a signed-in page for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, expect

from aioanalysis.client import AnalysisClient, open_client
from tests.support.browsing import DevService, dev_service, open_browser, open_context
from tests.support.parts import require

expect.set_options(timeout=20_000)  # a busy machine is no finding


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevService]:
    require("valkey")
    with dev_service(tmp_path_factory.mktemp("dev")) as running:
        yield running


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with open_browser(require("chromium")) as running:
        yield running


@pytest.fixture
async def context(browser: Browser, service: DevService) -> AsyncIterator[BrowserContext]:
    """A user's."""
    async with open_context(browser, service) as opened:
        yield opened


@asynccontextmanager
async def watched(context: BrowserContext) -> AsyncIterator[Page]:
    """A page; an error in its own code, or against its policy, fails the test."""
    page = await context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "console", lambda said: errors.append(said.text) if "Content Security Policy" in said.text else None
    )
    yield page
    assert not errors


@pytest.fixture
async def page(context: BrowserContext) -> AsyncIterator[Page]:
    """A user's."""
    async with watched(context) as opened:
        yield opened


@pytest.fixture
async def administrator_page(browser: Browser, service: DevService) -> AsyncIterator[Page]:
    async with open_context(browser, service, "administrator") as context, watched(context) as opened:
        yield opened


@pytest.fixture
async def client(service: DevService) -> AsyncIterator[AnalysisClient]:
    """The same user's client: what a test does not do in the browser."""
    async with open_client(service.url, service.keys["user"]) as opened:
        yield opened
