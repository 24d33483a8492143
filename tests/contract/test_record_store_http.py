"""The HTTP record store: every reply that DOMAIN.md 2.5 names, and the submitter's key kept to itself."""

from __future__ import annotations

import asyncio
import gzip
import json
import traceback
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from aiohttp import ClientTimeout, web

from aioanalysis.domain.job import Source
from aioanalysis.domain.records import LineReader, Malformed, Truncated
from aioanalysis.errors import AnalysisError, JobFailure, Misconfigured, Unavailable
from aioanalysis.recordstore import HttpRecordStore
from aioanalysis.recordstore.http import Auth, checked_template
from aioanalysis.recordstore.transport import TIMEOUT, open_session
from tests.support.recordstub import RecordStub, raw_stub, record_stub
from tests.support.waiting import eventually

KEY = "key/0123456789+abcdef"
LINES = b'{"record_id":"P1.COI-5P"}\n{"record_id":"P2.COI-5P"}\n'
SOURCE = Source(kind="recordset", value="DS-ONE")
PATH = "/recordsets/DS-ONE/records"


@pytest.fixture
async def stub() -> AsyncIterator[RecordStub]:
    async with record_stub() as stub:
        yield stub


async def read(
    url: str, source: Source = SOURCE, *, auth: Auth = "bearer", timeout: ClientTimeout = TIMEOUT
) -> tuple[bytes, int | None]:
    async with open_session(timeout) as session:
        store = HttpRecordStore(session, url, auth)
        async with store.open(source, KEY) as stream:
            return b"".join([piece async for piece in stream.chunks()]), stream.announced


async def fault(url: str, **options: ClientTimeout) -> AnalysisError:
    """What reading raises; nothing of it, causes included, may hold the key."""
    with pytest.raises((JobFailure, Unavailable)) as caught:
        await read(url, **options)
    error: BaseException | None = caught.value
    while error is not None:
        told = f"{error!r} {error} {error.args} {''.join(traceback.format_exception(error))}"
        assert KEY not in told
        error = error.__cause__
    return caught.value


# --- what is asked ---


@pytest.mark.parametrize(
    ("template", "source", "path"),
    [
        ("{url}", SOURCE, PATH),
        ("{url}/", SOURCE, PATH),
        ("{url}/api/v1?format=jsonl", SOURCE, f"/api/v1{PATH}?format=jsonl"),
        ("{url}", Source(kind="set_token", value="eAF="), "/sets/eAF%3D/records"),
        ("{url}/recordsets/{{value}}/records.jsonl", SOURCE, "/recordsets/DS-ONE/records.jsonl"),
        ("{url}/{{kind}}?code={{value}}", SOURCE, "/recordsets?code=DS-ONE"),
        ("{url}", Source(kind="recordset", value="a/b ?#&%é..{kind}"), None),
    ],
)
async def test_the_address_is_made_from_the_template(
    stub: RecordStub, template: str, source: Source, path: str | None
):
    path = path or "/recordsets/a%2Fb%20%3F%23%26%25%C3%A9..%7Bkind%7D/records"
    stub.put(path, LINES)
    assert await read(template.format(url=stub.url), source) == (LINES, None)
    assert stub.paths == [path]


@pytest.mark.parametrize(
    ("auth", "header", "value"), [("bearer", "Authorization", f"Bearer {KEY}"), ("api-key", "api-key", KEY)]
)
async def test_the_key_goes_in_the_header_that_is_set(stub: RecordStub, auth: Auth, header: str, value: str):
    stub.put(PATH, LINES)
    await read(stub.url, auth=auth)
    (request,) = stub.asked
    assert request.headers[header] == value
    assert {"Authorization", "api-key"} & set(request.headers) == {header}
    assert request.headers["Accept"].startswith("application/x-ndjson")
    assert request.headers["Accept-Encoding"] == "gzip"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://host/",
        "host/records",
        "http://",
        "http://user:password@host/",
        "http://host:port/",
        "http://{value}.host/",
        "http://host/{source}/{value}",
        "http://host/{kind}",
        "http://host/{value",
        "http://host/a b",
        "http://[::1/",
    ],
)
def test_a_wrong_address_is_named_and_does_not_start(url: str):
    with pytest.raises(Misconfigured, match="AIOANALYSIS_RECORDS_URL: ") as error:
        checked_template(url)
    assert "password@" not in str(error.value)


@pytest.mark.parametrize("key", ["", "a b", "a\r\nX-Other: b", "schlüssel", "\0"])
async def test_a_key_that_no_header_can_carry_fails_the_job_unsent(stub: RecordStub, key: str):
    async with open_session() as session:
        with pytest.raises(JobFailure, match="cannot be sent in an HTTP header") as failure:
            async with HttpRecordStore(session, stub.url, "bearer").open(SOURCE, key):
                pass
    assert not key or key not in failure.value.text
    assert stub.asked == []


def test_a_reply_may_last_but_neither_connecting_nor_a_pause():
    assert (TIMEOUT.total, TIMEOUT.connect, TIMEOUT.sock_read) == (None, 5, 60)


# --- records ---


@pytest.mark.parametrize("name", ["X-Total-Count", "X-Record-Count", "x-total-count"])
async def test_an_announced_count_is_told(stub: RecordStub, name: str):
    stub.put(PATH, LINES, **{name: "2"})
    assert await read(stub.url) == (LINES, 2)


@pytest.mark.parametrize("value", ["", "-1", "many", "1.5", "²", "9" * 30])
async def test_a_count_that_is_none_is_not_told(stub: RecordStub, value: str):
    stub.put(PATH, LINES, X_Total_Count=value)
    assert await read(stub.url) == (LINES, None)


@pytest.mark.parametrize("layers", [0, 1, 2])
async def test_gzip_is_taken_off_whether_of_the_transfer_the_file_or_both(stub: RecordStub, layers: int):
    body = LINES
    for _ in range(layers):
        body = gzip.compress(body)
    stub.put(PATH, body)
    assert (await read(stub.url))[0] == LINES
    if layers:
        stub.put(PATH, body, Content_Encoding="gzip")
        assert (await read(stub.url))[0] == LINES


async def test_carriage_returns_and_a_line_of_five_megabytes_pass(stub: RecordStub):
    body = b'{"nuc":"' + b"A" * 5_000_000 + b'"}\r\n{}\r\n'
    stub.put(PATH, body)
    data, _ = await read(stub.url)
    assert data == body
    assert len(list(LineReader().feed(data))) == 2


async def test_duplicate_records_pass_as_they_are(stub: RecordStub):
    stub.put(PATH, LINES * 2)
    assert (await read(stub.url))[0] == LINES * 2


async def test_no_content_is_an_empty_set(stub: RecordStub):
    stub.put(PATH, status=204)
    assert await read(stub.url) == (b"", None)


async def test_records_are_passed_on_while_the_reply_still_comes(stub: RecordStub):
    passed = asyncio.Event()

    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for part in (LINES[:10], LINES[10:30], LINES[30:]):
            await response.write(part)
            if part == LINES[10:30]:
                await passed.wait()
        return response

    stub.replies[PATH] = drip
    data = b""
    async with (
        asyncio.timeout(5),
        open_session() as session,
        HttpRecordStore(session, stub.url, "bearer").open(SOURCE, KEY) as stream,
    ):
        async for piece in stream.chunks():
            data += piece
            passed.set()
    assert data == LINES


async def test_a_reply_left_early_gives_its_connection_up(stub: RecordStub):
    stub.put(PATH, LINES * 500_000)
    async with open_session() as session:
        store = HttpRecordStore(session, stub.url, "bearer")
        for _ in range(5):
            async with store.open(SOURCE, KEY) as stream:
                await anext(aiter(stream.chunks()))
        assert session.connector is not None
        await eventually(lambda: not session.connector._acquired)


# --- refusals ---


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 410, 422, 451])
async def test_a_refusal_fails_the_job_with_the_stores_own_words(stub: RecordStub, status: int):
    stub.put(PATH, b'{"detail":"No access to DS-ONE."}', status=status)
    error = await fault(stub.url)
    assert isinstance(error, JobFailure)
    assert error.reason == "records"
    assert str(error).startswith(f"the record store answered {status} ")
    assert str(error).endswith(": No access to DS-ONE.")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", ""),
        (b"just\n  text", ": just text"),
        (b'{"message":"a","other":1}', ": a"),
        (b'{"error":{"message":"deep"}}', ": deep"),
        (b'{"detail":[{"loc":["query"],"msg":"too short","type":"x"},{"msg":"b"}]}', ": too short; b"),
        (b'{"other":1}', ': {"other": 1}'),
        (b'"text"', ": text"),
        (b"\xff\xfe", ": \ufffd\ufffd"),
        (
            b"<html><head><title>T</title></head><body><script>x<1</script><h1>Not&nbsp;here</h1>&lt;p></body>",
            ": Not here <p>",
        ),
        (b"x" * 5000, ": " + "x" * 500),
        (gzip.compress(b"zipped words"), ": zipped words"),
        (b"\x1f\x8bnot gzip", ""),
    ],
)
async def test_the_stores_words_are_those_for_people(stub: RecordStub, body: bytes, words: str):
    stub.put(PATH, body, status=404)
    assert str(await fault(stub.url)) == f"the record store answered 404 Not Found{words}"


async def test_a_key_that_the_store_repeats_is_taken_out(stub: RecordStub):
    said = f"{'x' * 490} {KEY} is wrong, key%2F0123456789%2Babcdef too"
    stub.put(PATH, json.dumps({"detail": said}).encode(), status=401)
    text = str(await fault(stub.url))
    assert text.endswith("x *** is wr")
    stub.put(PATH, json.dumps({"detail": said}).encode())
    assert "***" in str(await fault(stub.url))


@pytest.mark.parametrize("status", [202, 206, 300, 304, 408, 425, 429, 500, 502, 503, 504, 599])
async def test_what_is_passing_is_tried_again(stub: RecordStub, status: int):
    stub.put(PATH, b"<h1>Busy</h1>", status=status, Retry_After="17")
    error = await fault(stub.url)
    assert isinstance(error, Unavailable)
    assert error.retry_after == 17
    assert str(error).startswith(f"the record store answered {status}")


@pytest.mark.parametrize(
    ("value", "least", "most"),
    [
        (lambda now: format_datetime(now + timedelta(hours=1), usegmt=True), 3500, 3600),
        (lambda now: format_datetime((now + timedelta(hours=1)).replace(tzinfo=None)), 3500, 3600),
        (lambda now: format_datetime(now - timedelta(hours=1), usegmt=True), 0, 0),
        (lambda now: "99999999999", 86400, 86400),
        (lambda now: format_datetime(now + timedelta(days=300), usegmt=True), 86400, 86400),
        (lambda now: "0", 0, 0),
    ],
    ids=["date", "date without zone", "date that is over", "too many seconds", "date far off", "none"],
)
async def test_retry_after_is_seconds_or_a_date(
    stub: RecordStub, value: Callable[[datetime], str], least: float, most: float
):
    stub.put(PATH, status=503, Retry_After=value(datetime.now(UTC)))
    error = await fault(stub.url)
    assert isinstance(error, Unavailable)
    assert error.retry_after is not None
    assert least <= error.retry_after <= most


@pytest.mark.parametrize("value", ["soon", "-5", "1.5", "²", "", "Mon, 99 Foo 2026 00:00:00 GMT"])
async def test_a_retry_after_that_is_none_is_not_told(stub: RecordStub, value: str):
    stub.put(PATH, status=503, Retry_After=value)
    error = await fault(stub.url)
    assert isinstance(error, Unavailable)
    assert error.retry_after is None


async def test_a_store_busy_once_is_read_at_the_next_try(stub: RecordStub):
    stub.put(PATH, b"<html>down</html>", status=503, content_type="text/html")
    assert isinstance(await fault(stub.url), Unavailable)
    stub.put(PATH, LINES)
    assert (await read(stub.url))[0] == LINES


# --- status 200, and no records ---


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"<!doctype html><p>Please sign in", "text/html; charset=utf-8"),
        (b"", "text/html"),
        (b"\xef\xbb\xbf\n  <html>", "application/json"),
        (gzip.compress(b"<html>"), "application/x-ndjson"),
        (b"<?xml version='1.0'?>", "text/plain"),
        (b'{"detail":"Service is busy"}', "application/json"),
        (b'{"detail":"Service is busy"}\n', "application/x-ndjson"),
        (b'{\n  "error": "busy",\n  "status": 500\n}\n', "application/json"),
        (b'{"detail":"Service is busy"}\n{"record_id":"P1"}\n', "application/x-ndjson"),
    ],
)
async def test_a_page_or_an_error_with_status_200_is_a_fault_and_never_data(
    stub: RecordStub, body: bytes, content_type: str
):
    stub.put(PATH, body, content_type=content_type)
    error = await fault(stub.url)
    assert isinstance(error, Unavailable)
    assert "instead of records" in str(error)


@pytest.mark.parametrize(
    "body", [b"{}\n", b'{"detail":"x","processid":"P1"}\n', b'{"title":"x","record_id":1}']
)
async def test_a_record_that_resembles_an_error_is_a_record(stub: RecordStub, body: bytes):
    stub.put(PATH, body)
    assert (await read(stub.url))[0] == body


async def test_an_error_over_several_lines_is_told_by_its_line(stub: RecordStub):
    stub.put(PATH, LINES + b"Fatal error: memory\n")
    data, _ = await read(stub.url)
    with pytest.raises(Malformed, match=r"line 3: not JSON .* 'Fatal error: memory'"):
        list(LineReader().feed(data))


async def test_an_encoding_not_asked_for_is_a_fault(stub: RecordStub):
    stub.put(PATH, LINES, Content_Encoding="zstd")
    assert "encoding not asked for: 'zstd'" in str(await fault(stub.url))


# --- broken replies ---

OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "reply",
    [
        OK + b"Content-Length: 1000\r\n\r\n" + LINES,
        OK + b"Content-Length: 1000\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n1a\r\n" + LINES[:26] + b"\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + LINES,
        OK + b"Content-Length: 30\r\n\r\n" + gzip.compress(LINES)[:30],
        OK + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(LINES)[:30],
        OK + b"\r\n" + LINES,
        OK + b"\r\n",
        b"",
        b"no HTTP at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nBroken header\r\n\r\n",
    ],
)
async def test_a_reply_that_breaks_off_or_may_have_is_a_fault(reply: bytes):
    async with raw_stub(reply) as url:
        assert isinstance(await fault(url), Unavailable)


@pytest.mark.parametrize(
    "reply",
    [
        OK + b"X-Total-Count: 2\r\n\r\n" + LINES,
        OK + b"\r\n" + gzip.compress(LINES),
        OK + b"Transfer-Encoding: chunked\r\n\r\n34\r\n" + LINES + b"\r\n0\r\n\r\n",
    ],
)
async def test_a_reply_that_tells_its_end_is_whole(reply: bytes):
    assert len(LINES) == 0x34
    async with raw_stub(reply) as url:
        assert (await read(url))[0] == LINES


async def test_a_last_line_cut_off_within_a_whole_reply_is_noticed_by_the_reader(stub: RecordStub):
    stub.put(PATH, LINES[:-5])
    reader = LineReader()
    assert len(list(reader.feed((await read(stub.url))[0]))) == 1
    with pytest.raises(Truncated):
        list(reader.close())


async def test_a_refusal_whose_words_break_off_is_still_a_refusal():
    async with raw_stub(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 99\r\n\r\nnot yours") as url:
        error = await fault(url)
    assert isinstance(error, JobFailure)
    assert str(error) == "the record store answered 403 Forbidden: not yours"


async def test_a_store_that_is_not_there_is_tried_again(unused_port: int):
    error = await fault(f"http://127.0.0.1:{unused_port}")
    assert str(error) == f"the record store at http://127.0.0.1:{unused_port} cannot be reached"


@pytest.fixture
async def unused_port() -> int:
    async with raw_stub(b"") as url:
        return int(url.rpartition(":")[2])


@pytest.mark.parametrize("begun", [False, True])
async def test_a_store_that_falls_silent_is_tried_again(stub: RecordStub, begun: bool):
    ended = asyncio.Event()

    async def silent(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if begun:
            await response.prepare(request)
            await response.write(LINES)
        await ended.wait()
        return response

    stub.replies[PATH] = silent
    error = await fault(stub.url, timeout=ClientTimeout(total=None, sock_read=0.1))
    ended.set()
    assert isinstance(error, Unavailable)
    assert ("broke off" if begun else "did not answer") in str(error)


# --- redirects ---


async def test_the_key_follows_a_redirect_within_the_store_and_no_further(stub: RecordStub):
    async with record_stub() as other:
        stub.put(PATH, status=302, Location="/moved?x=1")
        stub.put("/moved?x=1", status=307, Location=f"{other.url}/signed%2Fpath?sig=a%2Bb")
        other.put("/signed%2Fpath?sig=a%2Bb", status=301, Location=f"{stub.url}/back")
        stub.put("/back", LINES)
        for auth, header in (("bearer", "Authorization"), ("api-key", "api-key")):
            assert (await read(stub.url, auth=auth))[0] == LINES
            first, second, back = stub.asked
            (elsewhere,) = other.asked
            assert header in first.headers
            assert header in second.headers
            assert header not in elsewhere.headers
            assert header not in back.headers
            stub.asked.clear()
            other.asked.clear()


@pytest.mark.parametrize("location", ["ftp://host/x", "http://[::1/", "javascript:x", "http://"])
async def test_a_redirect_to_no_address_is_a_fault(stub: RecordStub, location: str):
    stub.put(PATH, status=302, Location=location)
    assert isinstance(await fault(stub.url), Unavailable)


async def test_redirects_in_a_circle_end(stub: RecordStub):
    stub.put(PATH, status=302, Location=PATH)
    assert "redirected more than 5 times" in str(await fault(stub.url))
    assert len(stub.asked) == 6


async def test_a_cookie_of_one_submitter_is_not_sent_for_another(stub: RecordStub):
    stub.put(PATH, LINES, Set_Cookie="session=ana; Path=/")
    async with open_session() as session:
        store = HttpRecordStore(session, stub.url, "bearer")
        for key in ("ana-key", "ben-key"):
            async with store.open(SOURCE, key) as stream:
                assert [piece async for piece in stream.chunks()]
    assert "Cookie" not in stub.asked[1].headers
    assert stub.asked[1].headers["Authorization"] == "Bearer ben-key"


# --- check ---


async def test_check_takes_any_answer_and_sends_no_key(stub: RecordStub, unused_port: int):
    async with open_session() as session:
        told = await HttpRecordStore(session, f"{stub.url}/api/{{value}}", "api-key").check()
        assert told == f"record store at {stub.url} (api-key)"
        assert stub.paths == ["/"]
        assert not {"Authorization", "api-key"} & set(stub.asked[0].headers)
        with pytest.raises(Unavailable, match="cannot be reached"):
            await HttpRecordStore(session, f"http://127.0.0.1:{unused_port}", "bearer").check()
