"""The package storages that tests run against, each with two fresh containers, and bodies for them."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas
from azure.storage.blob.aio import BlobServiceClient

from aioanalysis.domain.exchange import Container
from aioanalysis.interfaces import BlobInfo, Condition, ExchangeStorage, LeaseState
from aioanalysis.storage import azure
from aioanalysis.storage.directory import DirectoryStorage
from tests.support.servers import Azurite
from tests.support.waiting import eventually

MIB = 1024 * 1024
ABSENT = Condition(absent=True)
QUEUE, RESULTS = Container.QUEUE, Container.RESULTS


class Backend(ABC):
    """One backend with containers of its own; every `connect` is a client, as another process would be."""

    @abstractmethod
    def connect(self) -> AbstractAsyncContextManager[ExchangeStorage]: ...

    @abstractmethod
    async def lapse(self, storage: ExchangeStorage, name: str) -> None:
        """Let the 15 s lease on `name` in results run out."""


class DirectoryBackend(Backend):
    """Leases lapse when `now` is moved."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now = 1000.0

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[DirectoryStorage]:
        storage = DirectoryStorage(self.root, clock=lambda: self.now)
        await storage.prepare()
        yield storage

    async def lapse(self, storage: ExchangeStorage, name: str) -> None:
        self.now += 15


class AzureBackend(Backend):
    """Containers in Azurite; reached by key, or by an account URL with a SAS, through `port` if given."""

    def __init__(self, server: Azurite, unique: str, *, sas: bool = False, port: int | None = None) -> None:
        self.server = server
        self.containers = {"queue": f"{unique}-q", "results": f"{unique}-r"}
        self.sas = account_sas(server) if sas else None
        self.port = port or server.port

    @property
    def address(self) -> dict[str, Any]:
        if self.sas:
            return {"account_url": f"http://127.0.0.1:{self.port}/{self.server.account}?{self.sas}"}
        return {"connection_string": self.server.through(self.port)}

    def connect(self, **options: Any) -> AbstractAsyncContextManager[azure.AzureStorage]:
        return azure.connect(**{**self.address, **self.containers, **options})

    async def create(self) -> None:
        async with BlobServiceClient.from_connection_string(self.server.connection_string) as service:
            for name in self.containers.values():
                await service.create_container(name)

    async def lapse(self, storage: ExchangeStorage, name: str) -> None:
        async def has_lapsed() -> bool:
            info = await storage.stat(RESULTS, name)
            return info is not None and info.lease is LeaseState.LAPSED

        await eventually(has_lapsed, within=20, every=0.3, what=f"the lease on {name} lapses")


def account_sas(server: Azurite, *, hours: float = 1) -> str:
    now = datetime.now(UTC)
    return generate_account_sas(
        server.account,
        account_key=server.key,
        resource_types=ResourceTypes(service=True, container=True, object=True),
        permission=AccountSasPermissions(
            read=True, write=True, delete=True, list=True, add=True, create=True
        ),
        start=now - timedelta(days=1),
        expiry=now + timedelta(hours=hours),
    )


def lease_id() -> str:
    return str(uuid.uuid4())


def block(number: int, size: int = MIB) -> bytes:
    """`size` bytes that no other number has."""
    seed = hashlib.sha256(str(number).encode()).digest()
    return (seed * (size // len(seed) + 1))[:size]


async def body(blocks: int, *, first: int = 0, size: int = MIB) -> AsyncIterator[bytes]:
    for number in range(first, first + blocks):
        yield block(number, size)
        await asyncio.sleep(0)


async def read(storage: ExchangeStorage, container: Container, name: str, **options: Any) -> bytes:
    async with storage.open(container, name, **options) as stream:
        return b"".join([piece async for piece in stream.chunks()])


async def names(storage: ExchangeStorage, container: Container, prefix: str = "") -> list[str]:
    return [name async for name in storage.names(container, prefix)]


async def stat(storage: ExchangeStorage, container: Container, name: str) -> BlobInfo:
    info = await storage.stat(container, name)
    assert info is not None, f"{name} is not there"
    return info
