"""Log lines: JSON or console, ids of the task that wrote them, and no keys."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog
from structlog.contextvars import bound_contextvars

from aioanalysis import logs
from aioanalysis.aio import in_thread

Lines = Callable[[], list[dict[str, Any]]]


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root, quiet = logging.getLogger(), [logging.getLogger(n) for n in ("azure", "aiohttp.access", "asyncio")]
    handlers, level, levels = root.handlers[:], root.level, [logger.level for logger in quiet]
    # Configuring closes the handlers it takes away: pytest's own are kept out of its reach.
    root.handlers[:] = []
    yield io.StringIO()
    root.handlers[:] = handlers
    root.setLevel(level)
    for logger, before in zip(quiet, levels, strict=True):
        logger.setLevel(before)
    structlog.reset_defaults()


@pytest.fixture
def lines(stream: io.StringIO) -> Lines:
    logs.configure(form="json", stream=stream)
    return lambda: [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_json_line_with_its_fields(lines: Lines):
    logs.get(part="scheduler").info("job_queued", job_id="0123abcd", records=5)
    (line,) = lines()
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "job_queued",
        "level": "info",
        "part": "scheduler",
        "job_id": "0123abcd",
        "records": 5,
    }


def test_an_event_stays_one_line_whatever_is_in_it(lines: Lines):
    logs.get().warning("odd", text="a\nb\u2028\ud800", thing=object(), path={1, 2}.__class__)
    (line,) = lines()
    assert line["text"] == "a\nb\u2028\ud800"


async def test_tasks_side_by_side_log_each_their_own_ids_and_threads_their_tasks(lines: Lines):
    log = logs.get()
    both = asyncio.Barrier(2)

    async def step(name: str) -> None:
        await both.wait()
        log.info(name)

    def blocking() -> None:
        log.info("in_thread")
        logging.getLogger("some.library").warning("from a library")

    async def run(job_id: str) -> None:
        with bound_contextvars(job_id=job_id):
            for name in ("one", "two"):
                await step(name)
            await in_thread(blocking)
            await asyncio.create_task(step("child"))
        log.info("after")

    await asyncio.gather(*(run(job_id) for job_id in ("aaaaaaaa", "bbbbbbbb")))
    found = lines()
    for job_id in ("aaaaaaaa", "bbbbbbbb"):
        assert [line["event"] for line in found if line.get("job_id") == job_id] == [
            "one",
            "two",
            "in_thread",
            "from a library",
            "child",
        ]
    assert [line["event"] for line in found if "job_id" not in line] == ["after", "after"]


def test_other_loggers_write_the_same_lines(lines: Lines):
    with bound_contextvars(run="r1"):
        logging.getLogger("some.library").warning("took %d s", 5)
    (line,) = lines()
    assert (line["event"], line["level"], line["run"]) == ("took 5 s", "warning", "r1")
    assert "timestamp" in line


def test_noisy_loggers_are_heard_from_warnings_on(lines: Lines):
    for name in ("azure.core.pipeline", "aiohttp.access", "asyncio"):
        logging.getLogger(name).info("chatter")
        logging.getLogger(name).warning(name)
    assert [line["event"] for line in lines()] == ["azure.core.pipeline", "aiohttp.access", "asyncio"]


@pytest.mark.parametrize("logger", ["ours", "theirs"])
def test_an_exception_is_told_with_its_traceback(lines: Lines, logger: str):
    log = logs.get() if logger == "ours" else logging.getLogger("some.library")
    try:
        raise ValueError("no room")
    except ValueError:
        log.exception("failed")
    (line,) = lines()
    assert line["level"] == "error"
    assert "ValueError: no room" in line["exception"]
    assert "Traceback" in line["exception"]


@pytest.mark.parametrize("form", ["json", "console"])
@pytest.mark.parametrize("logger", ["ours", "theirs"])
def test_a_traceback_does_not_show_what_variables_hold(stream: io.StringIO, form: str, logger: str):
    logs.configure(form=form, stream=stream)
    log = logs.get() if logger == "ours" else logging.getLogger("some.library")

    def sign_in(key: str) -> None:
        raise ValueError("refused")

    try:
        sign_in("".join(["se", "cret"]))
    except ValueError:
        log.exception("failed")
    assert "ValueError: refused" in stream.getvalue()
    assert "secret" not in stream.getvalue()


def test_what_is_below_the_level_is_not_written(stream: io.StringIO):
    logs.configure(level="warning", form="json", stream=stream)
    logs.get().info("quiet")
    logging.getLogger("some.library").info("quiet")
    logs.get().warning("loud")
    assert len(stream.getvalue().splitlines()) == 1


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("form", "terminal", "is_json"),
    [
        ("auto", False, True),
        ("auto", True, False),
        ("json", True, True),
        ("console", False, False),
    ],
)
def test_the_form_follows_the_terminal_unless_it_is_set(
    stream: io.StringIO, form: str, terminal: bool, is_json: bool
):
    out = Terminal() if terminal else stream
    logs.configure(form=form, stream=out)
    logs.get().info("hello", job_id="x")
    assert out.getvalue().startswith("{") is is_json
    assert ("\x1b[" in out.getvalue()) is (terminal and not is_json)


def test_configuring_again_counts_for_loggers_made_before(stream: io.StringIO):
    log = logs.get()
    logs.configure(form="json", stream=io.StringIO())
    log.info("before")
    logs.configure(form="json", stream=stream)
    log.info("after")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["after"]


def test_what_is_told_of_a_request_is_a_line_like_any_other_whatever_the_form(stream: io.StringIO):
    odd = {"path": "/a\u2028\ud800", "status": 404, "thing": {1}.__class__}
    kept = []
    logs.configure(form="json", stream=stream)
    for write in (logs.get().info, logs.tell):
        write("request", request_id="r1", **odd)
        line = json.loads(stream.getvalue().splitlines()[-1])
        assert line.pop("timestamp").endswith("Z")
        kept.append(line)
    assert kept[0] == kept[1]
    logs.configure(form="json", stream=stream, level="warning")
    logs.tell("request", request_id="r2")
    logs.configure(form="console", stream=stream)
    logs.tell("request", request_id="r3")
    assert "r2" not in stream.getvalue()
    assert "r3" in stream.getvalue().splitlines()[-1]
