"""Job packages for tests: made, put into the queue, and their results read."""

from __future__ import annotations

import hashlib
import io
import json
import random
import tarfile
import zipfile
from collections.abc import Mapping
from typing import Any

from aioanalysis.domain.exchange import (
    Container,
    Ending,
    PackageMeta,
    Sidecar,
    package_name,
    parse_sidecar,
    result_name,
    sidecar_name,
)
from aioanalysis.domain.job import ID_ALPHABET, ID_LENGTH
from aioanalysis.interfaces import BlobInfo, ExchangeStorage

RECORDS = b'{"processid": "AA001-01", "nuc": "ACGT"}\n{"processid": "AA002-01", "nuc": "ACGA"}\n'


def new_stem(title: str = "noop") -> str:
    """A stem that nobody has used."""
    return f"{title}." + "".join(random.choices(ID_ALPHABET, k=ID_LENGTH))


def make_tar(stem: str, members: Mapping[str, bytes] | None = None, **params: Any) -> bytes:
    """A package's bytes: records and params, or just these `members`, below the stem's folder."""
    if members is None:
        members = {"records.jsonl": RECORDS, "params.json": json.dumps(params).encode()}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(f"{stem}/{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def package_meta(data: bytes, **changes: Any) -> PackageMeta:
    values: dict[str, Any] = {"uid": "a" * 32, "sha256": hashlib.sha256(data).hexdigest(), "records": 2}
    return PackageMeta(**{**values, **changes})


async def enqueue(
    storage: ExchangeStorage,
    stem: str | None = None,
    *,
    data: bytes | None = None,
    meta: PackageMeta | None = None,
    **params: Any,
) -> str:
    """Put a package into the queue as the scheduler would; its stem."""
    stem = stem or new_stem()
    data = make_tar(stem, **params) if data is None else data
    meta = meta or package_meta(data)
    await storage.write(Container.QUEUE, package_name(stem), data, metadata=meta.to_metadata())
    return stem


async def read_blob(storage: ExchangeStorage, name: str, container: Container = Container.RESULTS) -> bytes:
    async with storage.open(container, name) as stream:
        return b"".join([chunk async for chunk in stream.chunks()])


async def sidecar_of(storage: ExchangeStorage, stem: str, ending: Ending = Ending.COMPLETE) -> Sidecar | None:
    """The sidecar of one ending, None when there is none."""
    name = sidecar_name(stem, ending)
    if await storage.stat(Container.RESULTS, name) is None:
        return None
    return parse_sidecar(await read_blob(storage, name))


async def outcome_of(storage: ExchangeStorage, stem: str) -> Sidecar | None:
    """The sidecar that ended the job, whichever it is."""
    return await sidecar_of(storage, stem) or await sidecar_of(storage, stem, Ending.FAILED)


async def zip_of(storage: ExchangeStorage, stem: str, ending: Ending = Ending.COMPLETE) -> zipfile.ZipFile:
    return zipfile.ZipFile(io.BytesIO(await read_blob(storage, result_name(stem, ending))))


async def names_in(storage: ExchangeStorage, container: Container, prefix: str = "") -> list[str]:
    return [name async for name in storage.names(container, prefix)]


async def claim_info(storage: ExchangeStorage, stem: str) -> BlobInfo | None:
    return await storage.stat(Container.RESULTS, f"claimed/{stem}.tar")
