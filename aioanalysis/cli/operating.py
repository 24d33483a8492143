"""The command that hands out what an operator's own systems read: it fits the version that is installed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from aioanalysis.cli.output import print_table

FOLDER: Final = Path(__file__).parents[1] / "operating"
FILES: Final = {
    "alerts.yaml": "alert rules for Prometheus, over /metrics",
    "grafana.json": "a dashboard for Grafana, over the same",
    "lifecycle.json": "rules for an Azure storage account: files of expired jobs go",
}


def operating(
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help=f"Print this one: {', '.join(FILES)}.")
    ] = None,
) -> None:
    """List the files for an operator's own systems, or print one of them."""
    if file is None:
        print_table(("file", "what it is"), FILES.items())
    elif file in FILES:
        sys.stdout.write((FOLDER / file).read_text())
    else:
        raise typer.BadParameter(f"there is no {file}; there are {', '.join(FILES)}")
