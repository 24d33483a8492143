"""The checks of `aioanalysis doctor`: each looks at one part and says what it found, and how to mend it."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from aioanalysis import __version__
from aioanalysis.cli.findings import Finding, Status
from aioanalysis.cli.sharedparts import job_store, storage
from aioanalysis.errors import AnalysisError, Misconfigured, Unavailable
from aioanalysis.settings import PREFIX, Settings, unknown_variables

SYSTEM_TOKEN_LENGTH: Final = 20

Check = Callable[[Settings], AsyncIterator[Finding]]


class Process(StrEnum):
    """A process to check for, by its command."""

    SERVE = "serve"
    WORKER = "worker"


async def diagnose(settings: Settings, process: Process | None = None) -> AsyncIterator[Finding]:
    """Every check in turn; one that cannot be made is a finding, and none stops the others.

    With `process` only of the parts that it needs, and what is not set of these is wrong.
    """
    for part, check in CHECKS.items():
        if process and part not in NEEDS[process]:
            continue
        try:
            async for finding in check(settings):
                if process and finding.status is Status.ABSENT:
                    finding = replace(finding, status=Status.WRONG)
                yield finding
        except AnalysisError as error:
            yield Finding(part, Status.WRONG, str(error), _mend(part, error))
        except Exception as error:
            yield Finding(part, Status.WRONG, f"the check failed: {type(error).__name__}: {error}")


def _mend(part: str, error: AnalysisError) -> str | None:
    if "container does not exist" in str(error):
        return "`aioanalysis storage create` makes the containers"
    if isinstance(error, Unavailable) or "no answer from storage" in str(error):
        return _REACH.get(part)
    return None


_REACH: Final = {
    "job store": f"is the server running, and {PREFIX}REDIS_URL its address?",
    "storage": "can this host reach the account, and is the address right?",
    "record store": f"can this host reach {PREFIX}RECORDS_URL?",
    "keys": f"can this host reach {PREFIX}IDENTITY_URL?",
    "runtime": f"is the engine running, may this user use its socket, is {PREFIX}DOCKER_HOST right?",
    "service": f"is `aioanalysis serve` running, and {PREFIX}SERVER its address?",
}


async def variables(settings: Settings) -> AsyncIterator[Finding]:
    for name, near in unknown_variables().items():
        text = f"{name} is no setting and changes nothing"
        yield Finding("settings", Status.WARNING, text, f"is {near} meant?" if near else "take it away")
    if _is_readable_by_all(Path(".env")):
        text = "everybody here may read .env, which holds secrets"
        yield Finding("settings", Status.WARNING, text, "chmod 600 .env")
    text = f"aioanalysis {__version__}, {len(settings.model_fields_set)} settings made"
    yield Finding("settings", Status.OK, text)


def _is_readable_by_all(path: Path) -> bool:
    return path.exists() and bool(path.stat().st_mode & 0o004)


async def record_store(settings: Settings) -> AsyncIterator[Finding]:
    from aioanalysis.recordstore import open_record_store

    async with open_record_store(settings) as store:
        yield Finding("record store", Status.OK, await store.check())


async def keys(settings: Settings) -> AsyncIterator[Finding]:
    token = settings.system_token.get_secret_value() if settings.system_token else ""
    if settings.keys_file is None and settings.identity_url is None and not token:
        names = ("KEYS_FILE", "IDENTITY_URL", "SYSTEM_TOKEN")
        text = "nobody could sign in to `serve`; a worker needs no keys"
        yield Finding("keys", Status.ABSENT, text, f"set one of {', '.join(PREFIX + name for name in names)}")
        return
    from aioanalysis.identity import keyfile, open_identity

    async with open_identity(settings) as identity:
        await identity.identify(f"doctor-{secrets.token_hex(16)}")  # a key that nobody holds
    if settings.identity_url is not None:
        yield Finding("keys", Status.OK, f"{settings.identity_url} answers")
    if settings.keys_file is not None:
        found = len(keyfile.entries(settings.keys_file))
        mend = None if found else "`aioanalysis keys add NAME` makes one"
        status = Status.OK if found else Status.WARNING
        text = f"{settings.keys_file} holds {found or 'no'} key{'' if found == 1 else 's'}"
        yield Finding("keys", status, text, mend)
    if token:
        short = len(token) < SYSTEM_TOKEN_LENGTH
        mend = "take 32 random characters" if short else None
        text = f"the system token is {'short and may be guessed' if short else 'set'}"
        yield Finding("keys", Status.WARNING if short else Status.OK, text, mend)


async def methods(settings: Settings) -> AsyncIterator[Finding]:
    from aioanalysis.methods import list_methods

    found, problems = await list_methods(settings.methods_dir, base_image=settings.base_image)
    for title, problem in problems.items():
        yield Finding("methods", Status.WRONG, problem, f"see {settings.methods_dir / title}")
    if found:
        titles = ", ".join(method.method.title for method in found)
        yield Finding("methods", Status.OK, f"{settings.methods_dir}: {titles}")
    elif not problems:
        mend = f"set {PREFIX}METHODS_DIR"
        yield Finding("methods", Status.WARNING, f"{settings.methods_dir} holds no method", mend)


async def runtime(settings: Settings) -> AsyncIterator[Finding]:
    from aioanalysis.wiring import open_runtime

    async with open_runtime(settings) as opened:
        text = await opened.check()
        if opened.name == "process":
            mend = f"start a Docker engine, or set {PREFIX}RUNTIME=process if that is meant"
            meant = settings.runtime == "process"
            yield Finding("runtime", Status.WARNING, text, None if meant else mend)
            return
        yield Finding("runtime", Status.OK, text)
    async for finding in _base_images(settings):
        yield finding


async def _base_images(settings: Settings) -> AsyncIterator[Finding]:
    from aioanalysis.runtime.baseimages import base_images, source
    from aioanalysis.runtime.engine import open_engine

    async with open_engine(settings.docker_host) as engine:
        for image in sorted(base_images(settings.methods_dir, settings.base_image)):
            try:
                yield Finding("base image", Status.OK, f"{image} {await source(engine, image)}")
            except Unavailable as error:
                mend = f"pull or load it there, or set {PREFIX}BASE_IMAGE to one that is there"
                yield Finding("base image", Status.WRONG, str(error), mend)


async def disk(settings: Settings) -> AsyncIterator[Finding]:
    for folder in filter(None, (settings.data_dir, settings.storage_directory)):
        place = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
        if not os.access(place, os.W_OK | os.X_OK):
            mend = "give it to this user, or choose another"
            yield Finding("disk", Status.WRONG, f"{folder} cannot be written by this user", mend)
            continue
        free, reserve = shutil.disk_usage(place).free, settings.disk_reserve_bytes
        text = f"{folder}: {free / 2**30:.1f} GiB free"
        if free < reserve:
            text += f", below {PREFIX}DISK_RESERVE_BYTES: a worker claims nothing"
        low = free < reserve
        yield Finding("disk", Status.WRONG if low else Status.OK, text, "make room" if low else None)


async def service(settings: Settings) -> AsyncIterator[Finding]:
    if settings.server is None:
        return
    if settings.key is None:
        raise Misconfigured(f"{PREFIX}SERVER is set and {PREFIX}KEY is not: client commands need both")
    from aioanalysis.client import open_client

    began = time.monotonic()
    async with open_client(settings.server, settings.key.get_secret_value()) as client:
        await client.jobs(limit=1)
    took = 1000 * (time.monotonic() - began)
    yield Finding("service", Status.OK, f"{settings.server} knows the key, answered in {took:.0f} ms")


CHECKS: Final[dict[str, Check]] = {
    "settings": variables,
    "job store": job_store,
    "storage": storage,
    "record store": record_store,
    "keys": keys,
    "methods": methods,
    "runtime": runtime,
    "disk": disk,
    "service": service,
}
NEEDS: Final = {
    Process.SERVE: {"settings", "job store", "storage", "record store", "keys", "methods", "disk"},
    Process.WORKER: {"settings", "storage", "methods", "runtime", "disk"},
}
