"""One Azure storage account: how it is reached and signed for, and what may be said of it."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies

from azure.storage.blob import (
    BlobSasPermissions,
    ContainerSasPermissions,
    generate_blob_sas,
    generate_container_sas,
)
from azure.storage.blob.aio import BlobClient, BlobServiceClient, ContainerClient

from aioanalysis.errors import Misconfigured
from aioanalysis.settings import PREFIX

SCOPE: Final = "https://storage.azure.com/.default"
SIGNED_FOR: Final = timedelta(hours=1)
CLIENT: Final[dict[str, Any]] = {  # a call that nobody answers ends in seconds, not in the default minutes
    "retry_total": 1,
    "initial_backoff": 0.3,
    "increment_base": 0,
    "random_jitter_range": 0,
    "connection_timeout": 3,
    "read_timeout": 10,
}
CLIENTS_KEPT: Final = 32  # each knows one blob and takes 33 KiB; a job asks for about ten, several times


def proxied() -> bool:
    """Whether the environment names a proxy: to look for one at every request costs two threads' turns."""
    return bool(getproxies())


class Account:
    """A service client and the means to sign URLs. `label` names the account, without any secret."""

    def __init__(self, service: BlobServiceClient, *, key: str | None, credential: Any) -> None:
        self._service = service
        self._blob = lru_cache(maxsize=CLIENTS_KEPT)(service.get_blob_client)
        self._key = key
        self._credential = credential
        address = urlsplit(service.url)
        self._name = service.account_name or address.path.strip("/") or address.netloc.split(".")[0]
        self.label = f"account {self._name} at {address.netloc}"

    def container(self, name: str) -> ContainerClient:
        return self._service.get_container_client(name)

    def blob(self, container: str, name: str) -> BlobClient:
        return self._blob(container, name)

    def readable_url(self, blob: BlobClient) -> str:
        """The blob's URL, signed for reading where signatures are how this account is reached."""
        if self._key is None:
            return str(blob.url)
        signature = generate_blob_sas(
            self._name,
            blob.container_name,
            blob.blob_name,
            account_key=self._key,
            permission=BlobSasPermissions(read=True),
            expiry=datetime.now(UTC) + SIGNED_FOR,
        )
        return f"{blob.url}?{signature}"

    def listable_url(self, container: ContainerClient) -> str:
        """The container's URL, likewise signed for listing."""
        if self._key is None:
            return str(container.url)
        signature = generate_container_sas(
            self._name,
            container.container_name,
            account_key=self._key,
            permission=ContainerSasPermissions(list=True),
            expiry=datetime.now(UTC) + SIGNED_FOR,
        )
        return f"{container.url}?{signature}"

    async def read_headers(self) -> dict[str, str]:
        """What a request on `readable_url` or `listable_url` must carry."""
        headers = {"x-ms-version": str(self._service.api_version), "Accept-Encoding": "identity"}
        if self._credential is not None:
            token = await self._credential.get_token(SCOPE)
            headers["Authorization"] = f"Bearer {token.token}"
        return headers


@asynccontextmanager
async def open_account(
    *, connection_string: str | None = None, account_url: str | None = None
) -> AsyncIterator[Account]:
    """Connect by one of the two; an account URL without a SAS takes azure-identity's default credential.

    Nothing is sent yet. Raises `Misconfigured` for what cannot be read.
    """
    options = {**CLIENT, "use_env_settings": proxied()}
    if connection_string is not None:
        try:
            service = BlobServiceClient.from_connection_string(connection_string, **options)
        except ValueError:
            raise Misconfigured(
                f"{PREFIX}AZURE_CONNECTION_STRING is not an Azure Storage connection string"
            ) from None
        async with service:
            yield Account(service, key=getattr(service.credential, "account_key", None), credential=None)
        return
    address = urlsplit(account_url or "")
    if address.scheme not in {"http", "https"} or not address.hostname:
        raise Misconfigured(f"{PREFIX}AZURE_ACCOUNT_URL is not the URL of a storage account")
    if address.query:
        async with BlobServiceClient(account_url or "", **options) as service:
            yield Account(service, key=None, credential=None)
        return
    async with (
        _default_credential() as credential,
        BlobServiceClient(account_url or "", credential, **options) as service,
    ):
        yield Account(service, key=None, credential=credential)


def _default_credential() -> Any:
    try:
        identity = importlib.import_module("azure.identity.aio")
    except ImportError:
        raise Misconfigured(
            f"{PREFIX}AZURE_ACCOUNT_URL has no SAS: add one, or install aioanalysis[identity]"
        ) from None
    return identity.DefaultAzureCredential()
