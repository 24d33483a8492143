"""The command line: `aioanalysis`, or `python -m aioanalysis`.

Exit codes: 0 done; 1 the job failed, or the service refused; 2 wrong usage or set-up; 3 the service or one of
its parts cannot be reached; 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import sys
from typing import Final

import typer

from aioanalysis.cli.commands import COMMANDS
from aioanalysis.cli.lazy import LazyGroup
from aioanalysis.cli.options import choose
from aioanalysis.errors import AnalysisError, Misconfigured, Unavailable


class Commands(LazyGroup):
    def __init__(self, **attributes: object) -> None:
        super().__init__(**attributes)  # type: ignore[arg-type]
        self.add_all(COMMANDS)


app = typer.Typer(
    name="aioanalysis",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 done; 1 the job failed, or the service refused; 2 wrong usage or set-up;"
    " 3 the service or one of its parts cannot be reached; 130 stopped by Ctrl-C.",
)
app.callback()(choose)


def main() -> None:
    """Run the command; every error of ours is one line that says what to do next."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        app()
    except Misconfigured as error:
        sys.exit(_say(error, 2))
    except Unavailable as error:
        sys.exit(_say(error, 3))
    except AnalysisError as error:
        sys.exit(_say(error, 1))


HINTS: Final = {
    401: "sign in with `aioanalysis login`",
    404: "`aioanalysis jobs` lists yours",
}


def _say(error: AnalysisError, code: int) -> int:
    hint = HINTS.get(getattr(error, "status", 0))
    print(f"aioanalysis: {error}{f' - {hint}' if hint else ''}", file=sys.stderr)
    return code
