"""JSON that came from outside."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioanalysis.api.bodies import DEPTH_MAX, loads
from aioanalysis.api.problems import HttpProblem

REFUSED = {
    "nothing": b"",
    "no JSON": b"{",
    "two values": b"{} {}",
    "NaN": b'{"a": NaN}',
    "Infinity": b'{"a": -Infinity}',
    "a number that overflows": b'{"a": 1e999}',
    "an integer of 5,000 digits": b'{"a": ' + b"9" * 5000 + b"}",
    "an integer of 65 bits": b'{"a": 18446744073709551616}',
    "a key twice": b'{"a": 1, "a": 2}',
    "a key twice within": b'[{"b": {"a": 1, "a": 2}}]',
    "half a surrogate pair": b'{"a": "\\ud800"}',
    "half a surrogate pair in a key": b'{"\\udfff": 1}',
    "deep arrays": b"[" * 100_000 + b"]" * 100_000,
    "rather deep arrays": b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1),
    "rather deep objects": b'{"a":' * (DEPTH_MAX + 1) + b"1" + b"}" * (DEPTH_MAX + 1),
    "no UTF-8": b'{"a": "\xff"}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf{}",
    "a raw control character": b'{"a": "\x00"}',
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_json_that_can_be_used_is_a_400(data: bytes) -> None:
    with pytest.raises(HttpProblem) as caught:
        loads(data)
    assert caught.value.status == 400
    caught.value.detail.encode()


def test_what_json_allows_is_taken() -> None:
    data = '{"a": [1, -2.5e3, true, null, "ü\\ud83d\\ude00\\u0000"], "b": {"a": 9223372036854775807}}'
    assert loads(data.encode()) == json.loads(data)
    nested = b"[" * DEPTH_MAX + b"]" * DEPTH_MAX
    assert loads(nested) == json.loads(nested)


@given(st.binary(max_size=200) | st.from_regex(rb"[\[\]{}\",:0-9eE.\\ud-]{1,60}", fullmatch=True))
def test_any_bytes_are_read_or_a_400(data: bytes) -> None:
    try:
        value = loads(data)
    except HttpProblem as problem:
        value = problem.detail
    json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
