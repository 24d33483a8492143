"""Names, metadata and sidecars: what scheduler and worker agree on over storage."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioanalysis.domain import exchange
from aioanalysis.domain.exchange import (
    Container,
    Control,
    Ending,
    PackageMeta,
    ResultPackage,
    RunMark,
    Stem,
    parse_result,
    parse_sidecar,
    parse_stem,
    stem_of_package,
)
from aioanalysis.domain.job import ID_ALPHABET, is_job_id
from aioanalysis.domain.method import is_title
from aioanalysis.domain.outcomes import JobError, Reason
from aioanalysis.errors import Damaged

LETTERS = "ABCXYZabcxyz0189"
titles = st.builds(
    lambda first, rest: first + rest, st.sampled_from(LETTERS), st.text(LETTERS + "_-", max_size=63)
)
ids = st.text(ID_ALPHABET, min_size=8, max_size=8)
stems = st.builds(
    lambda title, job_id, frame: Stem(title=title, job_id=job_id, frame=frame),
    titles,
    ids,
    st.none() | st.integers(1, 1000),
)
times = st.none() | st.datetimes(timezones=st.just(UTC))
words = st.none() | st.text("0123456789abcdef-", min_size=1, max_size=64)


@given(stem=stems)
def test_a_stem_is_parsed_back_to_its_parts(stem: Stem):
    assert parse_stem(str(stem)) == stem
    assert is_title(stem.title)
    assert is_job_id(stem.job_id)


@given(stem=stems, ending=st.sampled_from(Ending))
def test_every_name_leads_back_to_its_stem(stem: Stem, ending: Ending):
    text = str(stem)
    assert stem_of_package(exchange.package_name(text)) == text
    assert stem_of_package(exchange.claim_name(text)) == text
    assert parse_result(exchange.result_name(text, ending)) == (text, ending, False)
    assert parse_result(exchange.sidecar_name(text, ending)) == (text, ending, True)


@given(stem=stems)
def test_the_text_before_the_first_dot_is_the_title(stem: Stem):
    assert exchange.package_name(str(stem)).partition(".")[0] == stem.title


def test_names_are_those_of_the_documents():
    assert exchange.package_name("t.0123abcd") == "t.0123abcd.tar"
    assert exchange.claim_name("t.0123abcd-2") == "claimed/t.0123abcd-2.tar"
    assert exchange.result_name("t.0123abcd", Ending.COMPLETE) == "t.0123abcd.zip"
    assert exchange.result_name("t.0123abcd", Ending.FAILED) == "t.0123abcd.failed.zip"
    assert exchange.sidecar_name("t.0123abcd", Ending.COMPLETE) == "t.0123abcd.metadata.json"
    assert exchange.sidecar_name("t.0123abcd", Ending.FAILED) == "t.0123abcd.failed.metadata.json"
    assert exchange.control_name("t.0123abcd") == "control/t.0123abcd.json"
    assert exchange.progress_name("t.0123abcd") == "progress/t.0123abcd.json"
    assert exchange.progress_log_name("t.0123abcd") == "progress/t.0123abcd.log"
    assert exchange.attempt_name("t.0123abcd", 2, ".failed.zip") == "attempts/t.0123abcd.2.failed.zip"
    assert exchange.worker_name("host-1") == "workers/host-1.json"
    assert [container.value for container in Container] == ["queue", "results"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "t",
        "t.",
        "t.0123abc",
        "t.0123abcde",
        "t.0123ABCD",
        "t.0123abci",  # i, l, o and u are not in the alphabet
        "t.0123abcl",
        "t.0123abco",
        "t.0123abcu",
        "_t.0123abcd",
        "a.b.0123abcd",
        "t.0123abcd-0",
        "t.0123abcd-01",
        "t.0123abcd-12345",
        "t.0123abcd-",
        "t.0123abcd\n",
        " t.0123abcd",
        "é.0123abcd",
        "../t.0123abcd",
        "x" * 65 + ".0123abcd",
    ],
)
def test_what_is_no_stem_is_none_with_any_suffix(text: str):
    assert parse_stem(text) is None
    assert stem_of_package(f"{text}.tar") is None
    assert parse_result(f"{text}.zip") is None
    assert parse_result(f"{text}.failed.metadata.json") is None


@pytest.mark.parametrize(
    "name",
    ["t.0123abcd.zip", "claimed/x/t.0123abcd.tar", "other/t.0123abcd.tar", "t.0123abcd.tar.gz", "x.tar", ""],
)
def test_other_names_are_no_packages(name: str):
    assert stem_of_package(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "t.0123abcd.tar",
        "attempts/t.0123abcd.1.zip",
        "attempts/t.0123abcd.zip",
        "t.0123abcd.1.zip",
        "notes.txt",
        "t.0123abcd.failed.metadata.json.bak",
        "t.0123abcd.Failed.zip",
    ],
)
def test_other_names_are_no_results(name: str):
    assert parse_result(name) is None


@given(
    meta=st.builds(
        PackageMeta,
        uid=words,
        attempt=st.integers(1, 10**6),
        owner=st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
        submitted_at=times,
        deadline=times,
        expires_at=times,
        sha256=words,
        records=st.none() | st.integers(0, 10**9),
        nonce=words,
        worker=words,
    )
)
def test_package_metadata_comes_back_and_travels_as_printable_ascii(meta: PackageMeta):
    metadata = meta.to_metadata()
    assert all(
        value.isascii() and value.isprintable() and value == value.strip() for value in metadata.values()
    )
    assert all(key.isidentifier() and key == key.lower() for key in metadata)
    assert PackageMeta.from_metadata(metadata) == meta
    assert PackageMeta.from_metadata({key.upper(): value for key, value in metadata.items()}) == meta


def test_a_package_of_an_older_tool_is_attempt_one_and_says_no_more():
    assert PackageMeta.from_metadata({}) == PackageMeta()
    assert PackageMeta().attempt == 1


def test_package_metadata_that_is_not_ours_is_unknown():
    meta = PackageMeta.from_metadata(
        {
            "attempt": "x",
            "records": "many",
            "deadline": "2026-01-01T00:00:00",
            "expires_at": "soon",
            "other": "1",
        }
    )
    assert meta == PackageMeta()


def test_times_in_other_zones_keep_their_moment():
    there = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert PackageMeta.from_metadata(PackageMeta(deadline=there).to_metadata()).deadline == there


@given(
    mark=st.builds(RunMark, uid=words, attempt=st.none() | st.integers(1, 10**6), nonce=words, sha256=words)
)
def test_a_run_mark_comes_back(mark: RunMark):
    assert RunMark.from_metadata(mark.to_metadata()) == mark


def sidecar(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def test_a_sidecar_is_read_with_all_that_the_scheduler_needs():
    package = ResultPackage(name="t.zip", size=10, sha256="aa", crc32="0f", etag='"1"')
    data = sidecar(
        version=1,
        uid="u",
        attempt=2,
        nonce="n",
        error={
            "reason": "stage",
            "script": "2_x.py",
            "error": "boom",
            "message": "container exited with code 2",
        },
        usage={"samples": 3, "interval_seconds": 10},
        records=7,
        worker={"host": "h", "version": "1"},
        package={"sha256": "pp"},
        result=package.to_json(),
    )
    read = parse_sidecar(data)
    assert (read.uid, read.attempt, read.nonce) == ("u", 2, "n")
    assert read.error == JobError(
        reason=Reason.STAGE, script="2_x.py", error="boom", message="container exited with code 2"
    )
    assert read.usage is not None
    assert read.usage.samples == 3
    assert (read.packaged_count, read.worker) == (7, "h")
    assert (read.package_sha256, read.result_sha256) == ("pp", "aa")
    assert read.body["version"] == 1


def test_an_older_workers_sidecar_is_read_without_the_parts_it_lacks():
    read = parse_sidecar(
        sidecar(cpu_percent={"mean": 3}, error=None, worker="host", package="t.tar", usage=[1])
    )
    assert (read.uid, read.attempt, read.nonce, read.error, read.usage) == (None, None, None, None, None)
    assert (read.worker, read.package_sha256, read.result_sha256) == (None, None, None)


def test_a_sidecars_error_may_be_plain_text():
    error = parse_sidecar(sidecar(error="it broke")).error
    assert error == JobError(reason=Reason.CONTAINER, message="it broke")


def test_parts_of_a_sidecar_that_only_inform_may_have_any_form():
    read = parse_sidecar(sidecar(attempt=True, records=1.5, worker={"host": 5}, usage={"samples": "x"}))
    assert (read.attempt, read.packaged_count, read.worker) == (None, None, None)
    assert read.usage is not None
    assert read.usage.samples == 0


def test_figures_that_are_no_json_become_unknown():
    read = parse_sidecar(b'{"usage": {"wall_seconds": NaN, "cpu_seconds": Infinity, "samples": 1e999}}')
    assert read.usage is not None
    assert (read.usage.wall_seconds, read.usage.cpu_seconds, read.usage.samples) == (None, None, 0)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b'{"a": ', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"a":' + b"1" * 5_000 + b"}", "not JSON"),
        (b"[]", "not a JSON object"),
        (b'{"version": 2}', "of version 2, this service reads up to 1"),
        (b'{"version": "1"}', "of version '1', this service reads up to 1"),
        (b'{"uid": 5}', "uid is not a string"),
        (b'{"nonce": ["x"]}', "nonce is not a string"),
    ],
)
def test_a_sidecar_that_cannot_be_read_is_damaged_and_says_why(data: bytes, what: str):
    with pytest.raises(Damaged, match=what):
        parse_sidecar(data)


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["uid", "usage", "error", "worker", "series", "mean", "memory_bytes"]),
                inner,
                max_size=5,
            )
        ),
        max_leaves=20,
    )
)
def test_a_sidecar_is_read_or_damaged_and_nothing_else(value: object):
    try:
        read = parse_sidecar(json.dumps(value).encode())
    except Damaged:
        return
    if read.usage is not None:
        json.dumps(read.usage.to_json(), allow_nan=False)
    if read.error is not None:
        json.dumps(read.error.to_json(), ensure_ascii=False).encode()


def test_a_control_blob_comes_back():
    control = Control(attempt=3, action="kill")
    assert Control.from_bytes(control.to_bytes()) == control


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\xff", b"[]", b"{}", b'{"attempt": 1}', b'{"attempt": "x", "action": "kill"}'),
        *(b'{"attempt": null, "action": "kill"}', b'{"attempt": Infinity, "action": "kill"}', b"[" * 100_000),
    ],
)
def test_a_control_blob_that_cannot_be_read_is_damaged(data: bytes):
    with pytest.raises(Damaged, match="control blob cannot be read"):
        Control.from_bytes(data)


def test_a_control_blob_of_a_newer_version_is_not_acted_upon():
    data = json.dumps({"version": 2, "attempt": 1, "action": "kill"}).encode()
    with pytest.raises(Damaged, match="of version 2"):
        Control.from_bytes(data)
