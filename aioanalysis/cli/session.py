"""Work of a command with the service: the connection, Ctrl-C, and failures as one line each."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

import typer

from aioanalysis.cli.lazy import Stopped
from aioanalysis.cli.options import CHOSEN
from aioanalysis.client import AnalysisClient, Connection, find_connection, open_client
from aioanalysis.errors import AnalysisError, Invalid, Misconfigured

T = TypeVar("T")
PATIENCE_SECONDS: Final = 5.0
LONG_PATIENCE_SECONDS: Final = 600.0
TRACE: Final = "AIOANALYSIS_LOG_LEVEL"


def connection() -> Connection:
    """The service that this call of the command line is about; raises `Misconfigured`."""
    chosen = CHOSEN.get()
    try:
        key = chosen.key()
    except OSError as error:
        raise Misconfigured(f"--key-file {chosen.key_file} cannot be read: {error.strerror}") from None
    return find_connection(server=chosen.server, key=key, profile=chosen.profile)


def with_service(
    work: Callable[[AnalysisClient], Awaitable[T]],
    *,
    patience: float = PATIENCE_SECONDS,
    stopped: Callable[[], str] = lambda: "stopped",
) -> T:
    """Do `work` with a client of the service; `stopped` says what a person should know after Ctrl-C."""
    found = connection()
    if found.key is None:
        raise Misconfigured(
            f"no key for {found.server}: `aioanalysis login {found.server}`, or AIOANALYSIS_KEY"
        )

    async def main() -> T:
        async with open_client(
            found.server, found.key, patience=patience, on_retry=_Outages().tell
        ) as client:
            return await work(client)

    return run(main(), stopped=stopped)


def run(work: Coroutine[Any, Any, T], *, stopped: Callable[[], str] = lambda: "stopped") -> T:
    """`asyncio.run` for a command: no traceback, whatever happens. With debug logging there is one."""
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        raise Stopped(stopped()) from None
    except (AnalysisError, typer.Exit, typer.BadParameter, BrokenPipeError):
        raise
    except OSError as error:
        raise Invalid(": ".join(filter(None, (error.filename, error.strerror or str(error))))) from error
    except Exception as error:
        if os.environ.get(TRACE, "").lower() == "debug":
            raise
        text = f"{type(error).__name__}: {error}"
        raise AnalysisError(f"this should not have happened: {text} ({TRACE}=debug shows where)") from error


class _Outages:
    """Says on a terminal's standard error that the service is waited for: each reason once in a row."""

    def __init__(self) -> None:
        self._last = ""
        self._shown = sys.stderr.isatty()  # asked now: a bar that is drawn stands in for it later

    def tell(self, text: str) -> None:
        if text != self._last and self._shown:
            print(f"aioanalysis: {text}; trying again", file=sys.stderr)
        self._last = text
