"""The Docker engine as this package calls it: connections always given back, errors told apart."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final

import aiohttp
from aiodocker import Docker
from aiodocker.exceptions import DockerContextError, DockerError

from aioanalysis.errors import Unavailable

QUICK: Final = aiohttp.ClientTimeout(total=30, sock_connect=5)
SLOW: Final = aiohttp.ClientTimeout(total=120, sock_connect=5)
ENDLESS: Final = aiohttp.ClientTimeout(total=None, sock_connect=5)
LEAST_API: Final = (1, 41)  # one-shot stats


class Engine:
    """Calls to one Docker engine.

    What the engine refuses is raised as aiodocker's `DockerError` with the HTTP status, for the callers in
    this folder; whatever is passing (no connection, a broken one, 5xx) as `Unavailable`.
    """

    def __init__(self, docker: Docker) -> None:
        self._docker = docker

    @property
    def connections(self) -> int:
        """How many connections are in use at this moment."""
        return len(self._docker.connector._acquired)

    @asynccontextmanager
    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        patience: aiohttp.ClientTimeout = QUICK,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """One request; its connection is free again however the context is left (aiodocker's own is not)."""
        try:
            async with self._docker._query(
                path,
                method,
                params=dict(params or {}),
                data=body,
                headers=headers,
                timeout=patience,
            ) as response:
                try:
                    yield response
                finally:
                    response.close()
        except DockerError as error:
            if error.status >= 500:  # 900 is aiodocker's own for a connection that failed
                self._docker.api_version = "auto"  # another version may come back
                raise Unavailable(
                    f"The Docker engine does not answer as it should: {error.message}"
                ) from error
            raise
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self._docker.api_version = "auto"
            raise Unavailable(
                f"The Docker engine cannot be reached: {error or type(error).__name__}"
            ) from error
        except (ValueError, KeyError) as error:
            raise Unavailable(f"The Docker engine's answer cannot be read: {error}") from error

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        patience: aiohttp.ClientTimeout = QUICK,
    ) -> Any:
        """One request and its JSON answer; None when the answer is empty."""
        data = json.dumps(body).encode() if body is not None else None
        async with self.request(method, path, params=params, body=data, patience=patience) as response:
            answer = await response.read()
            return json.loads(answer) if answer.strip() else None

    async def find(self, path: str, *, patience: aiohttp.ClientTimeout = QUICK) -> dict[str, Any] | None:
        """What `GET path` describes; None when it is not there."""
        try:
            answer = await self.call("GET", path, patience=patience)
        except DockerError as error:
            if error.status == 404:
                return None
            raise Unavailable(f"The Docker engine refuses to tell of {path}: {error.message}") from error
        return answer if isinstance(answer, dict) else None

    async def version(self) -> str:
        """The engine's name and version; raises `Unavailable` if it cannot be reached or is too old."""
        facts = await self.find("version") or {}
        api = str(facts.get("ApiVersion"))
        parts = re.fullmatch(r"(\d+)\.(\d+)", api)
        if parts is None or (int(parts[1]), int(parts[2])) < LEAST_API:
            raise Unavailable(f"The Docker engine speaks API {api}; at least 1.41 is needed.")
        return f"Docker engine {facts.get('Version')}, API {api}"


@asynccontextmanager
async def open_engine(url: str | None = None) -> AsyncIterator[Engine]:
    """The engine at `url`, else where DOCKER_HOST, the docker context or the usual socket leads.

    Raises `Unavailable` when there is no address at all; whether it answers shows at the first call.
    """
    try:
        docker = Docker(url, timeout=QUICK)
    except (AssertionError, ValueError, OSError, DockerContextError) as error:
        reason = str(error) or "no address is given and no socket found"
        raise Unavailable(f"No Docker engine: {reason}") from error
    async with docker:
        yield Engine(docker)


def engine_time(text: object) -> datetime | None:
    """A time as the engine writes it (RFC 3339 in nanoseconds); None for its year 1, which means never."""
    if not isinstance(text, str) or text.startswith("0001-"):
        return None
    seconds, _, fraction = text.removesuffix("Z").partition(".")
    digits = fraction[:6] if fraction.isdigit() else "0"
    try:
        return datetime.fromisoformat(f"{seconds}.{digits:<06}").replace(tzinfo=UTC)
    except ValueError:
        return None
