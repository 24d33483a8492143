"""A worker's sign of life as it is read."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from aioanalysis.domain.presence import LISTED_MAX, MethodSign, RunSign, parse_sign
from aioanalysis.errors import Damaged

WHOLE = {
    "worker": "w1",
    "host": "node-1",
    "service_version": "0.1.0",
    "runtime": {"name": "docker", "engine": "Docker 29"},
    "state": "low_disk",
    "slots": 2,
    "running": [{"stem": "noop.0123abcd", "attempt": 2, "since": "2026-03-01T00:00:00+00:00"}],
    "finishing": [{"stem": "noop.fedcba98", "attempt": 1, "since": "2026-03-01T00:00:00+00:00"}],
    "methods": [{"title": "noop", "version": "1", "digest": "d"}],
    "disk": {"free_bytes": 10, "reserve_bytes": 5},
    "started_at": "2026-03-01T00:00:00Z",
    "at": "2026-03-01T00:00:00+00:00",
}


def read(body: Any) -> Any:
    return parse_sign(json.dumps(body).encode())


def test_all_that_a_worker_tells_is_read() -> None:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    sign = read(WHOLE)
    assert (sign.worker, sign.host, sign.service_version, sign.state) == ("w1", "node-1", "0.1.0", "low_disk")
    assert (sign.runtime, sign.engine, sign.slots) == ("docker", "Docker 29", 2)
    assert sign.running == (RunSign(stem="noop.0123abcd", attempt=2, since=at),)
    assert sign.finishing == (RunSign(stem="noop.fedcba98", attempt=1, since=at),)
    assert sign.methods == (MethodSign(title="noop", version="1", digest="d"),)
    assert (sign.free_bytes, sign.reserve_bytes, sign.started_at) == (10, 5, at)
    assert sign.at == at


def test_what_is_missing_or_of_another_form_is_unknown() -> None:
    sign = read(
        {
            "worker": "w\ud800",
            "host": 3,
            "runtime": "docker",
            "slots": True,
            "running": [7, {"stem": None}, {"stem": "x", "since": "yesterday", "attempt": "2"}],
            "methods": {"a": 1},
            "disk": [],
            "started_at": "2026-03-01T00:00:00",
        }
    )
    assert sign.worker == "w?"
    assert (sign.host, sign.runtime, sign.slots, sign.free_bytes, sign.started_at) == (None,) * 5
    assert sign.running == (RunSign(stem="x", attempt=None, since=None),)
    assert sign.finishing == ()
    assert sign.methods == ()
    assert sign.state == "running"


def test_no_more_is_read_of_a_list_than_its_limit() -> None:
    sign = read({"worker": "w", "methods": [{"title": "m"}] * (LISTED_MAX + 1)})
    assert len(sign.methods) == LISTED_MAX


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"worker": 1}', b"\xff", b"[" * 100_000])
def test_what_names_no_worker_is_damaged(data: bytes) -> None:
    with pytest.raises(Damaged):
        parse_sign(data)
