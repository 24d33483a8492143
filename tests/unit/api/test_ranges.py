"""Range, If-Range and If-None-Match."""

from __future__ import annotations

import pytest

from aioanalysis.api.ranges import Part, Unchanged, Unsatisfiable, Whole, decide

ETAG = '"abc"'
SIZE = 100


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("bytes=0-0", Part(0, 1)),
        ("bytes=0-", Part(0, 100)),
        ("bytes=10-19", Part(10, 20)),
        ("bytes=90-500", Part(90, 100)),
        ("bytes=99-", Part(99, 100)),
        ("bytes=-1", Part(99, 100)),
        ("bytes=-100", Part(0, 100)),
        ("bytes=-5000", Part(0, 100)),
        ("Bytes = 5-6", Part(5, 7)),
        ("bytes=100-", Unsatisfiable()),
        ("bytes=100-200", Unsatisfiable()),
        ("bytes=-0", Unsatisfiable()),
        ("bytes=20-10", Whole()),
        ("bytes=", Whole()),
        ("bytes=-", Whole()),
        ("bytes=0-1,5-6", Whole()),
        ("bytes=a-b", Whole()),
        ("bytes=0x1-2", Whole()),
        ("bytes=\u0661-\u0662", Whole()),
        ("bytes=1-99999999999999999999999", Part(1, 100)),
        ("bytes=1-" + "9" * 5000, Whole()),
        ("items=0-1", Whole()),
        ("", Whole()),
        ("bytes 0-1", Whole()),
    ],
)
def test_a_range_gets_its_part(wanted: str, expected: object) -> None:
    assert decide("GET", {"Range": wanted}, size=SIZE, etag=ETAG) == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, Whole()),
        ({"If-Range": ETAG}, Part(0, 10)),
        ({"If-Range": '"other"'}, Whole()),
        ({"If-Range": f"W/{ETAG}"}, Whole()),
        ({"If-Range": "Wed, 21 Oct 2026 07:28:00 GMT"}, Whole()),
        ({"If-None-Match": ETAG}, Unchanged()),
        ({"If-None-Match": '"x", W/"abc"'}, Unchanged()),
        ({"If-None-Match": "*"}, Unchanged()),
        ({"If-None-Match": '"x"'}, Part(0, 10)),
    ],
)
def test_conditions_come_before_the_range(headers: dict[str, str], expected: object) -> None:
    ranged = {"Range": "bytes=0-9", **headers} if headers else {}
    assert decide("GET", ranged, size=SIZE, etag=ETAG) == expected


def test_a_range_is_for_get_only() -> None:
    assert decide("HEAD", {"Range": "bytes=0-9"}, size=SIZE, etag=ETAG) == Whole()
    assert decide("HEAD", {"If-None-Match": ETAG}, size=SIZE, etag=ETAG) == Unchanged()


@pytest.mark.parametrize("wanted", ["bytes=0-", "bytes=-1", "bytes=0-0"])
def test_nothing_of_an_empty_file_is_in_any_range(wanted: str) -> None:
    assert decide("GET", {"Range": wanted}, size=0, etag=ETAG) == Unsatisfiable()
