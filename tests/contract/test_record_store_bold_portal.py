"""The BOLD portal as a record store: every reply that DOMAIN.md 2.1 and 2.5 name."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientTimeout, web

from aioanalysis.domain.job import Source
from aioanalysis.domain.records import LineReader
from aioanalysis.errors import AnalysisError, JobFailure, Misconfigured, Unavailable
from aioanalysis.recordstore import BoldPortal, open_record_store
from aioanalysis.recordstore.queries import query_id
from aioanalysis.recordstore.transport import TIMEOUT, open_session
from aioanalysis.settings import Settings, load
from tests.support.boldstubs import PortalStub, cut, jsonl, portal_stub

KEY = "a-key-of-this-service"
LINES = jsonl({"record_id": f"P{n}.COI-5P", "bin_uri": None} for n in range(3))
CODE = Source(kind="recordset", value="DS-ONE")
TOKEN = query_id(["recordsetcode:code:DS-ONE"])


@pytest.fixture
async def portal() -> AsyncIterator[PortalStub]:
    async with portal_stub() as portal:
        yield portal


async def read(
    portal: PortalStub,
    source: Source = CODE,
    *,
    timeout: ClientTimeout = TIMEOUT,
    longest: float = 60,
    call_seconds: float = 0,
) -> bytes:
    async with open_session(timeout) as session:
        store = BoldPortal(session, portal.url, longest=longest, call_seconds=call_seconds)
        async with store.open(source, KEY) as stream:
            return b"".join([piece async for piece in stream.chunks()])


async def fault(portal: PortalStub, source: Source = CODE, **options: float) -> AnalysisError:
    with pytest.raises((JobFailure, Unavailable)) as caught:
        await read(portal, source, **options)
    return caught.value


async def passing(portal: PortalStub, **options: float) -> Unavailable:
    error = await fault(portal, **options)
    assert isinstance(error, Unavailable)
    return error


# --- what is asked ---


async def test_a_recordset_code_is_a_query_built_here_and_asked_for_whole(portal: PortalStub):
    portal.put(TOKEN, 3, LINES)
    assert await read(portal) == LINES
    assert portal.stub.paths == [portal.count_path(TOKEN), portal.download_path(TOKEN)]
    assert "%3D" in portal.stub.paths[0]
    assert "=" not in portal.stub.paths[0].partition("?")[0]


async def test_a_bin_is_asked_for_by_its_uri(portal: PortalStub):
    portal.put(query_id(["bin:uri:BOLD:ACQ9269"]), 3, LINES)
    assert await read(portal, Source(kind="recordset", value="BOLD:ACQ9269")) == LINES


async def test_a_set_token_is_a_query_id_with_its_extent_widened(portal: PortalStub):
    portal.put(query_id(["bin:uri:BOLD:ACQ9269"]), 3, LINES)
    limited = "eAFLysyzKi3KtHLy93GxcnQOtDQys7TOyczNLElNAQCEUgkr"
    assert await read(portal, Source(kind="set_token", value=limited)) == LINES


async def test_a_token_of_another_kind_goes_as_it_is(portal: PortalStub):
    portal.put("handle/42+x", 3, LINES)
    assert await read(portal, Source(kind="set_token", value="handle/42+x")) == LINES
    assert portal.stub.paths[0] == "/api/documents/handle%2F42%2Bx?length=1&start=0"


async def test_the_key_is_not_sent_as_the_portal_takes_none(portal: PortalStub):
    portal.put(TOKEN, 3, LINES)
    await read(portal)
    for request in portal.stub.asked:
        assert KEY not in str(request.headers)
        assert not {"Authorization", "api-key"} & set(request.headers)


@pytest.mark.parametrize(
    "source",
    [
        Source(kind="recordset", value="DS-ONE;tax:na:Aves"),
        Source(kind="recordset", value="DS ONE"),
        Source(kind="recordset", value="é"),
        Source(kind="recordset", value=""),
        Source(kind="set_token", value=".."),
        Source(kind="set_token", value="a\nb"),
        Source(kind="set_token", value="x" * 2100),
        Source(kind="attached"),
    ],
)
async def test_what_cannot_be_asked_fails_the_job_unasked(portal: PortalStub, source: Source):
    error = await fault(portal, source)
    assert isinstance(error, JobFailure)
    assert len(str(error)) < 400
    assert portal.stub.asked == []


async def test_calls_keep_a_pause_between_them(portal: PortalStub):
    portal.put(TOKEN, 3, LINES)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await read(portal, call_seconds=0.2)
    assert loop.time() - begun >= 0.2


# --- counts ---


async def test_the_portals_total_is_announced(portal: PortalStub):
    portal.put(TOKEN, 3, LINES)
    async with (
        open_session() as session,
        BoldPortal(session, portal.url, call_seconds=0).open(CODE, KEY) as stream,
    ):
        assert stream.announced == 3


async def test_no_records_are_an_empty_set_and_no_download(portal: PortalStub):
    portal.put(TOKEN, 0, b"")
    assert await read(portal) == b""
    assert portal.stub.paths == [portal.count_path(TOKEN)]


async def test_more_than_a_download_gives_is_refused_with_the_number(portal: PortalStub):
    portal.put(TOKEN, 1_000_001, LINES)
    error = await fault(portal)
    assert isinstance(error, JobFailure)
    assert "1,000,001 records" in str(error)
    assert len(portal.stub.asked) == 1


@pytest.mark.parametrize("body", [LINES, LINES.rstrip(b"\n"), LINES.replace(b"\n", b"\r\n"), LINES + b"\n\n"])
async def test_all_that_was_announced_is_whole(portal: PortalStub, body: bytes):
    portal.put(TOKEN, 3, body)
    assert await read(portal) == body


async def test_more_than_was_announced_is_taken(portal: PortalStub):
    portal.put(TOKEN, 2, LINES)
    assert await read(portal) == LINES


async def test_fewer_than_were_announced_are_a_fault(portal: PortalStub):
    portal.put(TOKEN, 4, LINES + b"\n  \n")
    assert str(await passing(portal)) == "the BOLD portal announced 4 records and sent 3"


@pytest.mark.parametrize(
    "answer",
    [
        b"{}",
        b"[]",
        b'{"recordsTotal":null}',
        b'{"recordsTotal":true}',
        b'{"recordsTotal":-1}',
        b'{"a":1}\n{"b":2}',
    ],
)
async def test_a_count_that_is_none_is_a_fault(portal: PortalStub, answer: bytes):
    portal.put(TOKEN, 3, LINES)
    portal.stub.put(portal.count_path(TOKEN), answer, content_type="application/json")
    assert "did not say how many records" in str(await passing(portal))


# --- broken downloads ---


async def test_a_download_that_breaks_off_is_a_fault(portal: PortalStub):
    portal.put(TOKEN, 3, LINES)
    portal.stub.replies[portal.download_path(TOKEN)] = cut(LINES[:60])
    assert "broke off" in str(await passing(portal))


async def test_a_download_that_ends_within_a_line_is_noticed(portal: PortalStub):
    portal.put(TOKEN, 4, LINES + LINES[:20])
    data = await read(portal)  # four lines came; the last one is none
    reader = LineReader()
    list(reader.feed(data))
    with pytest.raises(AnalysisError, match="incomplete"):
        list(reader.close())


async def test_an_error_in_place_of_the_last_record_is_a_fault(portal: PortalStub):
    error = b'{"detail":"[ERROR] Unknown exception: KeyError"}\n'
    portal.put(TOKEN, 4, LINES + error)
    assert "broke off" not in str(told := await passing(portal))
    assert "ends in an error after 3 records" in str(told)
    assert "KeyError" in str(told)


async def test_an_old_server_that_ends_with_its_connection_is_checked_by_the_count(portal: PortalStub):
    async def closing(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Connection": "close"})
        response.force_close()
        await response.prepare(request)
        await response.write(LINES)
        return response

    portal.put(TOKEN, 3, LINES)
    portal.stub.replies[portal.download_path(TOKEN)] = closing
    assert await read(portal) == LINES


async def test_gzip_of_the_transfer_is_taken_off(portal: PortalStub):
    portal.put(TOKEN, 3, LINES)
    portal.stub.put(
        portal.download_path(TOKEN), gzip.compress(LINES), content_type="text/plain", Content_Encoding="gzip"
    )
    assert await read(portal) == LINES


async def test_a_line_of_five_megabytes_passes(portal: PortalStub):
    body = jsonl([{"record_id": "P1.COI-5P", "nuc": "A" * 5_000_000}]) + LINES
    portal.put(TOKEN, 4, body)
    assert await read(portal) == body


async def test_a_download_that_drips_is_given_up_in_the_end(portal: PortalStub):
    ended = asyncio.Event()

    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while not ended.is_set():
            await response.write(LINES)
            await asyncio.sleep(0.01)
        return response

    portal.put(TOKEN, 1_000_000, LINES)
    portal.stub.replies[portal.download_path(TOKEN)] = drip
    error = await passing(portal, longest=0.1)
    ended.set()
    assert "of 1000000 records in time" in str(error)


async def test_a_portal_that_falls_silent_is_a_fault(portal: PortalStub):
    ended = asyncio.Event()

    async def silent(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(LINES)
        await ended.wait()
        return response

    portal.put(TOKEN, 4, LINES)
    portal.stub.replies[portal.download_path(TOKEN)] = silent
    with pytest.raises(Unavailable, match="broke off"):
        await read(portal, timeout=ClientTimeout(total=None, sock_read=0.1))
    ended.set()


# --- refusals and busy portals ---

UNKNOWN = json.dumps({"detail": "[ERROR] Unknown exception: incorrect header check"}).encode()


@pytest.mark.parametrize("token", ["nonsense", "eAFLysyz", "handle/42", "AAAA===="])
async def test_a_malformed_token_is_not_tried_for_hours(portal: PortalStub, token: str):
    portal.stub.put(portal.count_path(token), UNKNOWN, status=500, content_type="application/json")
    error = await fault(portal, Source(kind="set_token", value=token))
    assert isinstance(error, JobFailure)
    assert f"cannot read the set token {token!r}" in str(error)


async def test_an_error_of_the_portal_over_a_good_token_is_passing(portal: PortalStub):
    portal.stub.put(portal.count_path(TOKEN), UNKNOWN, status=500, content_type="application/json")
    error = await passing(portal)
    assert "500 Internal Server Error: [ERROR] Unknown exception" in str(error)


@pytest.mark.parametrize("at", ["count", "download"])
@pytest.mark.parametrize(
    ("body", "content_type", "words"),
    [
        (b'{"detail":"BOLD Portal API unavailable"}', "application/json", ": BOLD Portal API unavailable"),
        (b"<html><h1>Too many requests</h1></html>", "text/html", ": Too many requests"),
        (b"", "text/plain", ""),
    ],
)
async def test_a_busy_portal_is_left_alone_for_a_while(
    portal: PortalStub, at: str, body: bytes, content_type: str, words: str
):
    portal.put(TOKEN, 3, LINES)
    path = portal.count_path(TOKEN) if at == "count" else portal.download_path(TOKEN)
    portal.stub.put(path, body, status=503, content_type=content_type)
    error = await passing(portal)
    assert str(error) == f"the record store answered 503 Service Unavailable{words}"
    assert error.retry_after == 20
    portal.stub.put(path, body, status=503, content_type=content_type, Retry_After="90")
    assert (await passing(portal)).retry_after == 90


@pytest.mark.parametrize("at", ["count", "download"])
@pytest.mark.parametrize("body", [b"<html>Sign in</html>", b'{"detail":"busy"}'])
async def test_a_page_or_an_error_with_status_200_is_no_data(portal: PortalStub, at: str, body: bytes):
    portal.put(TOKEN, 3, LINES)
    path = portal.count_path(TOKEN) if at == "count" else portal.download_path(TOKEN)
    for content_type in ("text/plain", "text/html"):
        portal.stub.put(path, body, content_type=content_type)
        assert (await passing(portal)).retry_after == 20


async def test_a_query_that_does_not_validate_fails_the_job_with_the_portals_words(portal: PortalStub):
    detail = {"detail": [{"loc": ["path", "query_id"], "msg": "string too short", "type": "x"}]}
    portal.stub.put(
        portal.count_path(TOKEN), json.dumps(detail).encode(), status=422, content_type="application/json"
    )
    error = await fault(portal)
    assert isinstance(error, JobFailure)
    assert str(error).endswith("422 Unprocessable Entity: string too short")


# --- set up ---


async def test_the_settings_choose_the_portal_and_may_move_it(portal: PortalStub):
    portal.put(TOKEN, 3, LINES)
    settings = Settings(records_kind="bold-portal", records_url=f"{portal.url}/")
    async with open_record_store(settings) as store, store.open(CODE, KEY) as stream:
        assert b"".join([piece async for piece in stream.chunks()]) == LINES
        assert await store.check() == f"BOLD portal at {portal.stub.url} (public records, no key)"
    async with open_record_store(Settings(records_kind="bold-portal")) as store:
        assert isinstance(store, BoldPortal)


@pytest.mark.parametrize(
    "url", ["ftp://host/", "http://host/api?x=1", "http://host/{value}", "http://a:b@host"]
)
async def test_a_base_address_that_is_none_does_not_start(url: str):
    with pytest.raises(Misconfigured, match="AIOANALYSIS_RECORDS_URL: "):
        async with open_record_store(Settings(records_kind="bold-portal", records_url=url)):
            pass


def test_a_folder_and_a_store_of_bold_do_not_agree():
    with pytest.raises(Misconfigured, match="RECORDS_DIRECTORY cannot be set with AIOANALYSIS_RECORDS_KIND"):
        load(records_kind="bold-data", records_directory="x")
