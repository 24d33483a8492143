"""Logging: events with fields, JSON lines or a console, one configuration for the process."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any, TextIO

import structlog

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
        else [structlog.processors.format_exc_info, JsonLines(out, told=LEVELS[level] <= LEVELS["info"])]
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


def tell(event: str, **fields: Any) -> None:
    """As `get().info`, at a third of its cost and without the ids that are bound: once for every request."""
    final = structlog.get_config()["processors"][-1]
    if isinstance(final, JsonLines):
        final.tell(event, fields)
    else:
        structlog.get_logger().info(event, **fields)


class JsonLines:
    """structlog's last processor: one line of ASCII for each event."""

    def __init__(self, out: TextIO, *, told: bool) -> None:
        """`told` says whether lines of level info are written to `out`."""
        from pydantic_core import PydanticSerializationError, to_json  # not for who only imports this module

        self._out = out
        self._told = told
        self._to_json = to_json
        self._problem = PydanticSerializationError
        self._escaped = structlog.processors.JSONRenderer()

    def __call__(self, logger: Any, name: str, event: MutableMapping[str, Any]) -> str:
        """Text that could break the line, or that is no Unicode, is escaped the slow way."""
        try:
            line = self._to_json(event, fallback=repr)
        except self._problem:
            return str(self._escaped(logger, name, event))
        return line.decode() if line.isascii() else str(self._escaped(logger, name, event))

    def tell(self, event: str, fields: Mapping[str, Any]) -> None:
        """Write an event of level info at once."""
        if self._told:
            now = datetime.now(UTC).isoformat().removesuffix("+00:00")
            line = self(None, "info", {**fields, "event": event, "level": "info", "timestamp": f"{now}Z"})
            self._out.write(f"{line}\n")
            self._out.flush()
