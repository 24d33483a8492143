"""Commands that run the service: everything in one process, API and scheduler, or a worker."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from typing import Annotated, Any

import typer

from aioanalysis.settings import Settings, load, unknown_variables


def dev(
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one.")] = None,
) -> None:
    """Run everything in one process on embedded parts; data under .aioanalysis/ is kept between runs."""
    settings = _settings(port=port)
    from aioanalysis import service
    from aioanalysis.development import Development

    def say(development: Development, address: str) -> None:
        recordsets = ", ".join(development.recordsets) or "none yet"
        print(
            f"\n  aioanalysis is ready at {address}\n"
            f"  your key           {development.user_key}\n"
            f"  administrator key  {development.administrator_key}\n"
            f"  record sets        {recordsets}\n"
            f"  stop with Ctrl-C; in another terminal try: aioanalysis jobs\n",
            flush=True,
        )

    sys.exit(asyncio.run(service.dev(settings, say)))


def serve(
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one.")] = None,
) -> None:
    """Run API and scheduler."""
    settings = _settings(port=port)
    from aioanalysis import service

    sys.exit(asyncio.run(service.serve(settings)))


def worker(
    once: Annotated[bool, typer.Option("--once", help="Handle one package and exit.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Packages at a time.", min=1, max=64)] = None,
) -> None:
    """Run a worker: exit code 0 done or nothing to do, 1 a run failed (--once), 2 set-up wrong."""
    settings = _settings(worker_jobs=jobs)
    from aioanalysis import service

    sys.exit(asyncio.run(service.work(settings, once=once)))


def rebuild(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Make job records again from storage, after Redis was lost with its data; may be repeated."""
    settings = _settings()
    from aioanalysis import service
    from aioanalysis.cli.output import print_json

    found = asdict(asyncio.run(service.rebuild(settings)))
    if as_json:
        print_json(found)
    else:
        for what, ids in found.items():
            print(f"{what:9}{len(ids):7}  {' '.join(ids[:10])}{' …' if len(ids) > 10 else ''}")
        print("jobs that were only waiting have left no trace in storage: they are lost, submit them again")


def _settings(**overrides: Any) -> Settings:
    """The settings with a command's options in their place, and logging set up after them."""
    from aioanalysis import logs

    settings = load(**{name: value for name, value in overrides.items() if value is not None})
    logs.configure(level=settings.log_level, form=settings.log_format)
    for name, near in unknown_variables().items():
        logs.get().warning("setting_unknown", variable=name, meant=near)
    return settings
