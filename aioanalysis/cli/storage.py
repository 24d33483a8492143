"""Commands on the package storage."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Final

import typer

from aioanalysis.cli.output import print_json
from aioanalysis.errors import Unavailable
from aioanalysis.settings import Settings, load

storage = typer.Typer(help="The package storage.", no_args_is_help=True)
PAUSE_SECONDS: Final = 1.0


@storage.callback()
def _group() -> None:
    """Keeps `create` a command of a group, though it is the only one."""


@storage.command()
def create(
    wait: Annotated[float, typer.Option(help="Seconds to wait for a storage that does not answer yet.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make the queue and results containers where they are not there yet."""
    made, where = asyncio.run(_create(load(), time.monotonic() + wait))
    if as_json:
        print_json({"made": made, "storage": where})
    else:
        print(f"{where}: {'made ' + ' and '.join(made) if made else 'both are there'}")


async def _create(settings: Settings, until: float) -> tuple[list[str], str]:
    while True:
        try:
            return await _create_once(settings)
        except Unavailable:
            if time.monotonic() + PAUSE_SECONDS > until:
                raise
        await asyncio.sleep(PAUSE_SECONDS)


async def _create_once(settings: Settings) -> tuple[list[str], str]:
    from aioanalysis.wiring import open_storage

    async with open_storage(settings) as opened:
        made = []
        if settings.storage_directory is None:
            from aioanalysis.storage.setup import create_containers

            made = await create_containers(settings)
        return made, await opened.check()
