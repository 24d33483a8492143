"""Commands on the package storage."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC
from pathlib import Path
from typing import Annotated, Final, TypeVar

import typer
from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn

from aioanalysis.cli import blobs
from aioanalysis.cli.output import print_json, progress
from aioanalysis.domain.exchange import Container
from aioanalysis.errors import Invalid, Missing, Unavailable
from aioanalysis.interfaces import BlobInfo, ExchangeStorage, LeaseState
from aioanalysis.settings import Settings, load

T = TypeVar("T")
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Where = Annotated[Container, typer.Argument(metavar="CONTAINER", help="queue or results.")]

storage = typer.Typer(help="The package storage.", no_args_is_help=True)
PAUSE_SECONDS: Final = 1.0


@storage.command()
def create(
    wait: Annotated[float, typer.Option(help="Seconds to wait for a storage that does not answer yet.")] = 0,
    as_json: Json = False,
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


@storage.command()
def ls(
    container: Annotated[
        Container | None, typer.Argument(metavar="[CONTAINER]", help="queue or results; else both.")
    ] = None,
    prefix: Annotated[str, typer.Option(help="Only names that begin so, e.g. claimed/.")] = "",
    as_json: Json = False,
) -> None:
    """List what is in storage: size in bytes, last change, whether a worker holds it, container, name."""

    async def work(opened: ExchangeStorage) -> None:
        found, total = [], 0
        for one in (container,) if container else Container:
            async for info in opened.list(one, prefix):
                total += info.size
                found.append(blobs.described(one, info))
                if not as_json:
                    print(_line(one, info))
        if as_json:
            print_json(found)
        else:
            print(f"{len(found)} files, {total} bytes", file=sys.stderr)

    _with_storage(work)


@storage.command()
def get(
    container: Where,
    name: Annotated[str, typer.Argument(help="The file, as `storage ls` shows it.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File or folder to write to.")] = None,
    as_json: Json = False,
) -> None:
    """Copy a file out of storage and verify its checksum; it is there only when it is whole."""
    _copy(name, as_json, lambda opened, tell: blobs.get(opened, container, name, output, tell))


@storage.command()
def put(
    container: Where,
    file: Annotated[Path, typer.Argument(help="The file to copy.")],
    name: Annotated[
        str | None, typer.Option(help="Its name in storage; the file's own if not given.")
    ] = None,
    metadata: Annotated[
        list[str] | None, typer.Option(help="KEY=VALUE to keep with it; may be given again.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over one that is there.")] = False,
    as_json: Json = False,
) -> None:
    """Copy a file into storage: what is put into the queue under a package's name, a worker runs."""
    if not file.is_file():
        raise Invalid(f"{file} is not a file")
    given = dict(_pair(text) for text in metadata or ())
    as_name = name or file.name
    _copy(
        as_name,
        as_json,
        lambda opened, tell: blobs.put(opened, container, file, as_name, given, tell, force=force),
    )


@storage.command()
def rm(
    container: Where,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Files, as `storage ls` shows them.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Take files out of storage for good; asks first. A job goes whole by `aioanalysis rm`."""
    if not yes:
        if not sys.stdin.isatty():
            raise Invalid("nobody is there to be asked: --yes removes without")
        what = names[0] if len(names) == 1 else f"{len(names)} files"
        typer.confirm(f"Remove {what} from {container} for good?", abort=True, err=True)
    absent = _with_storage(lambda opened: blobs.remove(opened, container, names))
    removed = [name for name in names if name not in absent]
    if as_json:
        print_json({"removed": removed, "absent": absent})
    else:
        for name in removed:
            print(f"removed {name}")
    if absent:
        raise Missing(f"there is no {', no '.join(absent)} in {container}")


def _line(container: Container, info: BlobInfo) -> str:
    changed = info.modified_at.astimezone(UTC)
    lease = "" if info.lease is LeaseState.FREE else info.lease
    return f"{info.size:>14}  {changed:%Y-%m-%dT%H:%M:%SZ}  {lease:6}  {container:7}  {info.name}"


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise Invalid(f"--metadata {text}: write KEY=VALUE")
    return key, value


def _copy(
    name: str, as_json: bool, work: Callable[[ExchangeStorage, blobs.Tell], Awaitable[blobs.Copied]]
) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with progress(*columns, show=not as_json) as bar:
        task = bar.add_task(name, total=None)
        copied = _with_storage(
            lambda opened: work(opened, lambda done, total: bar.update(task, completed=done, total=total))
        )
    if as_json:
        print_json(copied.to_json())
    else:
        verified = "  verified" if copied.verified else ""
        print(f"{copied.path}  {copied.size} bytes  sha256 {copied.sha256}{verified}")


def _with_storage(work: Callable[[ExchangeStorage], Awaitable[T]]) -> T:
    """Do `work` with the storage that the settings name."""
    from aioanalysis.wiring import open_storage

    async def main() -> T:
        async with open_storage(load()) as opened:
            return await work(opened)

    return asyncio.run(main())
