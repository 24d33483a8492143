"""The images that builds of methods begin with: which they are, and where the engine has them from."""

from __future__ import annotations

import asyncio
import re
from enum import StrEnum
from pathlib import Path
from typing import Final

from aiodocker.exceptions import DockerError

from aioanalysis.errors import Unavailable
from aioanalysis.runtime.engine import Engine

REGISTRY_SECONDS: Final = 15.0
_DEFAULT: Final = re.compile(r"^ARG\s+BASE_IMAGE=(\S+)", re.MULTILINE)


class Source(StrEnum):
    """Where a build will have an image from."""

    HERE = "is here"
    REGISTRY = "is not here, and the first build fetches it"


def base_images(methods_dir: Path, setting: str | None) -> set[str]:
    """The setting BASE_IMAGE; without it what the methods' Dockerfiles name as its default."""
    if setting is not None:
        return {setting}
    files = [path for path in methods_dir.glob("*/Dockerfile") if path.is_file()]
    return {name for path in files for name in _DEFAULT.findall(path.read_text(errors="replace"))}


async def source(engine: Engine, image: str) -> Source:
    """Where the engine has this image from; raises `Unavailable` when it is to be had nowhere.

    A registry is only asked whether it has it, without credentials, as builds do.
    """
    if await engine.find(f"images/{image}/json") is not None:
        return Source.HERE
    try:
        async with asyncio.timeout(REGISTRY_SECONDS):
            await engine.call("GET", f"distribution/{image}/json")
    except (DockerError, Unavailable, TimeoutError) as error:
        refusal = error if isinstance(error, DockerError) else error.__cause__
        reason = refusal.message if isinstance(refusal, DockerError) else str(error) or "no answer in time"
        raise Unavailable(f"{image} is not here, and no registry gives it: {reason}") from error
    return Source.REGISTRY
