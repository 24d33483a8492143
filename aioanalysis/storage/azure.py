"""Package storage in Azure Blob: the real one.

Small writes, copies, leases, deletes and lists that tell more than names go through the SDK, downloads
(`azure_reads`) and lists of names (`azure_lists`) do not. Every conflict may be our own lost reply, resent by
SDK or HTTP client: it is raised, and the caller reads back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Final

import aiohttp
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobProperties
from azure.storage.blob.aio import BlobClient, BlobLeaseClient

from aioanalysis.domain.exchange import Container
from aioanalysis.errors import AnalysisError, Contested, Invalid, Misconfigured, Missing, Unavailable
from aioanalysis.interfaces import BlobInfo, BlobPage, BlobStream, Condition, Head, LeaseState
from aioanalysis.settings import Settings
from aioanalysis.storage.azure_account import Account, open_account
from aioanalysis.storage.azure_faults import faults, listing
from aioanalysis.storage.azure_lists import list_names
from aioanalysis.storage.azure_reads import Download, lease_state, open_session
from aioanalysis.storage.azure_writes import Upload
from aioanalysis.storage.bodies import pieces
from aioanalysis.storage.names import check_condition, check_lease, check_metadata, check_name

CHECK_SECONDS: Final = 5.0
COPY_POLL_SECONDS: Final = 0.25
BLOBS_A_PAGE: Final = 200  # a page is parsed in one go: keep the loop free


@asynccontextmanager
async def open_storage(settings: Settings) -> AsyncIterator[AzureStorage]:
    """The account that the settings name, by connection string or account URL."""
    connection, url = settings.azure_connection_string, settings.azure_account_url
    async with connect(
        connection_string=connection.get_secret_value() if connection else None,
        account_url=url.get_secret_value() if url else None,
        queue=settings.queue_container,
        results=settings.results_container,
        lease_seconds=settings.lease_seconds,
    ) as storage:
        yield storage


@asynccontextmanager
async def connect(
    *,
    connection_string: str | None = None,
    account_url: str | None = None,
    queue: str = "queue",
    results: str = "results",
    lease_seconds: int = 15,
) -> AsyncIterator[AzureStorage]:
    """Storage in the account that one of the first two arguments names; nothing is sent before its use."""
    async with (
        open_account(connection_string=connection_string, account_url=account_url) as account,
        open_session() as session,
    ):
        yield AzureStorage(account, session, queue=queue, results=results, lease_seconds=lease_seconds)


class AzureStorage:
    """`ExchangeStorage` on two containers of one account. `lease_seconds` bounds calls about leases."""

    def __init__(
        self,
        account: Account,
        session: aiohttp.ClientSession,
        *,
        queue: str,
        results: str,
        lease_seconds: int,
    ) -> None:
        self._account = account
        self._session = session
        self._containers = {Container.QUEUE: queue, Container.RESULTS: results}
        self._lease_seconds = lease_seconds

    async def check(self) -> str:
        deadline = asyncio.get_running_loop().time() + CHECK_SECONDS
        for container in self._containers.values():
            subject = f"Azure Blob {self._account.label}, container {container}"
            try:
                with faults(subject):
                    async with asyncio.timeout_at(deadline):
                        names = self._account.container(container).list_blob_names(results_per_page=1)
                        await anext(aiter(names.by_page()))
            except AnalysisError as error:
                raise Misconfigured(str(error)) from error.__cause__
        names_ = " and ".join(self._containers.values())
        return f"Azure Blob {self._account.label}, containers {names_}"

    async def names(self, container: Container, prefix: str = "") -> AsyncIterator[str]:
        client = self._account.container(self._containers[container])
        async with aclosing(list_names(self._session, self._account, client, prefix)) as names:
            async for name in names:
                yield name

    async def list(
        self, container: Container, prefix: str = "", *, root_only: bool = False
    ) -> AsyncIterator[BlobInfo]:
        if root_only and "/" in prefix:
            return
        client = self._account.container(self._containers[container])
        options: dict[str, Any] = {
            "name_starts_with": prefix or None,
            "include": ["metadata", "copy"],
            "results_per_page": BLOBS_A_PAGE,
        }
        with listing(f"listing {client.container_name}"):
            async for blob in client.walk_blobs(**options) if root_only else client.list_blobs(**options):
                if isinstance(blob, BlobProperties) and _is_whole(blob):
                    yield _describe(blob)

    async def page(
        self, container: Container, prefix: str = "", *, limit: int, place: str | None = None
    ) -> BlobPage:
        client = self._account.container(self._containers[container])
        found: list[BlobInfo] = []
        with listing(f"listing {client.container_name}"):
            while True:
                pages: Any = client.list_blobs(
                    name_starts_with=prefix or None,
                    include=["metadata", "copy"],
                    results_per_page=limit - len(found),
                ).by_page(continuation_token=place)
                try:
                    found += [_describe(blob) async for blob in await anext(pages) if _is_whole(blob)]
                except HttpResponseError as error:
                    if place is not None and error.status_code == 400:
                        raise Invalid("not a place in this list") from None
                    raise
                place = pages.continuation_token or None
                if place is None or len(found) >= limit:
                    return BlobPage(blobs=found, place=place)

    async def stat(self, container: Container, name: str) -> BlobInfo | None:
        properties = await self._properties(self._blob(container, name))
        return _describe(properties) if properties and _is_whole(properties) else None

    @asynccontextmanager
    async def open(
        self,
        container: Container,
        name: str,
        *,
        start: int = 0,
        end: int | None = None,
        etag: str | None = None,
    ) -> AsyncIterator[BlobStream]:
        download = Download(self._session, self._account, self._blob(container, name))
        try:
            if (end is not None and end <= start) or not await download.start(start, end, etag):
                download.info = await self._demand(container, name, etag)
            yield download
        finally:
            download.close()

    async def write(
        self,
        container: Container,
        name: str,
        body: bytes | AsyncIterator[bytes],
        *,
        head: Head | None = None,
        metadata: Mapping[str, str] | Callable[[], Mapping[str, str]] | None = None,
        condition: Condition | None = None,
        lease: str | None = None,
    ) -> BlobInfo:
        blob = self._blob(container, name)
        said: dict[str, str] = {} if callable(metadata) else check_metadata(metadata)

        async def check() -> None:
            if condition is not None:
                check_condition(name, condition, await self.stat(container, name))

        def complete() -> dict[str, str]:
            if callable(metadata) and not said:
                said.update(check_metadata(metadata()))
            return said

        upload = Upload(blob, {**_conditions(condition), "lease": lease}, lease, check)
        async with aclosing(pieces(body)) as whole:
            reply = await upload.run(whole, head, complete)
        return BlobInfo(
            name=name,
            size=upload.size,
            etag=reply["etag"].strip('"'),
            modified_at=reply["last_modified"],
            metadata=said,
            lease=LeaseState.FREE if lease is None else LeaseState.HELD,
        )

    async def copy(
        self,
        source: tuple[Container, str],
        target: tuple[Container, str],
        *,
        metadata: Mapping[str, str],
        source_etag: str | None = None,
        condition: Condition | None = None,
        lease: str | None = None,
    ) -> BlobInfo:
        from_blob, blob = self._blob(*source), self._blob(*target)
        subject = f"copying {from_blob.container_name}/{source[1]} to {blob.container_name}/{target[1]}"
        terms = _conditions(condition)
        if source_etag is not None:
            terms["source_etag"] = f'"{source_etag}"'
            terms["source_match_condition"] = MatchConditions.IfNotModified
        if lease is not None:
            terms["destination_lease"] = lease
        with faults(subject):
            reply = await blob.start_copy_from_url(
                self._account.readable_url(from_blob),
                metadata=check_metadata(metadata, required=True),
                **terms,
            )
        return await self._copied(blob, subject, str(reply["copy_id"]), lease)

    async def _copied(self, blob: BlobClient, subject: str, copy_id: str, lease: str | None) -> BlobInfo:
        """Wait for Azure's own copying; of one account it is done at once, as a rule."""
        while True:
            found = await self._properties(blob)
            if found is None or found.copy.id != copy_id:
                raise Contested(f"{subject}: overtaken by another write")
            if found.copy.status == "success":
                return _describe(found)
            if found.copy.status != "pending":
                with suppress(AnalysisError):
                    await self._drop(blob, etag=found.etag.strip('"'), lease=lease)
                raise Unavailable(f"{subject}: {found.copy.status}")
            await asyncio.sleep(COPY_POLL_SECONDS)

    async def delete(
        self, container: Container, name: str, *, etag: str | None = None, lease: str | None = None
    ) -> bool:
        blob = self._blob(container, name)
        try:
            await self._drop(blob, etag=etag, lease=lease)
        except Missing:
            return False
        except Contested:  # with an etag, a blob that is not there is a conflict to Azure
            if await self.stat(container, name) is None:
                return False
            raise
        return True

    async def acquire_lease(
        self, container: Container, name: str, lease: str, seconds: int, *, etag: str | None = None
    ) -> None:
        client = self._lease(container, name, check_lease(lease, seconds))
        terms = _conditions(Condition(etag=etag))
        await _in_time(client.acquire, seconds, f"leasing {name}", lease_duration=seconds, **terms)

    async def renew_lease(self, container: Container, name: str, lease: str) -> None:
        client = self._lease(container, name, check_lease(lease))
        await _in_time(client.renew, self._lease_seconds, f"renewing the lease on {name}")

    async def release_lease(self, container: Container, name: str, lease: str) -> None:
        client = self._lease(container, name, check_lease(lease))
        with suppress(Missing, Contested):
            await _in_time(client.release, self._lease_seconds, f"releasing the lease on {name}")

    def _blob(self, container: Container, name: str) -> BlobClient:
        return self._account.blob(self._containers[container], check_name(name))

    def _lease(self, container: Container, name: str, lease: str) -> BlobLeaseClient:
        return BlobLeaseClient(self._blob(container, name), lease_id=lease)

    async def _properties(self, blob: BlobClient) -> BlobProperties | None:
        try:
            with faults(f"looking up {blob.container_name}/{blob.blob_name}"):
                return await blob.get_blob_properties()
        except Missing:
            return None

    async def _demand(self, container: Container, name: str, etag: str | None) -> BlobInfo:
        info = await self.stat(container, name)
        if info is None:
            raise Missing(f"{name} is not there")
        check_condition(name, Condition(etag=etag), info)
        return info

    async def _drop(self, blob: BlobClient, *, etag: str | None, lease: str | None) -> None:
        with faults(f"deleting {blob.container_name}/{blob.blob_name}"):
            await blob.delete_blob(lease=lease, **_conditions(Condition(etag=etag)))


async def _in_time(call: Callable[..., Awaitable[Any]], seconds: int, subject: str, **arguments: Any) -> None:
    """Make a call about a lease of `seconds`, with one retry, all within a quarter of it."""
    limit = seconds / 4
    with faults(subject):
        async with asyncio.timeout(limit):
            await call(retry_total=1, connection_timeout=limit / 3, read_timeout=limit / 2.5, **arguments)


def _conditions(condition: Condition | None) -> dict[str, Any]:
    if condition is None or not (condition.absent or condition.etag):
        return {}
    if condition.absent:
        return {"match_condition": MatchConditions.IfMissing}
    return {"etag": f'"{condition.etag}"', "match_condition": MatchConditions.IfNotModified}


def _is_whole(blob: BlobProperties) -> bool:
    """Not the target of a copy that is still under way or has failed."""
    return blob.copy.status in {None, "success"}


def _describe(blob: BlobProperties) -> BlobInfo:
    return BlobInfo(
        name=blob.name,
        size=blob.size,
        etag=blob.etag.strip('"'),
        modified_at=blob.last_modified,
        metadata={key.lower(): value for key, value in (blob.metadata or {}).items()},
        lease=lease_state(blob.lease.state),
    )
