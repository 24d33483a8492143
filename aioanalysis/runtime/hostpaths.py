"""Where our folders lie for the engine: a worker that is a container itself has other paths than the host."""

from __future__ import annotations

import io
import json
import re
import secrets
import socket
import tarfile
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, Final

from aiodocker.exceptions import DockerError

from aioanalysis import logs
from aioanalysis.aio import finish, opened
from aioanalysis.errors import AnalysisError, Misconfigured, Unavailable
from aioanalysis.runtime.engine import Engine

LABEL: Final = "aioanalysis"
PROBE: Final = "probe"
MARKS: Final = (Path("/.dockerenv"), Path("/run/.containerenv"))  # what Docker and Podman put into containers
CONTAINER_NAME: Final = re.compile(r"[0-9a-f]{12}")  # what Docker calls the host of a container
EMPTY_TAR: Final = bytes(2 * tarfile.BLOCKSIZE)

log = logs.get()


class HostPaths:
    """Paths as the engine's host has them, of what lies in `data_dir`.

    By `host_data_dir` if that is given; of a worker in a container else by the mounts that the engine tells
    of this container; else they are the same on both sides.
    """

    def __init__(
        self,
        engine: Engine,
        data_dir: Path,
        host_data_dir: Path | None = None,
        *,
        in_container: bool | None = None,
    ) -> None:
        self._engine = engine
        self._data_dir = data_dir.absolute()
        self._host = PurePosixPath(host_data_dir) if host_data_dir else None
        inside = any(mark.exists() for mark in MARKS) if in_container is None else in_container
        self._may_differ = inside or host_data_dir is not None

    async def of(self, path: Path) -> str:
        """`path` on the host; raises `Unavailable`, and `Misconfigured` where the host cannot have it."""
        here = _absolute(path)
        if not self._may_differ or not here.is_relative_to(self._data_dir):
            return str(here)
        if self._host is None:
            self._host = await self._ask()
        return str(self._host / here.relative_to(self._data_dir))

    async def _ask(self) -> PurePosixPath:
        own = socket.gethostname()
        facts = await self._engine.find(f"containers/{own}/json") if CONTAINER_NAME.fullmatch(own) else None
        if facts is None or not str(facts.get("Id")).startswith(own):
            return PurePosixPath(self._data_dir)  # not a container of this engine's
        host = by_mounts(facts.get("Mounts") or [], self._data_dir)
        if host is None:
            raise Misconfigured(
                f"AIOANALYSIS_DATA_DIR: {self._data_dir} is in this container only and cannot be mounted into"
                " those of runs: mount a volume there"
            )
        log.info("data_dir_on_host", data_dir=str(self._data_dir), host=str(host))
        return host

    async def check(self) -> None:
        """Where the paths may differ, see that containers get the very files that are written here.

        Nothing is pulled and nothing run: the engine mounts a folder into an empty container and reads from
        it. Raises `Unavailable`, `Misconfigured`.
        """
        if not self._may_differ:
            return
        word = secrets.token_hex(8)
        async with opened(partial(_written, self._data_dir, word), TemporaryDirectory.cleanup) as folder:
            source = await self.of(Path(folder.name))
            found = await finish(self._seen(source), name="probe of the host's paths")
        if found != word:
            raise Misconfigured(
                f"AIOANALYSIS_HOST_DATA_DIR: for the engine {self._data_dir} is not {self._host} ({found});"
                " set it to the path that the engine's host has for that folder"
            )

    async def _seen(self, source: str) -> str:
        """What the engine finds in the probe in its folder `source`, or its words."""
        made: list[str] = []
        try:
            image = await self._empty_image()
            made.append(f"images/{image}")
            body = {
                "Image": image,
                "Cmd": ["/none"],
                "Labels": {LABEL: PROBE},
                "HostConfig": {
                    "NetworkMode": "none",
                    "Mounts": [{"Type": "bind", "Source": source, "Target": "/probe", "ReadOnly": True}],
                },
            }
            container = await self._engine.call("POST", "containers/create", body=body)
            made.append(f"containers/{container['Id']}")
            where = {"path": f"/probe/{PROBE}"}
            async with self._engine.request("GET", f"{made[-1]}/archive", params=where) as response:
                return _only_file(await response.read())
        except DockerError as error:
            return str(error.message)
        finally:
            for path in reversed(made):
                with suppress(DockerError, AnalysisError):
                    await self._engine.call("DELETE", path, params={"force": "1"})

    async def _empty_image(self) -> str:
        async with self._engine.request(
            "POST",
            "images/create",
            params={"fromSrc": "-", "changes": f"LABEL {LABEL}={PROBE}"},
            body=EMPTY_TAR,
            headers={"Content-Type": "application/x-tar"},
        ) as response:
            *_, last = [{}, *(json.loads(line) for line in (await response.read()).splitlines())]
        image = str(last.get("status") or last.get("error"))
        if not image.startswith("sha256:"):
            raise Unavailable(f"The Docker engine makes no empty image: {image}")
        return image


def by_mounts(mounts: list[Mapping[str, Any]], path: Path) -> PurePosixPath | None:
    """Where the host has a container's `path`, by the container's mounts; None where none covers it."""
    inner = PurePosixPath(path)
    covering = [mount for mount in mounts if inner.is_relative_to(str(mount.get("Destination")))]
    if not covering:
        return None
    nearest = max(covering, key=lambda mount: len(str(mount["Destination"])))
    source = str(nearest.get("Source") or "")
    return PurePosixPath(source) / inner.relative_to(str(nearest["Destination"])) if source else None


def _absolute(path: Path) -> Path:
    return path.absolute()


def _written(data_dir: Path, word: str) -> TemporaryDirectory[str]:
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        folder = TemporaryDirectory(prefix=".probe-", dir=data_dir)
        Path(folder.name, PROBE).write_text(word)
    except OSError as error:
        raise Misconfigured(
            f"AIOANALYSIS_DATA_DIR: {data_dir} cannot be written ({error.strerror})"
        ) from error
    return folder


def _only_file(archive: bytes) -> str:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        member = tar.next()
        file = tar.extractfile(member) if member else None
        return file.read().decode("utf-8", "replace") if file else "no file is there"
