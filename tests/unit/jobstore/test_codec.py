"""Documents, versions, cursors and seals of the job store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from cryptography.fernet import Fernet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aioanalysis.domain.job import ID_ALPHABET, ID_LENGTH, Job
from aioanalysis.errors import Damaged, Invalid, Misconfigured
from aioanalysis.jobstore import codec
from aioanalysis.jobstore.keys import Keys
from tests.support.jobs import make_job, make_tombstone

TIMES = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
IDS = st.text(ID_ALPHABET, min_size=ID_LENGTH, max_size=ID_LENGTH)


def _of(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a field's type, the dataclasses of the domain included: whatever fields they have by now."""
    origin, inner = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return st.builds(kind, **{field.name: _of(hints[field.name]) for field in fields(kind)})
    if origin in (Union, UnionType):
        return st.one_of([_of(part) for part in inner])
    if origin is Literal:
        return st.sampled_from(inner)
    if origin is tuple:
        return st.lists(_of(inner[0]), max_size=2).map(tuple)
    if origin is Sequence:  # a list once it has been read
        return st.lists(_of(inner[0]), max_size=2)
    if origin is frozenset:
        return st.frozensets(_of(inner[0]), max_size=3)
    if origin is Mapping:
        return st.dictionaries(_of(inner[0]), _of(inner[1]), max_size=2)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from(kind)
    simple: dict[Any, st.SearchStrategy[Any]] = {
        datetime: TIMES,
        Any: VALUES,
        str: st.text(),
        bool: st.booleans(),
        int: st.integers(-(2**63), 2**63),
        float: st.floats(allow_nan=False, allow_infinity=False),
        type(None): st.none(),
    }
    return simple[kind]


@settings(max_examples=60, suppress_health_check=list(HealthCheck), deadline=None)
@given(_of(Job))
def test_any_job_reads_back_as_it_was_written(job: Job) -> None:
    assert codec.load_job(codec.dump_job(job), version=job.version) == job


@given(TIMES)
def test_a_moment_survives_as_a_score_to_the_microsecond(at: datetime) -> None:
    assert codec.moment(float(codec.score(at))) == at


@given(TIMES, IDS)
def test_a_cursor_leads_back_to_its_place(at: datetime, job_id: str) -> None:
    place = (codec.score(at), job_id)
    assert codec.read_cursor(codec.write_cursor(place)) == place


@given(st.text())
def test_any_other_text_is_no_cursor(text: str) -> None:
    with pytest.raises(Invalid):
        codec.read_cursor(text)


def test_a_document_is_compact_and_carries_its_schema_but_not_its_version() -> None:
    document = codec.dump_job(make_job(version="1:secret"))
    assert document.startswith('{"schema":1,"job":{"id":')
    assert "secret" not in document


def test_a_later_look_of_the_scheduler_shows_an_earlier_does_not() -> None:
    job = make_job()
    document = codec.dump_job(job)
    for seconds, expected in ((5, 5), (-5, 0)):
        look = job.last_updated + timedelta(seconds=seconds)
        found = codec.load_job(document, version="1:x", looked=look)
        assert found.last_updated == job.last_updated + timedelta(seconds=expected)


def test_a_damaged_document_is_told_without_its_values() -> None:
    document = codec.dump_job(make_job(submitter="somebody"))
    for bad in (
        document.replace('"state":"waiting"', '"state":"private words"'),
        document.replace('"params":{', '"params":["private words"],"x":{'),
        "\udcff private words",
        "",
    ):
        with pytest.raises(Damaged) as caught:
            codec.load_job(bad, version="1:x")
        assert "private" not in str(caught.value)


def test_a_version_tells_writes_apart_and_knows_a_repeat() -> None:
    one = codec.next_version("", "uid", "doc")
    assert one == codec.next_version("", "uid", "doc")
    others = [codec.next_version(*a) for a in (("1:x", "uid", "doc"), ("", "u", "doc"), ("", "uid", "d"))]
    assert len({one, *others}) == 4


def test_a_tombstone_reads_back() -> None:
    tombstone = make_tombstone(make_job())
    assert codec.load_tombstone(codec.dump_tombstone(tombstone)) == tombstone
    assert replace(tombstone, stems=()) == codec.load_tombstone(
        codec.dump_tombstone(replace(tombstone, stems=()))
    )


@pytest.mark.parametrize("secret", ["", "hunter2", f"{Fernet.generate_key().decode()},"])
def test_a_wrong_secret_is_named_by_its_setting_and_not_repeated(secret: str) -> None:
    with pytest.raises(Misconfigured, match="AIOANALYSIS_JOB_KEY_SECRET") as caught:
        codec.Seal(secret)
    assert "hunter2" not in str(caught.value)


def test_a_seal_takes_any_text_and_never_looks_the_same_twice() -> None:
    seal = codec.Seal(Fernet.generate_key().decode())
    for key in ("", "é\u0000\n", "x" * 10_000):
        one, two = (seal.close(key, job_id="a", uid="u") for _ in range(2))
        assert one != two
        assert seal.open(one, job_id="a", uid="u") == key


@given(st.text(), st.text())
def test_submitters_have_lists_of_their_own(one: str, other: str) -> None:
    keys = Keys("p:")
    assert (keys.submitter(one) == keys.submitter(other)) == (one == other)
    assert keys.submitter(one).isascii()
