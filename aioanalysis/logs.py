"""Logging: events with fields, JSON lines or a console, one configuration for the process."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog
from structlog.typing import Processor

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def configure(*, level: str = "info", form: str = "auto", stream: TextIO | None = None) -> None:
    """Set up structlog and the standard library's loggers to write to `stream` (standard error).

    `form` is json, console, or auto: console on a terminal.
    """
    out = stream or sys.stderr
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    # Plain tracebacks: the fancy ones show local variables, and with them keys.
    console = form == "console" or (form == "auto" and out.isatty())
    final: list[Any] = (
        [
            structlog.dev.ConsoleRenderer(
                colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ]
        if console
        else [structlog.processors.format_exc_info, _json_renderer()]
    )
    structlog.configure(
        processors=[*shared, *final],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.WriteLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *final],
        )
    )
    logging.basicConfig(level=LEVELS[level], handlers=[handler], force=True)
    for noisy in ("azure", "aiohttp.access", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def get(**bound: Any) -> Any:
    """A logger; ids bound once here or by `structlog.contextvars.bound_contextvars` at a task's entry."""
    return structlog.get_logger(**bound)


def _json_renderer() -> Processor:
    """One line of ASCII; text that could break it, or that is no Unicode, is escaped the slow way."""
    from pydantic_core import PydanticSerializationError, to_json  # not for who only imports this module

    escaped = structlog.processors.JSONRenderer()

    def render(logger: Any, name: str, event: MutableMapping[str, Any]) -> str | bytes:
        try:
            line = to_json(event, fallback=repr)
        except PydanticSerializationError:
            return escaped(logger, name, event)
        return line.decode() if line.isascii() else escaped(logger, name, event)

    return render
