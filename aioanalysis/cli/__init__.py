"""The command line: `aioanalysis`, or `python -m aioanalysis`.

Exit codes: 0 done; 1 the job failed, or the service refused; 2 wrong usage or set-up; 3 the service or one of
its parts cannot be reached; 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import sys
from typing import Any, Final, cast

import typer

from aioanalysis.cli.commands import COMMANDS
from aioanalysis.cli.lazy import LazyGroup, Stopped
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
        code = app(standalone_mode=False) or 0
        if code == STOPPED:  # typer's own answer to Ctrl-C
            raise Stopped("stopped")
        sys.exit(code)
    except USAGE_ERRORS as error:
        sys.exit(_say_usage(error))
    except Stopped as stopped:
        print(f"\raioanalysis: {stopped}", file=sys.stderr)
        sys.exit(STOPPED)
    except typer.Abort:
        print("aioanalysis: nothing was done", file=sys.stderr)
        sys.exit(1)
    except Misconfigured as error:
        sys.exit(_say(error, 2))
    except Unavailable as error:
        sys.exit(_say(error, 3))
    except AnalysisError as error:
        sys.exit(_say(error, 3 if getattr(error, "status", 0) in AWAY else 1))


STOPPED: Final = 130
USAGE_ERRORS = cast(tuple[type[Exception], ...], typer.BadParameter.__bases__)
"""click's UsageError, which typer has under no public name."""
AWAY: Final = frozenset({502, 503, 504})
"""What the service, or a proxy before it, answers when a part cannot be reached."""
HINTS: Final = {
    (401, ""): "sign in with `aioanalysis login`",
    (404, "There is no such job"): "`aioanalysis jobs` lists yours",
    (404, "There is no method"): "`aioanalysis methods list` lists them",
}
"""What helps on, by the status of an answer and the beginning of its text."""


def _say_usage(error: Any) -> int:
    """In one line, too; but what is left to say where no command is given is the help."""
    if error.ctx is not None and not error.ctx.args and type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        path = error.ctx.command_path if error.ctx else "aioanalysis"
        text = error.format_message().removeprefix("Invalid value: ").rstrip(".")
        print(f"aioanalysis: {text} - see `{path} --help`", file=sys.stderr)
    return int(error.exit_code)


def _say(error: AnalysisError, code: int) -> int:
    text, status = str(error).rstrip("."), getattr(error, "status", 0)
    hints = [hint for (of, begins), hint in HINTS.items() if status == of and text.startswith(begins)]
    print(f"aioanalysis: {' - '.join([text, *hints])}", file=sys.stderr)
    return code
