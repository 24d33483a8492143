"""The command line: `aioanalysis`, or `python -m aioanalysis`.

Exit codes: 0 done; 1 the job failed, or the service refused; 2 wrong usage or set-up; 3 the service or one of
its parts cannot be reached.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import typer

from aioanalysis.cli import control, doctor, jobs, methods, records, service, setup, storage
from aioanalysis.errors import AnalysisError, Misconfigured, Unavailable

app = typer.Typer(
    name="aioanalysis",
    help="The analysis service of a DNA-barcode workbench.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
COMMANDS: tuple[Callable[..., None], ...] = (
    service.dev,
    service.serve,
    service.worker,
    service.rebuild,
    jobs.submit,
    jobs.jobs,
    jobs.show,
    jobs.watch,
    jobs.result,
    jobs.rm,
    control.action,
    control.frames,
    setup.config,
    setup.openapi,
    doctor.doctor,
)
for command in COMMANDS:
    app.command()(command)
app.add_typer(methods.methods, name="methods")
app.add_typer(setup.keys, name="keys")
app.add_typer(records.records, name="records")
app.add_typer(storage.storage, name="storage")


def main() -> None:
    """Run the command; every error of ours is one line that says what to do next."""
    try:
        app()
    except Misconfigured as error:
        sys.exit(_say(error, 2))
    except Unavailable as error:
        sys.exit(_say(error, 3))
    except AnalysisError as error:
        sys.exit(_say(error, 1))


def _say(error: AnalysisError, code: int) -> int:
    print(f"aioanalysis: {error}", file=sys.stderr)
    return code
