"""Commands for methods: what a service offers, and the making, checking and trying of one on this machine."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from aioanalysis.cli import catalogue
from aioanalysis.cli.files import opened
from aioanalysis.cli.options import Json
from aioanalysis.cli.output import console, print_json, print_table
from aioanalysis.cli.parameters import parameters
from aioanalysis.cli.scaffold import SAMPLE, SAMPLE_PARAMS, advice, scaffold
from aioanalysis.cli.session import run
from aioanalysis.domain.members import REPORT_MEMBER
from aioanalysis.errors import Invalid, MethodFailure
from aioanalysis.interfaces import MethodDirectory
from aioanalysis.methods import check_params, list_methods, load_method, with_defaults
from aioanalysis.settings import Settings, load
from aioanalysis.worker import jobtree
from aioanalysis.worker.trial import Trial, try_method

ERROR_LINES: Final = 20
OUTSIDE: Final = re.compile(
    rb"<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)\s*=\s*[\"']?(?:https?:)?//", re.I
)

methods = typer.Typer(help="Methods: list, show, new, check, test.", no_args_is_help=True)


methods.command("list")(catalogue.list_)
methods.command("show")(catalogue.show)


@methods.command()
def new(
    title: Annotated[str, typer.Argument(help="Name of its directory: letters, digits, _ and -.")],
    label: Annotated[
        str | None, typer.Option(help="What users see; made from the title if not given.")
    ] = None,
) -> None:
    """Make a method's directory in METHODS_DIR: a small one that works, to be changed."""
    path = scaffold(load().methods_dir, title, label)
    print(f"{path}\nnow try: aioanalysis methods test {title}")


@methods.command()
def check(
    titles: Annotated[list[str] | None, typer.Argument(help="Methods; all in METHODS_DIR if none.")] = None,
    as_json: Json = False,
) -> None:
    """Check directories, without building or running anything; exits 1 if one is wrong."""
    settings = load()
    problems = asyncio.run(_check(settings, titles or []))
    if as_json:
        print_json(problems)
    for title, found in problems.items() if not as_json else ():
        print(f"{title}: {'ok' if not found else 'wrong'}")
        for problem in found:
            print(f"  {problem}")
    if any(problems.values()):
        raise typer.Exit(1)


async def _check(settings: Settings, titles: list[str]) -> dict[str, list[str]]:
    problems: dict[str, list[str]] = {}
    if not titles:
        found, unusable = await list_methods(settings.methods_dir, base_image=settings.base_image)
        titles = sorted([*(directory.method.title for directory in found), *unusable])
    for title in titles:
        try:
            directory = await load_method(settings.methods_dir, title, base_image=settings.base_image)
        except MethodFailure as failure:
            problems[title] = [failure.text]
        else:
            problems[title] = list(advice(directory))
    return problems


@methods.command("test")
def try_(
    title: Annotated[str, typer.Argument(help="A method in METHODS_DIR.")],
    records: Annotated[
        Path | None, typer.Argument(help="JSONL file, gzip accepted; the method's sample/ if not given.")
    ] = None,
    param: Annotated[
        list[str] | None, typer.Option("--param", "-p", help="NAME=VALUE, once a parameter.")
    ] = None,
    params: Annotated[str | None, typer.Option(help="All parameters as a JSON object, or @FILE.")] = None,
    runtime: Annotated[
        Literal["auto", "docker", "process"] | None, typer.Option(help="What runs it; RUNTIME if not given.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder for the job's files, emptied first.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a method on a local file, with no service at all; exits 1 if the run fails."""
    from aioanalysis import logs

    settings = load(**({"runtime": runtime} if runtime else {}))
    logs.configure(level="error", form="console")
    try:
        trial = run(_test(settings, title, records, (param or [], params), output, as_json))
    except MethodFailure as failure:
        if failure.output:
            print(failure.output.rstrip(), file=sys.stderr)
        raise
    flaws = _flaws(trial)
    if as_json:
        print_json(_summary(trial, flaws))
    else:
        _print(trial, flaws)
    if trial.error or flaws:
        raise typer.Exit(1)


async def _test(
    settings: Settings,
    title: str,
    records: Path | None,
    given: tuple[list[str], str | None],
    output: Path | None,
    quiet: bool,
) -> Trial:
    from aioanalysis.wiring import open_runtime

    directory = await load_method(settings.methods_dir, title, base_image=settings.base_image)
    params = parameters(*given, directory.method.parameters)
    params = _checked(directory, params or (_sample_params(directory) if records is None else {}))
    data = _records(directory, records)
    job_dir = _job_dir(settings, title, output)

    def tell(text: str) -> None:
        if not quiet:
            console.print(text, markup=False, highlight=False)

    async with open_runtime(settings) as opened_runtime:
        tell(f"{title} {directory.method.version} on {await opened_runtime.check()}")
        limits = directory.method.limits.capped(settings.host_limits)
        return await try_method(opened_runtime, directory, data, params, job_dir, limits, tell)


def _job_dir(settings: Settings, title: str, output: Path | None) -> Path:
    """A folder of ours, or a given one that nobody would miss."""
    if output is None:
        return settings.data_dir.absolute() / "tests" / title
    if output.exists() and (not output.is_dir() or (any(output.iterdir()) and not _is_job(output))):
        raise Invalid(f"{output} holds something else than an earlier test; name an empty folder")
    return output.absolute()


def _is_job(folder: Path) -> bool:
    return (folder / "params.json").is_file() and (folder / ".alive").is_file()


def _sample_params(directory: MethodDirectory) -> dict[str, Any]:
    """What goes with the sample's records, and with no others."""
    sample = directory.path / SAMPLE_PARAMS
    if not sample.is_file():
        return {}
    try:
        return dict(json.loads(sample.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise Invalid(f"{sample}: {error}") from None


def _checked(directory: MethodDirectory, params: dict[str, Any]) -> dict[str, Any]:
    wrong = [f"{at or 'params'}: {why}" for at, why in check_params(directory.method, params)]
    if wrong:
        raise Invalid("; ".join(wrong))
    return with_defaults(directory.method, params)


def _records(directory: MethodDirectory, path: Path | None) -> bytes:
    path = path or directory.path / SAMPLE
    try:
        with path.open("rb") as file:
            return opened(file, 0)[1].read()
    except (OSError, EOFError) as error:
        text = getattr(error, "strerror", None) or str(error)
        raise Invalid(f"{path} cannot be read: {text}; name a JSONL file") from None


def _flaws(trial: Trial) -> list[str]:
    """What a complete run still owes its users."""
    if trial.error:
        return []
    try:
        with (
            jobtree.opened(trial.job_dir, (REPORT_MEMBER,)) as handle,
            open(handle, "rb", closefd=False) as file,
        ):
            page = file.read()
    except OSError:
        return [f"{REPORT_MEMBER} is missing, or no regular file: every method leaves one"]
    return (
        [f"{REPORT_MEMBER} fetches something from elsewhere: all must be inside"]
        if OUTSIDE.search(page)
        else []
    )


def _summary(trial: Trial, flaws: list[str]) -> dict[str, Any]:
    return {
        "complete": trial.error is None,
        "error": trial.error.to_json() if trial.error else None,
        "flaws": flaws,
        "stages": list(trial.report.stages),
        "usage": {name: value for name, value in trial.usage.items() if name != "series"},
        "folder": str(trial.job_dir),
    }


def _print(trial: Trial, flaws: list[str]) -> None:
    usage = trial.usage
    print_table(
        ("stage", "exit code", "CPU seconds", "peak MiB"),
        [
            (
                str(s.get("script")),
                str(s.get("exit_code")),
                f"{s.get('cpu_seconds') or 0:.2f}",
                _mib(s.get("max_rss_bytes")),
            )
            for s in trial.report.stages
        ],
    )
    used = f"{usage['cpu_seconds'] or 0:.1f} s CPU, {_mib(usage['memory_bytes']['max'])} MiB"
    print(f"{usage['wall_seconds']:.1f} s, {used}")
    if trial.error:
        print(f"failed, {trial.error.reason}: {trial.error.message}")
        for line in (trial.error.error or "").splitlines()[-ERROR_LINES:]:
            print(f"  {line}")
    for flaw in flaws:
        print(f"wrong: {flaw}")
    files = trial.job_dir
    print(f"files   {files}" if trial.error or flaws else f"report  {files / REPORT_MEMBER}")


def _mib(count: Any) -> str:
    return f"{count / 2**20:.0f}" if isinstance(count, int) else "?"
