"""The suite of the RecordStore Protocol, over each of them; then what the folder has of its own."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from aioanalysis.domain.job import Source
from aioanalysis.errors import JobFailure, Misconfigured, Unavailable
from aioanalysis.interfaces import RecordStore
from aioanalysis.recordstore import BoldData, BoldPortal, NoRecordStore, open_record_store
from aioanalysis.recordstore.pieces import PIECE_BYTES
from aioanalysis.recordstore.transport import open_session
from aioanalysis.settings import Settings
from tests.support.boldstubs import BOLD_KEY, data_stub, jsonl, portal_stub
from tests.support.recordstub import record_stub

KEY = BOLD_KEY  # a UUID: BOLD's store takes no other


def lines(count: int) -> bytes:
    ids = (f"P{n}-26" for n in range(count))
    return jsonl({"processid": name, "record_id": f"{name}.COI-5P"} for name in ids)


LINES = lines(1000)
MANY = lines(12_000)


def record_count(data: bytes) -> int:
    """The records in `data`, plain or gzip; a damaged set has some."""
    if not data.startswith(b"\x1f\x8b"):
        return data.count(b"\n")
    try:
        return gzip.decompress(data).count(b"\n")
    except (OSError, EOFError):
        return 1


class Parts:
    """A store and the way to put a record set into it."""

    def __init__(self, store: RecordStore, put: Callable[[str, bytes, bool], None]) -> None:
        self.store = store
        self.put = put


@pytest.fixture(params=["http", "directory", "bold-portal", "bold-data"])
async def parts(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Parts]:
    async with AsyncExitStack() as stack:
        if request.param == "bold-portal":
            portal = await stack.enter_async_context(portal_stub())
            session = await stack.enter_async_context(open_session())

            def put(code: str, data: bytes, zipped: bool) -> None:
                portal.put_code(code, record_count(data), data)

            yield Parts(BoldPortal(session, portal.url, call_seconds=0), put)
            return
        if request.param == "bold-data":
            api = await stack.enter_async_context(data_stub())
            session = await stack.enter_async_context(open_session())

            def put(code: str, data: bytes, zipped: bool) -> None:
                api.put(code, data, empty=not record_count(data))

            yield Parts(BoldData(session, api.url, spool=tmp_path, first_pause=0), put)
            return
        if request.param == "directory":
            settings = Settings(records_directory=tmp_path)

            def put(code: str, data: bytes, zipped: bool) -> None:
                (tmp_path / f"{code}.jsonl{'.gz' if zipped else ''}").write_bytes(data)
        else:
            stub = await stack.enter_async_context(record_stub())
            settings = Settings(records_url=stub.url)

            def put(code: str, data: bytes, zipped: bool) -> None:
                # As a store that sends its file as it is: gzip, and nothing in the headers that says so.
                stub.put(f"/recordsets/{code}/records", data)

        yield Parts(await stack.enter_async_context(open_record_store(settings)), put)


def recordset(code: str) -> Source:
    return Source(kind="recordset", value=code)


async def read(store: RecordStore, code: str, key: str = KEY) -> bytes:
    async with store.open(recordset(code), key) as stream:
        return b"".join([piece async for piece in stream.chunks()])


async def test_records_come_as_they_are_stored(parts: Parts):
    parts.put("DS-ONE", LINES, False)
    assert await read(parts.store, "DS-ONE") == LINES


async def test_gzipped_records_come_decompressed(parts: Parts):
    parts.put("DS-ONE", gzip.compress(LINES), True)
    assert await read(parts.store, "DS-ONE") == LINES


async def test_gzip_of_several_members_and_padding_is_one_set(parts: Parts):
    half = len(LINES) // 2
    parts.put("DS-ONE", gzip.compress(LINES[:half]) + gzip.compress(LINES[half:]) + bytes(512), True)
    assert await read(parts.store, "DS-ONE") == LINES


async def test_an_empty_set_is_no_error(parts: Parts):
    parts.put("DS-NONE", b"", False)
    parts.put("DS-ZIPPED", gzip.compress(b""), True)
    assert await read(parts.store, "DS-NONE") == b""
    assert await read(parts.store, "DS-ZIPPED") == b""


@pytest.mark.parametrize("cut", [1, 8, 500])
async def test_gzip_that_ends_early_is_never_a_shorter_set(parts: Parts, cut: int):
    parts.put("DS-CUT", gzip.compress(LINES)[:-cut], True)
    with pytest.raises((JobFailure, Unavailable), match="ends early"):
        await read(parts.store, "DS-CUT")


@pytest.mark.parametrize("damage", ["flip", "junk after it"])
async def test_damaged_gzip_is_never_data(parts: Parts, damage: str):
    data = bytearray(gzip.compress(LINES))
    if damage == "flip":
        data[-5] ^= 1  # in the checksum
    else:
        data += b"junk"
    parts.put("DS-BAD", bytes(data), True)
    with pytest.raises((JobFailure, Unavailable), match="damaged gzip"):
        await read(parts.store, "DS-BAD")


@pytest.mark.parametrize(
    "code", ["NO-SUCH", "..", ".", "", "../etc/passwd", "a/b", "a\0b", "a\nb", "é", "\ud800"]
)
async def test_an_unknown_or_impossible_code_fails_the_job(parts: Parts, code: str):
    with pytest.raises(JobFailure) as failure:
        await read(parts.store, code)
    assert failure.value.reason == "records"
    assert len(failure.value.text.encode()) < 1000


async def test_attached_records_are_not_read_from_a_store(parts: Parts):
    with pytest.raises(JobFailure):
        async with parts.store.open(Source(kind="attached"), KEY):
            pass


async def test_a_large_set_passes_in_small_pieces_and_little_memory(parts: Parts):
    large = b"".join(jsonl([{"record_id": f"P{n}", "nuc": "ACGT" * 250_000}]) for n in range(64))
    whole = len(large)
    parts.put("DS-LARGE", gzip.compress(large, 1), True)
    del large
    tracemalloc.start()
    size = largest = 0
    async with parts.store.open(recordset("DS-LARGE"), KEY) as stream:
        async for piece in stream.chunks():
            size += len(piece)
            largest = max(largest, len(piece))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size == whole
    assert largest <= PIECE_BYTES + 64 * 1024
    assert peak < 12 * 1024 * 1024


async def test_a_set_left_early_can_be_read_again(parts: Parts):
    parts.put("DS-ONE", MANY, False)
    for _ in range(20):
        async with parts.store.open(recordset("DS-ONE"), KEY) as stream:
            assert (await anext(aiter(stream.chunks()))).startswith(b"{")
    assert await read(parts.store, "DS-ONE") == MANY


async def test_sets_are_read_side_by_side(parts: Parts):
    parts.put("DS-ONE", LINES, False)
    parts.put("DS-TWO", gzip.compress(lines(2000)), True)
    codes = ["DS-ONE", "DS-TWO"] * 10
    found = await asyncio.gather(*(read(parts.store, code) for code in codes))
    assert [data.count(b"\n") for data in found] == [1000, 2000] * 10


async def test_a_cancelled_reader_ends_at_once(parts: Parts):
    parts.put("DS-ONE", gzip.compress(MANY), True)
    begun = asyncio.Event()

    async def reader() -> None:
        async with parts.store.open(recordset("DS-ONE"), KEY) as stream:
            async for _ in stream.chunks():
                begun.set()

    task = asyncio.create_task(reader())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_store_says_which_it_is(parts: Parts):
    assert await parts.store.check()


# --- the folder ---


@pytest.fixture
async def folder_store(tmp_path: Path) -> AsyncIterator[RecordStore]:
    async with open_record_store(Settings(records_directory=tmp_path)) as store:
        yield store


async def test_a_folder_names_the_codes_there_are(folder_store: RecordStore, tmp_path: Path):
    with pytest.raises(JobFailure, match="there is no record set 'DS-X'; there are none"):
        await read(folder_store, "DS-X")
    for n in range(7):
        (tmp_path / f"DS-{n}.jsonl{'.gz' if n % 2 else ''}").touch()
    (tmp_path / "README.md").touch()
    (tmp_path / "DS-FOLDER.jsonl").mkdir()
    (tmp_path / ".hidden.jsonl").touch()
    with pytest.raises(JobFailure) as failure:
        await read(folder_store, "DS-FOLDER")
    assert failure.value.text.endswith("there are: DS-0, DS-1, DS-2, DS-3, DS-4, ...")
    assert "(7 now)" in await folder_store.check()


async def test_a_code_cannot_leave_the_folder(folder_store: RecordStore, tmp_path: Path):
    (tmp_path.parent / "outside.jsonl").write_bytes(LINES)
    for code in ("../outside", "..", "x/../../outside", str(tmp_path.parent / "outside")):
        with pytest.raises(JobFailure):
            await read(folder_store, code)


async def test_of_a_plain_and_a_gzipped_file_the_plain_one_is_read(folder_store: RecordStore, tmp_path: Path):
    (tmp_path / "DS-ONE.jsonl").write_bytes(b"{}\n")
    (tmp_path / "DS-ONE.jsonl.gz").write_bytes(gzip.compress(LINES))
    assert await read(folder_store, "DS-ONE") == b"{}\n"


@pytest.mark.parametrize("data", [b"", LINES])
async def test_a_file_named_gz_that_is_none_fails_the_job(
    folder_store: RecordStore, tmp_path: Path, data: bytes
):
    (tmp_path / "DS-ONE.jsonl.gz").write_bytes(data)
    with pytest.raises(JobFailure, match="record set DS-ONE: "):
        await read(folder_store, "DS-ONE")


@pytest.mark.parametrize("zipped", [True, False])
async def test_a_file_that_changes_while_it_is_read_is_tried_again(
    folder_store: RecordStore, tmp_path: Path, zipped: bool
):
    path = tmp_path / ("DS-ONE.jsonl.gz" if zipped else "DS-ONE.jsonl")
    data = gzip.compress(LINES) if zipped else LINES * 100
    path.write_bytes(data)
    async with folder_store.open(recordset("DS-ONE"), KEY) as stream:
        pieces = aiter(stream.chunks())
        await anext(pieces)
        path.write_bytes(data[: len(data) // 2])
        with pytest.raises(Unavailable, match="was changed while it was read"):
            assert [piece async for piece in pieces]


async def test_a_file_replaced_while_it_is_read_is_read_as_it_was(folder_store: RecordStore, tmp_path: Path):
    path = tmp_path / "DS-ONE.jsonl"
    path.write_bytes(LINES * 100)
    (tmp_path / "new").write_bytes(b"{}\n")
    got = b""
    async with folder_store.open(recordset("DS-ONE"), KEY) as stream:
        async for piece in stream.chunks():
            if not got:
                (tmp_path / "new").replace(path)
            got += piece
    assert got == LINES * 100


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that cannot be read")
async def test_a_read_error_is_a_passing_fault(folder_store: RecordStore, tmp_path: Path):
    (tmp_path / "DS-ONE.jsonl").symlink_to("/proc/self/mem")
    with pytest.raises(Unavailable, match="record set DS-ONE cannot be read: Input/output error"):
        await read(folder_store, "DS-ONE")


async def test_a_folder_has_no_set_tokens(folder_store: RecordStore):
    with pytest.raises(JobFailure, match="no set tokens"):
        async with folder_store.open(Source(kind="set_token", value="x"), KEY):
            pass


async def test_a_folder_that_is_not_there_is_a_wrong_setting_and_later_a_passing_fault(tmp_path: Path):
    async with open_record_store(Settings(records_directory=tmp_path / "none")) as store:
        with pytest.raises(Misconfigured, match=r"AIOANALYSIS_RECORDS_DIRECTORY: .*No such file"):
            await store.check()
        with pytest.raises(Unavailable, match="cannot be read: No such file"):
            await read(store, "DS-ONE")


# --- no store ---


async def test_without_a_store_only_attached_records_can_be_analysed():
    async with open_record_store(Settings()) as store:
        assert isinstance(store, NoRecordStore)
        assert "no record store" in await store.check()
        with pytest.raises(JobFailure, match="attach the records"):
            await read(store, "DS-ONE")
