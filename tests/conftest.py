"""What every test gets: the real parts, one for the session each, and a guard over its background work.

`redis`, `valkey`, `tls_redis`, `azurite`: servers (`tests/support/servers.py`), for tests that restart them
or put a proxy before them. `redis_url`, `valkey_url`, `server_url` (both in turn): their addresses.
`docker_engine`: the engine's address; `base_image`: the image that methods are built from.
`unique`: a fresh name that every part takes (containers of blobs, key prefixes, labels).
"""

from __future__ import annotations

import asyncio
import gc
import logging
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import hypothesis
import pytest
import pytest_asyncio
import structlog

from tests.support.parts import require
from tests.support.servers import Azurite, RedisServer, TlsRedisServer

# A busy machine is no finding: no example has a time limit.
hypothesis.settings.register_profile("ours", deadline=None)
hypothesis.settings.load_profile("ours")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Names of tests are short, and the same in every process: no bytes, no long texts in them."""
    return argname if isinstance(val, bytes) or (isinstance(val, str) and len(val) > 24) else None


# --- real parts ---


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    with RedisServer(require("redis-server")) as server:
        yield server


@pytest.fixture(scope="session")
def valkey() -> Iterator[RedisServer]:
    with RedisServer(require("valkey")) as server:
        yield server


@pytest.fixture(scope="session")
def tls_redis() -> Iterator[TlsRedisServer]:
    with TlsRedisServer(require("redis-server")) as server:
        yield server


@pytest.fixture(scope="session")
def azurite() -> Iterator[Azurite]:
    with Azurite(require("azurite")) as server:
        yield server


@pytest.fixture(scope="session")
def redis_url(redis: RedisServer) -> str:
    return redis.url


@pytest.fixture(scope="session")
def valkey_url(valkey: RedisServer) -> str:
    return valkey.url


@pytest.fixture(scope="session", params=["redis", "valkey"])
def server_url(request: pytest.FixtureRequest) -> str:
    server: RedisServer = request.getfixturevalue(request.param)
    return server.url


@pytest.fixture(scope="session")
def docker_engine() -> str:
    return require("docker")


@pytest.fixture(scope="session")
def base_image(docker_engine: str) -> str:
    return require("base-image")


@pytest.fixture
def unique() -> str:
    return f"t{uuid.uuid4().hex[:12]}"


# --- the guard ---


class BackgroundErrors(logging.Handler):
    """What asyncio would only log: errors in tasks and callbacks. A test that means them clears it."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))

    def take(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.texts.append(f"{context['message']}: {error!r}" if error else f"{context['message']}: {context}")

    def clear(self) -> None:
        self.texts.clear()


@pytest.fixture
def background_errors() -> Iterator[BackgroundErrors]:
    errors = BackgroundErrors()
    logger = logging.getLogger("asyncio")
    logger.addHandler(errors)
    yield errors
    logger.removeHandler(errors)
    if errors.texts:
        pytest.fail("\n".join(["errors in the background:", *errors.texts]), pytrace=False)


@pytest.fixture
async def _tasks_guard(background_errors: BackgroundErrors) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    before = asyncio.all_tasks()
    loop.set_exception_handler(background_errors.take)
    yield
    started = asyncio.all_tasks() - before - {asyncio.current_task()}
    tasks = {task for task in started if not task.get_name().startswith("session ")}
    leftover = await _end(tasks) if tasks else []
    gc.collect(1)  # a task that nobody awaited tells its exception when it is collected
    await asyncio.sleep(0)
    loop.set_exception_handler(None)
    if leftover:
        pytest.fail("\n".join(["the test left tasks running:", *leftover]), pytrace=False)


async def _end(tasks: set[asyncio.Task[Any]]) -> list[str]:
    """Wait for tasks that are about to end, cancel the others and name them."""
    _, running = await asyncio.wait(tasks, timeout=0.5)
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running, timeout=5)
    return sorted(f"{task.get_name()}: {task.get_coro()}" for task in running)


@pytest.fixture(autouse=True)
def _log_to_this_test() -> Iterator[None]:
    """A test that sets up logging does so for itself: its stream is closed when the next one logs."""
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def _guard(request: pytest.FixtureRequest, background_errors: BackgroundErrors) -> None:
    """Fail a test whose background work failed or goes on; a task named `session ...` may go on."""
    if pytest_asyncio.is_async_test(request.node):
        request.getfixturevalue("_tasks_guard")
