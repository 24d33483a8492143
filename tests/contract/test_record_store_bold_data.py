"""data.boldsystems.org as a record store: every reply that DOMAIN.md 2.2 and 2.5 name."""

from __future__ import annotations

import asyncio
import gzip
import json
import traceback
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from aioanalysis.domain.job import Source
from aioanalysis.errors import AnalysisError, JobFailure, Unavailable
from aioanalysis.recordstore import BoldData, open_record_store
from aioanalysis.recordstore.transport import open_session
from aioanalysis.settings import Settings
from tests.support.boldstubs import BOLD_KEY, DataStub, cut, data_stub, jsonl, reply

CODE = Source(kind="recordset", value="DS-ONE")
SETS = "/api/sets/create?dataset_codes=DS-ONE"
SET_IDS = "/api/sets/retrieve/tok%2FDS-ONE%3D?check_exists=false"


def record(n: int, marker: str = "COI-5P") -> dict[str, object]:
    name = f"AAA{n}-26"
    return {"processid": name, "record_id": f"{name}.{marker}", "marker_code": marker}


THREE = [record(1), record(2), record(2, "16S")]


@pytest.fixture
async def api() -> AsyncIterator[DataStub]:
    async with data_stub() as api:
        api.add("DS-ONE", THREE)
        yield api


async def read(
    api: DataStub,
    spool: Path,
    source: Source = CODE,
    *,
    key: str = BOLD_KEY,
    longest: float = 60,
    page_seconds: float = 60,
    first_pause: float = 0,
) -> bytes:
    async with open_session() as session:
        store = BoldData(
            session, api.url, spool=spool, longest=longest, page_seconds=page_seconds, first_pause=first_pause
        )
        async with store.open(source, key) as stream:
            assert stream.announced is None
            return b"".join([piece async for piece in stream.chunks()])


async def fault(api: DataStub, spool: Path, source: Source = CODE, **options: float) -> AnalysisError:
    """What reading raises; nothing of it, causes included, may hold the key."""
    with pytest.raises((JobFailure, Unavailable)) as caught:
        await read(api, spool, source, **options)
    error: BaseException | None = caught.value
    while error is not None:
        assert BOLD_KEY not in f"{error!r} {error.args} {''.join(traceback.format_exception(error))}"
        error = error.__cause__
    return caught.value


# --- what is asked ---


@pytest.mark.parametrize(
    ("code", "parameter"),
    [
        ("DS-TWO", "dataset_codes"),
        ("DATASET-ONE", "dataset_codes"),
        ("GMFID", "project_codes"),
        ("BOLD:AAA1234", "bin_uris"),
    ],
)
async def test_a_code_is_asked_for_by_its_kind(api: DataStub, tmp_path: Path, code: str, parameter: str):
    api.add(code, [record(7)])
    assert await read(api, tmp_path, Source(kind="recordset", value=code)) == jsonl([record(7)])
    assert api.by == [parameter]


async def test_a_set_token_is_asked_for_as_it_is(api: DataStub, tmp_path: Path):
    source = Source(kind="set_token", value="tok/DS-ONE=")
    assert await read(api, tmp_path, source) == jsonl(THREE)
    assert api.stub.paths[0] == SET_IDS
    assert api.by == []


async def test_every_call_has_the_key_and_no_other_header_of_one(api: DataStub, tmp_path: Path):
    await read(api, tmp_path)
    assert [request.method for request in api.stub.asked] == ["GET", "GET", "POST"]
    for request in api.stub.asked:
        assert request.headers["api-key"] == BOLD_KEY
        assert request.headers["Accept"] == "application/json"
        assert "Authorization" not in request.headers


@pytest.mark.parametrize("key", ["aak_secret", "", f"{BOLD_KEY} ", f"{BOLD_KEY}\r\nX: y", BOLD_KEY[:-1]])
async def test_a_key_that_is_none_of_bolds_is_not_sent_there(api: DataStub, tmp_path: Path, key: str):
    with pytest.raises(JobFailure, match="none of BOLD's") as failure:
        await read(api, tmp_path, key=key)
    assert not key.strip() or key not in str(failure.value)
    assert api.stub.asked == []


@pytest.mark.parametrize(
    "source",
    [
        Source(kind="recordset", value="DS-A,DS-B"),
        Source(kind="recordset", value="DS-A&bin_uris=BOLD:AAA1234"),
        Source(kind="recordset", value=""),
        Source(kind="set_token", value=".."),
        Source(kind="set_token", value="a b"),
        Source(kind="attached"),
    ],
)
async def test_what_cannot_be_asked_fails_the_job_unasked(api: DataStub, tmp_path: Path, source: Source):
    assert isinstance(await fault(api, tmp_path, source), JobFailure)
    assert api.stub.asked == []


async def test_ids_go_in_batches_of_five_thousand_each_once(api: DataStub, tmp_path: Path):
    api.add("BIG", (record(n) for n in range(10, 12_010)))
    api.sets["BIG"] += api.sets["BIG"][:100]
    data = await read(api, tmp_path, Source(kind="recordset", value="BIG"))
    assert [len(asked.ids) for asked in api.asked] == [5000, 5000, 2000]
    assert data == jsonl(record(n) for n in range(10, 12_010))


@pytest.mark.parametrize(
    "shape",
    [
        lambda ids: json.dumps({"records": ids}).encode(),
        lambda ids: json.dumps(ids, indent=1).encode(),
        lambda ids: b"\n".join(json.dumps(name).encode() for name in ids),
        lambda ids: jsonl({"processid": name} for name in ids),
        lambda ids: json.dumps({"records": [f"{name}.COI-5P" for name in ids]}).encode(),
        lambda ids: json.dumps({"records": [f"{n}.{m}" for n in ids for m in ("COI-5P", "16S")]}).encode(),
    ],
)
async def test_process_ids_are_understood_however_they_come(api: DataStub, tmp_path: Path, shape: object):
    assert callable(shape)
    api.ids_reply = shape
    assert await read(api, tmp_path) == jsonl(THREE)
    assert api.asked[0].ids == ["AAA1-26", "AAA2-26"]


# --- pages ---


async def test_a_full_page_is_followed_by_the_next_and_duplicates_across_pages_go(
    api: DataStub, tmp_path: Path
):
    markers = [f"M{n}" for n in range(12)]
    many = [record(n, marker) for n in range(10, 1010) for marker in markers]
    api.add("MITO", many)
    first = {**record(10, "M0"), "notes": "kept"}
    overlap = jsonl([first, *many[1:10_000]]), jsonl(many[9_990:])
    api.instead = [reply(body) for body in overlap]
    with capture_logs() as logs:
        data = await read(api, tmp_path, Source(kind="recordset", value="MITO"))
    assert [asked.offset for asked in api.asked] == [0, 10_000]
    assert data == jsonl([first, *many[1:]])
    (told,) = [entry for entry in logs if entry["event"] == "bold_data_received"]
    assert (told["asked"], told["records"], told["duplicates"], told["missing"]) == (1000, 12_000, 10, 0)


async def test_of_records_without_an_id_only_equal_lines_are_duplicates(api: DataStub, tmp_path: Path):
    bare = [{"processid": "AAA1-26"}, {"processid": "AAA1-26", "notes": "x"}, {"processid": "AAA1-26"}]
    api.instead = [reply(jsonl(bare))]
    assert await read(api, tmp_path) == jsonl(bare[:2])


async def test_a_server_that_sends_the_same_page_for_ever_is_left(api: DataStub, tmp_path: Path):
    page = jsonl(record(n) for n in range(10_000))
    api.instead = [reply(page) for _ in range(3)]
    assert "the same page again at offset 10000" in str(await fault(api, tmp_path))
    assert len(api.asked) == 2


async def test_ids_without_records_are_counted_and_named(api: DataStub, tmp_path: Path):
    api.sets["DS-ONE"] += [f"GONE{n}-26" for n in range(30)]
    with capture_logs() as logs:
        assert await read(api, tmp_path) == jsonl(THREE)
    (told,) = [entry for entry in logs if entry["event"] == "bold_data_received"]
    assert (told["asked"], told["records"], told["missing"]) == (32, 3, 30)
    assert told["missing_ids"] == [f"GONE{n}-26" for n in range(20)]


async def test_ids_but_not_one_record_fail_the_job(api: DataStub, tmp_path: Path):
    api.sets["DS-ONE"] = ["GONE1-26", "GONE2-26"]
    error = await fault(api, tmp_path)
    assert isinstance(error, JobFailure)
    assert "any of the set's 2 samples" in str(error)


async def test_a_set_of_no_ids_is_an_empty_set(api: DataStub, tmp_path: Path):
    api.sets["DS-ONE"] = []
    assert await read(api, tmp_path) == b""
    assert api.asked == []


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (jsonl(THREE).rstrip(b"\n"), jsonl(THREE)),
        (jsonl(THREE).replace(b"\n", b"\r\n"), jsonl(THREE)),
        (b"\xef\xbb\xbf" + jsonl(THREE), jsonl(THREE)),
        (gzip.compress(jsonl(THREE)), jsonl(THREE)),
        (jsonl([{**THREE[0], "nuc": "A" * 5_000_000}]), jsonl([{**THREE[0], "nuc": "A" * 5_000_000}])),
    ],
)
async def test_pages_come_in_many_forms(api: DataStub, tmp_path: Path, body: bytes, kept: bytes):
    api.instead = [reply(body, content_type="application/x-ndjson")]
    assert await read(api, tmp_path) == kept


async def test_nothing_is_left_in_the_spool(api: DataStub, tmp_path: Path):
    await read(api, tmp_path / "spool")
    assert left_in(tmp_path / "spool") == []


# --- faults that pass ---


@pytest.mark.parametrize(
    "bad",
    [
        reply(b"<html>busy</html>", status=503, content_type="text/html"),
        reply(b"", status=429, Retry_After="0"),
        reply(b"", status=500),
        reply(b"", status=502),
        reply(b"", status=504),
        reply(b"<html>Please wait</html>", content_type="text/html"),
        reply(b'{"detail":"Service is busy"}'),
        reply(jsonl(THREE)[:-20]),
        reply(jsonl(THREE) + b'{"detail":"timed out"}\n'),
        reply(jsonl(THREE) + b"Fatal error: memory\n"),
        cut(jsonl(THREE)),
        cut(jsonl(THREE)[:-20]),
    ],
)
async def test_a_page_that_failed_is_asked_for_again_and_nothing_of_it_is_kept(
    api: DataStub, tmp_path: Path, bad: web.RequestHandler
):
    api.instead = [bad, bad]  # type: ignore[list-item]
    assert await read(api, tmp_path) == jsonl(THREE)
    assert [asked.offset for asked in api.asked] == [0, 0, 0]


async def test_a_store_busy_for_good_is_left_to_the_scheduler(api: DataStub, tmp_path: Path):
    api.instead = [reply(b"", status=503, Retry_After="1") for _ in range(9)]
    error = await fault(api, tmp_path, longest=0.5)
    assert "did not send all records within 0 s: the record store answered 503" in str(error)
    api.instead = [reply(b"", status=503) for _ in range(9)]
    error = await fault(api, tmp_path)
    assert isinstance(error, Unavailable)
    assert len(api.instead) == 4


async def test_a_long_pause_is_left_to_the_scheduler(api: DataStub, tmp_path: Path):
    api.instead = [reply(b"", status=429, Retry_After="300")]
    error = await fault(api, tmp_path)
    assert isinstance(error, Unavailable)
    assert error.retry_after == 300
    assert len(api.asked) == 1


async def test_pauses_grow(api: DataStub, tmp_path: Path):
    api.instead = [reply(b"", status=503) for _ in range(3)]
    loop = asyncio.get_running_loop()
    begun = loop.time()
    assert await read(api, tmp_path, first_pause=0.02) == jsonl(THREE)
    assert loop.time() - begun >= 0.02 + 0.04 + 0.08


async def test_lines_that_stay_bad_fail_the_job_and_are_named(api: DataStub, tmp_path: Path):
    api.instead = [reply(jsonl(THREE) + b"{oops}\n") for _ in range(9)]
    error = await fault(api, tmp_path)
    assert isinstance(error, JobFailure)
    assert "line 4: not JSON" in str(error)


@pytest.mark.parametrize("end", [jsonl(THREE)[:20], jsonl([{"detail": f"{BOLD_KEY} timed out"}])])
async def test_a_page_that_always_ends_early_is_left_to_the_scheduler(
    api: DataStub, tmp_path: Path, end: bytes
):
    api.instead = [reply(jsonl(THREE) + end) for _ in range(9)]
    assert isinstance(await fault(api, tmp_path), Unavailable)


async def test_a_page_that_drips_is_given_up(api: DataStub, tmp_path: Path):
    ended = asyncio.Event()

    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while not ended.is_set():
            await response.write(b" ")
            await asyncio.sleep(0.01)
        return response

    api.instead = [drip] * 9
    error = await fault(api, tmp_path, page_seconds=0.05)
    ended.set()
    assert "took too long" in str(error)


async def test_a_reader_that_is_cancelled_ends_at_once_and_leaves_no_file(api: DataStub, tmp_path: Path):
    begun, ended = asyncio.Event(), asyncio.Event()

    async def silent(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(jsonl(THREE))
        begun.set()
        await ended.wait()
        return response

    api.instead = [silent]
    task = asyncio.create_task(read(api, tmp_path))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    ended.set()
    assert left_in(tmp_path) == []


# --- refusals ---


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
@pytest.mark.parametrize("at", ["set", "ids", "records"])
async def test_a_refusal_fails_the_job_at_once(api: DataStub, tmp_path: Path, at: str, status: int):
    bad = reply(json.dumps({"detail": f"Key {BOLD_KEY} may not."}).encode(), status=status)
    if at == "records":
        api.instead = [bad]
    else:
        answers(api, SETS if at == "set" else SET_IDS, bad)
    error = await fault(api, tmp_path)
    assert isinstance(error, JobFailure)
    assert str(error).endswith(": Key *** may not.")
    assert len(api.stub.asked) == {"set": 1, "ids": 2, "records": 3}[at]


@pytest.mark.parametrize("path", [SETS, SET_IDS])
async def test_what_bold_knows_no_set_of_fails_the_job_with_its_words(
    api: DataStub, tmp_path: Path, path: str
):
    answers(api, path, reply(b'{"detail":"No records for DS-ONE"}'))
    error = await fault(api, tmp_path)
    assert isinstance(error, JobFailure)
    assert "no such set: No records for DS-ONE" in str(error)


@pytest.mark.parametrize("path", [SETS, SET_IDS])
@pytest.mark.parametrize(
    "body", [b"<html>", b"not JSON", b'{"token":7}', b'{"a":[1],"b":[2]}', b'["a b"]', b"[null]", b'{"x":1}']
)
async def test_an_answer_of_another_shape_is_a_fault(api: DataStub, tmp_path: Path, path: str, body: bytes):
    answers(api, path, reply(body))
    error = await fault(api, tmp_path)
    assert isinstance(error, Unavailable)


@pytest.mark.parametrize("path", [SETS, SET_IDS])
async def test_a_call_for_ids_is_made_again_too(api: DataStub, tmp_path: Path, path: str):
    answers(api, path, reply(b"", status=503), times=2)
    assert await read(api, tmp_path) == jsonl(THREE)


async def test_ids_are_not_sent_on_to_where_a_redirect_points(api: DataStub, tmp_path: Path):
    api.instead = [reply(b"", status=307, Location="/elsewhere")] * 5
    assert "redirects what is sent" in str(await fault(api, tmp_path))
    assert not any("elsewhere" in path for path in api.stub.paths)


# --- set up ---


async def test_the_settings_choose_the_api_and_may_move_it(api: DataStub, tmp_path: Path):
    settings = Settings(records_kind="bold-data", records_url=api.url, data_dir=tmp_path)
    async with open_record_store(settings) as store, store.open(CODE, BOLD_KEY) as stream:
        assert b"".join([piece async for piece in stream.chunks()]) == jsonl(THREE)
        assert await store.check() == f"BOLD data API at {api.stub.url} (api-key)"
    assert "api-key" not in api.stub.asked[-1].headers
    async with open_record_store(Settings(records_kind="bold-data")) as store:
        assert isinstance(store, BoldData)


def answers(api: DataStub, path: str, bad: object, *, times: int | None = None) -> None:
    """Have the stub answer `path` with `bad`, `times` times or for good."""
    usual, left = api.stub.answer_all, [times]
    assert usual is not None
    assert callable(bad)

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.raw_path != path or left[0] == 0:
            return await usual(request)
        left[0] = None if left[0] is None else left[0] - 1
        api.stub.asked.append(request)
        response = await bad(request)
        assert isinstance(response, web.StreamResponse)
        return response

    api.stub.answer_all = answer


def left_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())
