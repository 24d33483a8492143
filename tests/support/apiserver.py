"""The API on a real socket over real parts, and what tests ask of it."""

from __future__ import annotations

import asyncio
import hashlib
import io
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from cryptography.fernet import Fernet

from aioanalysis.api.app import create_app, make_runner
from aioanalysis.api.context import ApiContext, Gauge, no_gauges
from aioanalysis.api.endpoints import Endpoint
from aioanalysis.domain.exchange import Container, Ending, RunMark, result_name
from aioanalysis.domain.job import Job
from aioanalysis.domain.states import State
from aioanalysis.identity import InTurn
from aioanalysis.identity.keyfile import KeyFileIdentity, add, new_key
from aioanalysis.interfaces import ExchangeStorage, Identity
from aioanalysis.jobstore.parts import RedisParts, open_job_store
from aioanalysis.operations import Operations
from aioanalysis.settings import Settings
from tests.support.jobs import make_job

SYSTEM_TOKEN = "system-token-of-the-tests"
METHODS = Path(__file__).parent / "methods"


@dataclass(kw_only=True)
class Api:
    """A running API. `keys` has one for ann, ben (users), root (administrator) and system."""

    app: web.Application
    context: ApiContext
    parts: RedisParts
    storage: ExchangeStorage
    session: aiohttp.ClientSession
    host: str
    port: int
    keys: Mapping[str, str]
    ready: dict[str, str | None] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    async def call(
        self,
        method: str,
        path: str,
        *,
        by: str | None = "ann",
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> Reply:
        """One request on a pooled connection, the path sent as it is written."""
        from yarl import URL

        key = {"Authorization": f"Bearer {self.keys[by]}"} if by else {}
        url = URL(self.url + path, encoded=True)
        async with self.session.request(
            method, url, headers={**key, **(headers or {})}, allow_redirects=False, **more
        ) as response:
            return Reply(response.status, response.headers.copy(), await response.read())

    async def get(self, path: str, **more: Any) -> Reply:
        return await self.call("GET", path, **more)

    async def raw(self, request: bytes, *, within: float = 10) -> bytes:
        """Send these bytes on a connection of their own; what comes until it closes."""
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            async with asyncio.timeout(within):
                writer.write(request)
                await writer.drain()
                received = bytearray()
                with suppress(ConnectionResetError):
                    while piece := await reader.read(65536):
                        received += piece
                return bytes(received)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def head(self, method: str, path: str, *lines: str, by: str = "ann", close: bool = True) -> bytes:
        """A request's head as bytes."""
        wanted = [
            f"{method} {path} HTTP/1.1",
            f"Host: {self.host}",
            f"Authorization: Bearer {self.keys[by]}",
            *(["Connection: close"] if close else []),
            *lines,
        ]
        return "\r\n".join([*wanted, "", ""]).encode("latin-1")

    async def add_job(self, **changes: Any) -> Job:
        """A job put into the store as if it had come this far."""
        return await self.parts.store.create(make_job(**changes), "the-submitters-key")

    async def add_result(self, job: Job, body: bytes, ending: Ending = Ending.COMPLETE, **mark: Any) -> str:
        """Put the job's package into results; its SHA-256."""
        digest = hashlib.sha256(body).hexdigest()
        metadata = replace(RunMark(uid=job.uid, attempt=1, nonce="n", sha256=digest), **mark).to_metadata()
        await self.storage.write(
            Container.RESULTS, result_name(stem_of(job), ending), body, metadata=metadata
        )
        return digest

    async def complete_job(self, body: bytes, **changes: Any) -> Job:
        job = await self.add_job(**{"state": State.COMPLETE, **changes})
        await self.add_result(job, body)
        return job


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Any
    body: bytes

    def json(self) -> Any:
        import json

        return json.loads(self.body)


@asynccontextmanager
async def open_api(
    storage: ExchangeStorage,
    *,
    redis_url: str,
    prefix: str,
    folder: Path,
    methods_dir: Path | None = METHODS,
    gauges: Callable[[], Awaitable[Sequence[Gauge]]] = no_gauges,
    identities: Sequence[Identity] = (),
    **settings: Any,
) -> AsyncIterator[Api]:
    """The API over `storage` and a Redis, on a free port, with a session that does nothing of its own.

    `identities` are asked for the keys that the key file does not know.
    """
    keys = {"system": SYSTEM_TOKEN}
    for name, role in (("ann", "user"), ("ben", "user"), ("root", "administrator")):
        keys[name], entry = new_key(name, role)  # type: ignore[arg-type]
        add(folder / "keys.jsonl", entry)
    identity = KeyFileIdentity(folder / "keys.jsonl", SYSTEM_TOKEN)
    await identity.load()
    ready: dict[str, str | None] = {"job store": None, "storage": None}

    async def look() -> Mapping[str, str | None]:
        return ready

    async with (
        open_job_store(redis_url, secret=Fernet.generate_key().decode(), prefix=f"{prefix}:") as parts,
        aiohttp.ClientSession(auto_decompress=False) as session,
    ):
        context = ApiContext(
            operations=Operations(
                parts.store,
                storage,
                parts.bell,
                attached=parts.attached,
                time_limit=21_600,
                job_expiry=604_800,
            ),
            jobs=parts.store,
            storage=storage,
            identity=InTurn(identity, *identities) if identities else identity,
            events=parts.events,
            progress=parts.progress,
            outlooks=parts.outlooks,
            glances=parts.glances,
            sessions=parts.sessions,
            settings=Settings(_env_file=None, **settings),
            ready=look,
            methods_dir=methods_dir,
            gauges=gauges,
        )
        runner = make_runner(create_app(context), shutdown_seconds=1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            yield Api(
                app=runner.app,
                context=context,
                parts=parts,
                storage=storage,
                session=session,
                host=host,
                port=port,
                keys=keys,
                ready=ready,
            )
        finally:
            await runner.cleanup()


def stem_of(job: Job) -> str:
    return f"{job.title}.{job.id}"


def address(endpoint: Endpoint, job_id: str) -> str:
    """A path of the endpoint that names this job and things that there are."""
    return endpoint.path.format(
        id=job_id,
        title="noop",
        path="analysis_report.html",
        container="results",
        name=f"noop.{job_id}.zip",
        number=1,
        action="kill",
    )


def make_zip(members: Mapping[str, bytes], *, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as package:
        for name, data in members.items():
            package.writestr(name, data)
    return out.getvalue()
