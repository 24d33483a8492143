"""Options that every client command takes: they stand before its name, and say which service is meant."""

from __future__ import annotations

import sys
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from aioanalysis import __version__

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="A job's id.")]
FrameNumber = Annotated[int | None, typer.Option("--frame", help="Of this frame.", min=1)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """What the options say; None where nothing was said."""

    server: str | None = None
    key_file: Path | None = None
    profile: str | None = None

    def key(self) -> str | None:
        """The key in the file, or on standard input. Raises `OSError`."""
        if self.key_file is None:
            return None
        text = sys.stdin.read() if str(self.key_file) == "-" else self.key_file.read_text()
        return text.strip()


CHOSEN: Final[ContextVar[Chosen]] = ContextVar("chosen", default=Chosen())  # noqa: B039


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


def choose(
    server: Annotated[str | None, typer.Option(help="Address of the service.")] = None,
    key_file: Annotated[
        Path | None, typer.Option(help="File that holds the key; - is standard input.")
    ] = None,
    profile: Annotated[str | None, typer.Option(help="A profile that `login` has made.")] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """The analysis service of a DNA-barcode workbench."""
    CHOSEN.set(Chosen(server=server, key_file=key_file, profile=profile))
