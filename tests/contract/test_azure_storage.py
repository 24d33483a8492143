"""What only Azure can do to us: lost replies, broken streams, silence, refusals, secrets in error texts."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from typing import Any

import aiohttp
import pytest
from azure.storage.blob import ContentSettings
from azure.storage.blob.aio import BlobServiceClient

from aioanalysis.errors import (
    AnalysisError,
    Contested,
    Invalid,
    LeaseLost,
    Misconfigured,
    Missing,
    SystemFault,
    Unavailable,
)
from aioanalysis.interfaces import BlobStream, Condition, ExchangeStorage
from aioanalysis.storage import azure
from aioanalysis.storage.azure_faults import fault_of
from tests.support.faultproxy import FaultProxy, http_reply
from tests.support.servers import Azurite, free_port
from tests.support.storages import (
    ABSENT,
    MIB,
    QUEUE,
    RESULTS,
    AzureBackend,
    account_sas,
    block,
    body,
    lease_id,
    names,
    read,
    stat,
)

Call = Callable[[], Coroutine[Any, Any, Any]]


@pytest.fixture
async def proxy(azurite: Azurite) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(("127.0.0.1", azurite.port), "http") as proxy:
        yield proxy


@pytest.fixture(params=["key", "SAS"])
async def backend(
    request: pytest.FixtureRequest, azurite: Azurite, unique: str, proxy: FaultProxy
) -> AzureBackend:
    backend = AzureBackend(azurite, unique, sas=request.param == "SAS", port=proxy.port)
    await backend.create()
    return backend


@pytest.fixture
async def storage(backend: AzureBackend) -> AsyncIterator[azure.AzureStorage]:
    async with backend.connect() as storage:
        yield storage


def every_call(storage: ExchangeStorage, name: str = "a") -> dict[str, Call]:
    """Each method once, on a blob in queue, in an order in which all can succeed."""
    lease = lease_id()
    return {
        "stat": lambda: storage.stat(QUEUE, name),
        "names": lambda: names(storage, QUEUE),
        "list": lambda: anext(aiter(storage.list(QUEUE))),
        "open": lambda: read(storage, QUEUE, name),
        "write": lambda: storage.write(QUEUE, name, b"x"),
        "stream": lambda: storage.write(QUEUE, name, body(9)),
        "copy": lambda: storage.copy((QUEUE, name), (RESULTS, name), metadata={"n": "1"}),
        "acquire": lambda: storage.acquire_lease(QUEUE, name, lease, 15),
        "renew": lambda: storage.renew_lease(QUEUE, name, lease),
        "release": lambda: storage.release_lease(QUEUE, name, lease),
        "delete": lambda: storage.delete(QUEUE, name),
    }


async def drain(stream: BlobStream, into: list[int]) -> None:
    async for piece in stream.chunks():
        into.append(len(piece))


# --- lost replies: the request has acted, and is sent again


async def test_a_lost_reply_to_a_create_looks_like_a_conflict_and_reads_back_as_ours(
    storage: ExchangeStorage, proxy: FaultProxy
) -> None:
    for name, content, request in (
        ("small", b"x", "PUT .*/small"),
        ("large", body(10), "PUT .*comp=blocklist"),
    ):
        with proxy.drop_reply(request) as fault, pytest.raises(Contested):
            await storage.write(QUEUE, name, content, metadata={"nonce": "mine"}, condition=ABSENT)
        assert fault.hits == 1
        assert (await stat(storage, QUEUE, name)).metadata == {"nonce": "mine"}
    assert await read(storage, QUEUE, "large") == b"".join([block(n) for n in range(10)])


async def test_a_lost_reply_to_a_replacement_looks_like_a_conflict_and_reads_back_as_ours(
    storage: ExchangeStorage, proxy: FaultProxy
) -> None:
    first = await storage.write(QUEUE, "a", b"1")
    with proxy.drop_reply(r"^PUT "), pytest.raises(Contested):
        await storage.write(
            QUEUE, "a", b"2", metadata={"nonce": "mine"}, condition=Condition(etag=first.etag)
        )
    assert (await stat(storage, QUEUE, "a")).metadata == {"nonce": "mine"}


async def test_writes_without_a_condition_survive_lost_replies(
    storage: ExchangeStorage, proxy: FaultProxy
) -> None:
    proxy.drop_reply(r"^PUT .*/small")
    await storage.write(QUEUE, "small", b"x")
    for request in ("comp=block&", "comp=blocklist"):
        fault = proxy.drop_reply(request)
        await storage.write(QUEUE, "large", body(20))
        assert fault.hits == 1
        assert await read(storage, QUEUE, "large") == b"".join([block(n) for n in range(20)])


async def test_a_lost_reply_to_a_copy_looks_like_a_conflict_and_reads_back_as_ours(
    storage: ExchangeStorage, proxy: FaultProxy
) -> None:
    await storage.write(QUEUE, "a", b"x")
    with proxy.drop_reply(r"^PUT .*/claimed/") as fault, pytest.raises(Contested):
        await storage.copy((QUEUE, "a"), (RESULTS, "claimed/a"), metadata={"nonce": "n"}, condition=ABSENT)
    assert fault.hits == 1
    assert (await stat(storage, RESULTS, "claimed/a")).metadata == {"nonce": "n"}


async def test_a_lost_reply_to_a_delete_means_that_it_is_gone(
    storage: ExchangeStorage, proxy: FaultProxy
) -> None:
    for with_etag in (False, True):
        for with_lease in (False, True):
            written, lease = await storage.write(QUEUE, "a", b"x"), lease_id()
            options: dict[str, str] = {"etag": written.etag} if with_etag else {}
            if with_lease:
                await storage.acquire_lease(QUEUE, "a", lease, 15)
                options["lease"] = lease
            with proxy.drop_reply(r"^DELETE ") as fault:
                assert not await storage.delete(QUEUE, "a", **options)
            assert fault.hits == 1
            assert await storage.stat(QUEUE, "a") is None


async def test_lost_replies_about_leases_do_not_matter(storage: ExchangeStorage, proxy: FaultProxy) -> None:
    lease = lease_id()
    await storage.write(QUEUE, "a", b"x")
    for call in (
        storage.acquire_lease(QUEUE, "a", lease, 15),
        storage.renew_lease(QUEUE, "a", lease),
        storage.release_lease(QUEUE, "a", lease),
    ):
        with proxy.drop_reply("comp=lease") as fault:
            await call
        assert fault.hits == 1
    await storage.acquire_lease(QUEUE, "a", lease_id(), 15)


async def test_every_call_survives_a_request_that_got_lost_or_a_server_that_was_busy(
    storage: ExchangeStorage, proxy: FaultProxy
) -> None:
    for blob, break_next in (
        ("lost", lambda: proxy.lose_request()),
        ("busy", lambda: proxy.answer(reply=http_reply(503))),
    ):
        await storage.write(QUEUE, blob, b"x")
        for name, call in every_call(storage, blob).items():
            fault = break_next()
            await call()
            assert fault.hits == 1, name


# --- broken and cancelled downloads


async def test_a_download_that_breaks_is_taken_up_where_it_broke(
    storage: ExchangeStorage, proxy: FaultProxy
) -> None:
    await storage.write(RESULTS, "a", body(8))
    whole = b"".join([block(n) for n in range(8)])
    for start in (0, 100):
        fault = proxy.cut_reply(r"^GET .*/a\?", after=MIB, times=3)
        assert await read(storage, RESULTS, "a", start=start, end=7 * MIB) == whole[start : 7 * MIB]
        assert fault.hits == 3


async def test_a_download_that_keeps_breaking_is_unavailable_not_short(
    storage: ExchangeStorage, proxy: FaultProxy
) -> None:
    await storage.write(RESULTS, "a", body(8))
    proxy.cut_reply(r"^GET .*/a\?", after=MIB)
    proxy.cut_reply(r"^GET .*/a\?", after=0, times=None)
    found: list[int] = []
    async with storage.open(RESULTS, "a") as stream:
        with pytest.raises(Unavailable, match="1048576 of 8388608"):
            await drain(stream, found)
    assert sum(found) == MIB


@pytest.mark.parametrize("change", ["replaced", "deleted"])
async def test_a_download_that_breaks_is_not_continued_with_another_version(
    storage: ExchangeStorage, proxy: FaultProxy, change: str
) -> None:
    await storage.write(RESULTS, "a", body(8))
    proxy.cut_reply(r"^GET .*/a\?", after=4 * MIB)
    async with storage.open(RESULTS, "a") as stream:
        if change == "replaced":
            await storage.write(RESULTS, "a", body(8, first=9))
        else:
            await storage.delete(RESULTS, "a")
        with pytest.raises(Contested):
            await drain(stream, [])


async def test_cancelled_calls_leave_no_connection_behind(storage: ExchangeStorage) -> None:
    await storage.write(QUEUE, "a", body(9))
    calls = every_call(storage)
    for number in range(40):
        for name in ("open", "stat", "names", "list", "stream", "copy", "acquire"):
            task = asyncio.ensure_future(calls[name]())
            for _ in range(2 * number):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
    sessions = [thing for thing in gc.get_objects() if isinstance(thing, aiohttp.ClientSession)]
    open_sessions = [session for session in sessions if not session.closed]

    assert len(open_sessions) >= 2
    for session in open_sessions:
        assert session.connector is not None
        assert not session.connector._acquired


async def test_what_is_stored_with_an_encoding_is_read_as_it_is(
    backend: AzureBackend, storage: ExchangeStorage
) -> None:
    async with BlobServiceClient.from_connection_string(backend.server.connection_string) as service:
        blob = service.get_blob_client(backend.containers["queue"], "a")
        await blob.upload_blob(b"\x1f\x8bnot gzip", content_settings=ContentSettings(content_encoding="gzip"))

    assert await read(storage, QUEUE, "a") == b"\x1f\x8bnot gzip"


# --- silence and refusal


async def test_a_closed_port_is_unavailable_within_seconds(azurite: Azurite, unique: str) -> None:
    backend = AzureBackend(azurite, unique, port=free_port())
    async with backend.connect() as storage:
        calls = every_call(storage)
        before = time.monotonic()
        outcomes = await asyncio.gather(*(call() for call in calls.values()), return_exceptions=True)

        assert time.monotonic() - before < 8
        assert [type(outcome) for outcome in outcomes] == [Unavailable] * len(calls)


async def test_a_proxy_that_the_environment_names_is_gone_through(
    azurite: Azurite, unique: str, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
    proxy.answer(reply=http_reply(403), times=None)
    backend = AzureBackend(azurite, unique, port=free_port())
    async with backend.connect() as storage:
        calls = every_call(storage)
        outcomes = await asyncio.gather(*(call() for call in calls.values()), return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] == [Misconfigured] * len(calls)
    assert len(proxy.requests) >= len(calls)
    assert all(f" http://127.0.0.1:{backend.port}/" in request for request in proxy.requests)


async def test_calls_about_a_lease_end_within_a_quarter_of_it(
    storage: ExchangeStorage, proxy: FaultProxy
) -> None:
    await storage.write(QUEUE, "a", b"x")
    proxy.black_hole("comp=lease")
    calls = every_call(storage)
    before = time.monotonic()
    outcomes = await asyncio.gather(
        *(calls[name]() for name in ("acquire", "renew", "release")), return_exceptions=True
    )

    assert time.monotonic() - before < 15 / 4 + 0.5
    assert [type(outcome) for outcome in outcomes] == [Unavailable] * 3


async def test_a_container_that_is_not_there_is_no_empty_one(
    storage: ExchangeStorage, backend: AzureBackend
) -> None:
    await storage.write(QUEUE, "a", b"x")
    async with backend.connect(queue="not-there") as wrong, backend.connect(results="not-there") as target:
        calls = {**every_call(wrong), "copy": every_call(target)["copy"]}
        for call in calls.values():
            with pytest.raises(Misconfigured, match="ContainerNotFound"):
                await call()


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "BlobNotFound", Missing),
        (404, "", Missing),
        (404, "ContainerNotFound", Misconfigured),
        (409, "BlobAlreadyExists", Contested),
        (409, "LeaseAlreadyPresent", LeaseLost),
        (409, "ContainerBeingDeleted", Unavailable),
        (412, "ConditionNotMet", Contested),
        (412, "LeaseIdMissing", Contested),
        (412, "LeaseIdMismatchWithBlobOperation", LeaseLost),
        (400, "InvalidBlockList", Contested),
        (400, "OutOfRangeInput", SystemFault),
        (401, "InvalidAuthenticationInfo", Misconfigured),
        (403, "AuthenticationFailed", Misconfigured),
        (429, "", Unavailable),
        (500, "InternalError", Unavailable),
        (503, "ServerBusy", Unavailable),
    ],
)
def test_each_of_azures_answers_has_one_meaning(status: int, code: str, kind: type[AnalysisError]) -> None:
    fault = fault_of(status, {"x-ms-error-code": code, "Retry-After": "7"}, "doing it")

    assert type(fault) is kind
    assert str(fault).startswith("doing it: ")
    assert getattr(fault, "retry_after", None) == (7 if kind is Unavailable else None)


# --- copies that take their time


def copy_reply(status: int, state: str) -> bytes:
    return http_reply(
        status,
        headers={
            "x-ms-copy-id": "c1",
            "x-ms-copy-status": state,
            "ETag": '"0x1"',
            "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT",
            "x-ms-blob-type": "BlockBlob",
        },
    )


async def test_a_copy_that_azure_does_later_is_awaited(storage: ExchangeStorage, proxy: FaultProxy) -> None:
    proxy.answer(r"^PUT .*/b", reply=copy_reply(202, "pending"))
    pending = proxy.answer(r"^HEAD .*/b", reply=copy_reply(200, "pending"), times=2)
    proxy.answer(r"^HEAD .*/b", reply=copy_reply(200, "success"))

    copied = await storage.copy((QUEUE, "a"), (RESULTS, "b"), metadata={"n": "1"})

    assert pending.hits == 2
    assert copied.etag == "0x1"


async def test_a_copy_that_fails_later_is_taken_away(storage: ExchangeStorage, proxy: FaultProxy) -> None:
    proxy.answer(r"^PUT .*/b", reply=copy_reply(202, "pending"))
    proxy.answer(r"^HEAD .*/b", reply=copy_reply(200, "failed"))
    deleted = proxy.answer(r"^DELETE .*/b", reply=http_reply(202))

    with pytest.raises(Unavailable):
        await storage.copy((QUEUE, "a"), (RESULTS, "b"), metadata={"n": "1"})

    assert deleted.hits == 1


async def test_a_copy_under_way_is_not_there_yet(storage: ExchangeStorage, proxy: FaultProxy) -> None:
    proxy.answer(r"^HEAD .*/b", reply=copy_reply(200, "pending"))

    assert await storage.stat(RESULTS, "b") is None


# --- set-up


async def test_check_says_in_one_line_what_is_wrong(azurite: Azurite, backend: AzureBackend) -> None:
    wrong_key = azurite.connection_string.replace(azurite.key[:20], "A" * 20)
    expired = f"{azurite.endpoint}?{account_sas(azurite, hours=-1)}"
    for address, words in (
        ({"results": "not-there"}, ("not-there", "ContainerNotFound")),
        ({"connection_string": wrong_key}, ("403", "key")),
        ({"connection_string": None, "account_url": expired}, ("403", "SAS")),
        ({"connection_string": azurite.through(free_port())}, ("no answer",)),
    ):
        options: dict[str, Any] = {"connection_string": azurite.connection_string, **backend.containers}
        async with azure.connect(**{**options, **address}) as storage:
            before = time.monotonic()
            with pytest.raises(Misconfigured) as caught:
                await storage.check()
        text = str(caught.value)
        assert time.monotonic() - before < 6
        assert "\n" not in text
        assert all(word in text for word in (azurite.account, "127.0.0.1", *words)), text


async def test_no_error_holds_a_key_or_a_signature(
    azurite: Azurite, backend: AzureBackend, proxy: FaultProxy
) -> None:
    other = azurite.key[:-30] + "B" * 28 + "=="
    sas = account_sas(azurite)
    expired = account_sas(azurite, hours=-1)
    addresses: list[dict[str, Any]] = [
        {"connection_string": azurite.through(free_port())},
        {"connection_string": azurite.through(proxy.port).replace(azurite.key, other)},
        {"account_url": f"http://127.0.0.1:{free_port()}/{azurite.account}?{sas}"},
        {"account_url": f"http://127.0.0.1:{proxy.port}/{azurite.account}?{expired}"},
        {"connection_string": f"AccountKey={azurite.key}"},
        {"connection_string": azurite.key},
        {"account_url": f"//nowhere?{sas}"},
    ]
    secrets = [
        azurite.key,
        other,
        *(part[4:] for text in (sas, expired) for part in text.split("&") if part[:4] == "sig="),
    ]
    told = 0
    for address in addresses:
        try:
            async with azure.connect(**address, **backend.containers) as storage:
                outcomes = await asyncio.gather(
                    storage.check(),
                    *(call() for call in every_call(storage).values()),
                    return_exceptions=True,
                )
        except Misconfigured as error:
            outcomes = [error]
        for outcome in outcomes:
            assert isinstance(outcome, SystemFault)
            text = "".join(traceback.format_exception(outcome)) + repr(outcome)
            assert not any(secret in text for secret in secrets), text
            assert "sig=" not in text
            told += 1
    assert told == 12 * 4 + 3


@pytest.mark.parametrize("url", ["", "account", "ftp://account", "http://"])
async def test_what_is_no_account_url_is_misconfigured(url: str) -> None:
    with pytest.raises(Misconfigured, match="AIOANALYSIS_AZURE_ACCOUNT_URL"):
        async with azure.connect(account_url=url):
            pass


async def test_a_url_without_a_sas_needs_azure_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "azure.identity.aio", None)
    with pytest.raises(Misconfigured, match=r"aioanalysis\[identity\]"):
        async with azure.connect(account_url="https://account.blob.core.windows.net"):
            pass


async def test_a_place_that_the_account_does_not_know_is_the_callers_fault(
    storage: ExchangeStorage, proxy: FaultProxy
) -> None:
    refusal = http_reply(400, headers={"x-ms-error-code": "InvalidQueryParameterValue"})
    with proxy.answer("comp=list", reply=refusal), pytest.raises(Invalid):
        await storage.page(RESULTS, limit=5, place="made-up")
    with proxy.answer("comp=list", reply=refusal), pytest.raises(SystemFault):
        await storage.page(RESULTS, limit=5)


async def test_a_list_of_names_that_breaks_is_asked_for_again_from_its_page_on(
    storage: ExchangeStorage, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aioanalysis.storage.azure_lists.NAMES_A_PAGE", 4)
    stored = [f"{number:02}" for number in range(10)]
    await asyncio.gather(*(storage.write(QUEUE, name, b"x") for name in stored))

    with proxy.cut_reply(r"comp=list.*marker=", after=900) as fault:
        assert await names(storage, QUEUE) == stored
    assert fault.hits == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"<!DOCTYPE html><html><body><p>Sign in</p></body></html>",
        b'<?xml version="1.0"?><Error><Code>ServerBusy</Code></Error>',
        b'<?xml version="1.0"?><EnumerationResults><Blobs>',
        b"",
    ],
    ids=["page", "error", "torn", "nothing"],
)
async def test_an_answer_that_is_no_list_is_never_an_empty_list(
    storage: ExchangeStorage, proxy: FaultProxy, answer: bytes
) -> None:
    await storage.write(QUEUE, "a", b"x")
    with proxy.answer("comp=list", reply=http_reply(200, answer), times=None):
        with pytest.raises(Unavailable):
            await names(storage, QUEUE)
        with pytest.raises(Unavailable):
            [blob async for blob in storage.list(QUEUE)]
        with pytest.raises(Unavailable):
            [blob async for blob in storage.list(QUEUE, root_only=True)]
        with pytest.raises(Unavailable):
            await storage.page(QUEUE, limit=10)
    with proxy.answer("comp=list", reply=http_reply(200, answer)):
        assert await names(storage, QUEUE) == ["a"]


async def test_a_list_of_names_that_is_left_early_leaves_no_request_behind(
    storage: azure.AzureStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aioanalysis.storage.azure_lists.NAMES_A_PAGE", 2)
    await asyncio.gather(*(storage.write(QUEUE, str(number), b"x") for number in range(6)))

    def asked() -> int:
        return sum(task.get_name() == "list names" for task in asyncio.all_tasks())

    async with aclosing(storage.names(QUEUE)) as found:
        assert await anext(found) == "0"
        assert asked() == 1  # the next page
    assert asked() == 0
