"""The page in a real Chromium, before the whole service: `dev` with child processes as runtime."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from playwright.async_api import Browser, BrowserContext, async_playwright

from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
TEST_METHODS = ("slow", "fail_stage3")
START_SECONDS = 60.0
WAIT_MILLISECONDS = 30_000
Who = Literal["user", "administrator"]


@dataclass(frozen=True, kw_only=True)
class DevService:
    """A running `dev`: its address, and the keys of a user and an administrator."""

    url: str
    keys: dict[Who, str]


@contextmanager
def dev_service(folder: Path) -> Iterator[DevService]:
    """Run `dev` with its data in `folder`, on the shipped methods and two of the tests'."""
    methods = folder / "methods"
    shutil.copytree(ROOT / "methods", methods, ignore=shutil.ignore_patterns("__pycache__"))
    for name in TEST_METHODS:
        shutil.copytree(ROOT / "tests/support/methods" / name, methods / name)
    settings = {
        "DATA_DIR": str(folder / "data"),
        "METHODS_DIR": str(methods),
        "RUNTIME": "process",
        "PORT": "0",
        "WORKER_JOBS": "2",
        "HOST_CPUS": "8",  # runs wait for each other's CPUs no longer than for their slots
        "POLL_INTERVAL": "0.2",
        "WATCH_INTERVAL": "0.5",
        "SAMPLE_INTERVAL": "0.5",
        "DRAIN_SECONDS": "2",
        "LOG_FORMAT": "json",
    }
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("AIOANALYSIS_")}
    log = folder / "dev.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "aioanalysis", "dev"],
            cwd=folder,
            env={**inherited, **{f"AIOANALYSIS_{key}": value for key, value in settings.items()}},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield until(lambda: _announced(process, log), within=START_SECONDS, what="dev listens")
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _announced(process: subprocess.Popen[bytes], log: Path) -> DevService | None:
    text = log.read_text(errors="replace")
    if process.poll() is not None:
        raise RuntimeError(f"dev ended with {process.returncode}: {text[-3000:]}")
    found = re.search(r"ready at (\S+)\s+your key\s+(\S+)\s+administrator key\s+(\S+)", text)
    return found and DevService(url=found[1], keys={"user": found[2], "administrator": found[3]})


@asynccontextmanager
async def open_browser(chromium: str) -> AsyncIterator[Browser]:
    """The system's Chromium. Root has no sandbox, and a container's /dev/shm is small."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def open_context(
    browser: Browser, service: DevService, who: Who | None = "user", **options: Any
) -> AsyncIterator[BrowserContext]:
    """A browser window's profile of its own, signed in as `who`."""
    context = await browser.new_context(base_url=service.url, reduced_motion="reduce", **options)
    context.set_default_timeout(WAIT_MILLISECONDS)
    try:
        if who is not None:
            reply = await context.request.post("/v1/session", headers={"X-API-Key": service.keys[who]})
            assert reply.ok, await reply.text()
        yield context
    finally:
        await context.close()
