"""Unpacking takes a job's plain files and nothing else."""

from __future__ import annotations

import io
import os
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aioanalysis.errors import JobFailure
from aioanalysis.worker.tarball import MEMBERS_MAX, unpack
from tests.support.packages import make_tar

STEM = "noop.0123abcd"
Add = tuple[str, dict[str, Any], bytes]


def tar_of(*members: Add, form: int = tarfile.USTAR_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for name, fields, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for key, value in fields.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def plain(name: str, data: bytes = b"x") -> Add:
    return (f"{STEM}/{name}", {}, data)


@pytest.fixture
def tried(tmp_path: Path) -> Callable[..., Path]:
    def run(data: bytes, **options: Any) -> Path:
        package, job = tmp_path / "package.tar", tmp_path / "outer" / "job"
        package.write_bytes(data)
        job.mkdir(parents=True)
        unpack(package, STEM, job, **{"max_bytes": 1 << 20, **options})
        return job

    return run


def test_records_and_params_arrive_byte_for_byte(tried: Callable[..., Path]) -> None:
    members = {"records.jsonl": os.urandom(100_001), "params.json": b"{}", "extra/empty": b""}
    job = tried(make_tar(STEM, members))
    assert {name: (job / name).read_bytes() for name in members} == members


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_every_usual_form_with_folders_is_understood(tried: Callable[..., Path], form: int) -> None:
    long = "/".join(["a" * 100, "ä" * 60])
    data = tar_of(
        (f"./{STEM}", {"type": tarfile.DIRTYPE}, b""),
        (f"./{STEM}/sub", {"type": tarfile.DIRTYPE}, b""),
        (f"./{STEM}/sub/a.txt", {}, b"a"),
        *([] if form == tarfile.USTAR_FORMAT else [plain(long, b"long")]),
        form=form,
    )
    job = tried(data)
    assert (job / "sub/a.txt").read_bytes() == b"a"
    assert form == tarfile.USTAR_FORMAT or (job / long).read_bytes() == b"long"


BAD: dict[str, tuple[bytes, str]] = {
    "not a tar": (b"hello " * 500, "no tar file"),
    "gzip": (b"\x1f\x8b" + os.urandom(2000), "no tar file"),
    "empty": (b"", "empty"),
    "short": (b"abc", "no tar file"),
    "parent": (tar_of((f"{STEM}/../x", {}, b"x")), "no plain path"),
    "parent first": (tar_of(("../x", {}, b"x")), "no plain path"),
    "inner dot": (tar_of((f"{STEM}/./x", {}, b"x")), "no plain path"),
    "absolute": (tar_of(("/tmp/x", {}, b"x")), "absolute"),
    "symbolic link": (tar_of((f"{STEM}/l", {"type": tarfile.SYMTYPE, "linkname": "/etc"}, b"")), "a link"),
    "hard link": (tar_of((f"{STEM}/l", {"type": tarfile.LNKTYPE, "linkname": "x"}, b"")), "a hard link"),
    "device": (tar_of((f"{STEM}/d", {"type": tarfile.CHRTYPE}, b"")), "a device"),
    "block device": (tar_of((f"{STEM}/d", {"type": tarfile.BLKTYPE}, b"")), "a device"),
    "pipe": (tar_of((f"{STEM}/p", {"type": tarfile.FIFOTYPE}, b"")), "a pipe"),
    "other folder": (tar_of(("other.0123abcd/x", {}, b"x")), "not below"),
    "no folder": (tar_of(("records.jsonl", {}, b"x")), "not below"),
    "stem as a file": (tar_of((STEM, {}, b"x")), "not below"),
    "twice": (tar_of(plain("a"), plain("a")), "twice"),
    "twice but for case": (tar_of(plain("a"), plain("A")), "twice"),
    "file and folder": (tar_of(plain("a"), plain("a/b")), "a file and a folder"),
    "folder and file": (tar_of(plain("a/b"), plain("a")), "a file and a folder"),
    "backslash": (tar_of(plain("a\\..\\b")), "characters"),
    "newline": (tar_of(plain("a\nb")), "characters"),
    "bad bytes": (tar_of(plain("a\udcffb"), form=tarfile.GNU_FORMAT), "characters"),
    "too deep": (tar_of(plain("/".join("abcdefghijklmnopq"))), "too deep"),
    "larger than allowed": (tar_of(plain("a", b"x" * (1 << 20)), plain("b")), "larger than"),
    "pax link": (
        tar_of((f"{STEM}/a", {"pax_headers": {"linkpath": "/etc"}}, b"x"), form=tarfile.PAX_FORMAT),
        "a link",
    ),
    "pax path out": (
        tar_of((f"{STEM}/a", {"pax_headers": {"path": "/etc/x"}}, b"x"), form=tarfile.PAX_FORMAT),
        "absolute",
    ),
    "sparse": (
        tar_of((f"{STEM}/a", {"pax_headers": {"GNU.sparse.size": "99"}}, b"x"), form=tarfile.PAX_FORMAT),
        "sparse",
    ),
    "pax size": (
        tar_of((f"{STEM}/a", {"pax_headers": {"size": "1e9"}}, b"x"), form=tarfile.PAX_FORMAT),
        "no number",
    ),
    "huge pax header": (
        tar_of((f"{STEM}/a", {"pax_headers": {"note": "x" * 100_000}}, b"x"), form=tarfile.PAX_FORMAT),
        "too long",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_a_package_must_not_be_is_refused_as_input_and_nothing_leaves_the_folder(
    tried: Callable[..., Path], tmp_path: Path, kind: str
) -> None:
    data, said = BAD[kind]
    with pytest.raises(JobFailure, match=said) as caught:
        tried(data)
    assert caught.value.reason == "input"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outer", "package.tar"]
    assert [path.name for path in (tmp_path / "outer").iterdir()] == ["job"]
    assert not [p for p in (tmp_path / "outer/job").rglob("*") if p.is_symlink()]


@pytest.mark.parametrize("cut", [100, 600, 1024, 1600, 2048])
def test_a_cut_package_is_refused_wherever_it_was_cut(tried: Callable[..., Path], cut: int) -> None:
    data = tar_of(plain("a", b"y" * 700), plain("b"))
    with pytest.raises(JobFailure, match=r"cut|no tar file"):
        tried(data[:cut])


def test_a_header_that_lies_about_its_size_is_refused_without_using_the_disk(
    tried: Callable[..., Path],
) -> None:
    data = tar_of((f"{STEM}/a", {}, b"x" * 100))
    info = tarfile.TarInfo(f"{STEM}/a")
    info.size = 1 << 40
    lying = info.tobuf(tarfile.GNU_FORMAT) + data[512:]
    with pytest.raises(JobFailure, match="is cut within"):
        tried(lying, max_bytes=1 << 50)


def test_a_damaged_header_is_refused(tried: Callable[..., Path]) -> None:
    data = bytearray(tar_of(plain("a")))
    data[3] ^= 1
    with pytest.raises(JobFailure, match="damaged"):
        tried(bytes(data))


def test_very_many_members_are_refused(tried: Callable[..., Path]) -> None:
    folder = tarfile.TarInfo(STEM)
    folder.type = tarfile.DIRTYPE
    with pytest.raises(JobFailure, match="more than"):
        tried(folder.tobuf() * (MEMBERS_MAX + 1) + b"\0" * 1024)


def test_unpacking_stops_when_it_is_told_to(tried: Callable[..., Path]) -> None:
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(InterruptedError):
        tried(tar_of(plain("a", b"x")), stopped=stopped)
