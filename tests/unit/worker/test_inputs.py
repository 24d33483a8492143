"""A package is on the disk as it was queued, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from aioanalysis.errors import JobFailure
from aioanalysis.interfaces import ExchangeStorage
from aioanalysis.storage.directory import DirectoryStorage
from aioanalysis.worker.claims import Claim, Claims
from aioanalysis.worker.inputs import Package, download, unpack_package
from aioanalysis.worker.workspace import RunFolder
from tests.support.packages import enqueue, make_tar, new_stem, package_meta


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "run")
    folder.job.mkdir(parents=True)
    return folder


@pytest.fixture
async def storage(tmp_path: Path) -> ExchangeStorage:
    storage = DirectoryStorage(tmp_path / "blobs")
    await storage.prepare()
    return storage


async def claimed(storage: ExchangeStorage, data: bytes, stem: str, **meta: object) -> Claim:
    await enqueue(storage, stem, data=data, meta=package_meta(data, **meta))
    claim = await Claims(storage, "w", 15).take()
    assert claim is not None
    await claim.stop()
    return claim


@pytest.mark.parametrize(
    ("records", "count"),
    [
        (b"", 0),
        (b'{"a": 1}', 1),
        (b'{"a": 1}\n{"a": 2}\n', 2),
        (b'\n \n{"a": 1}\r\n\t\n{"a": 2}\n\n', 2),
        (b'{"a": "' + b"x" * (3 << 20) + b'"}\n{"b": 1}\n', 2),
    ],
)
async def test_records_are_counted_where_nobody_has(
    storage: ExchangeStorage, folder: RunFolder, records: bytes, count: int
) -> None:
    stem = new_stem()
    data = make_tar(stem, {"records.jsonl": records, "params.json": b"{}"})
    claim = await claimed(storage, data, stem, records=None)
    package = await download(storage, claim, folder, max_bytes=1 << 30)
    package = await unpack_package(folder, stem, package, max_bytes=1 << 30)
    assert package.records == count
    assert package.size == len(data)
    assert not folder.package.exists()


async def test_a_package_without_records_has_no_count(storage: ExchangeStorage, folder: RunFolder) -> None:
    stem = new_stem()
    claim = await claimed(storage, make_tar(stem, {"params.json": b"{}"}), stem, records=None)
    package = await download(storage, claim, folder, max_bytes=1 << 30)
    assert (await unpack_package(folder, stem, package, max_bytes=1 << 30)).records is None


async def test_a_package_that_is_too_large_is_not_even_downloaded_whole(
    storage: ExchangeStorage, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aioanalysis.worker.inputs.TAR_OVERHEAD_BYTES", 1024)
    stem = new_stem()
    claim = await claimed(storage, make_tar(stem, {"records.jsonl": b"x" * (4 << 20)}), stem)
    with pytest.raises(JobFailure, match="larger than") as caught:
        await download(storage, claim, folder, max_bytes=1 << 20)
    assert caught.value.reason == "input"


async def test_a_full_disk_is_told_as_such(
    storage: ExchangeStorage, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("aioanalysis.worker.inputs.unpack", full)
    with pytest.raises(JobFailure, match="No space left") as caught:
        await unpack_package(folder, new_stem(), Package(sha256="", size=0, records=1), max_bytes=1)
    assert caught.value.reason == "disk"
