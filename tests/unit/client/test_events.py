"""Server-sent events out of bytes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioanalysis.client.events import EVENT_MAX_BYTES, Parser
from aioanalysis.client.transport import NotReached

STREAM = (
    "retry: 1500\n\n: a comment\nid: 1-0\nevent: job\ndata: {\ndata: }\n\n"
    "id: 2-0\r\ndata:no blank before, ünicode\r\n\r\nevent: dropped without data\rid: 3-0\r\r"
    "id: with\0null\ndata\n\n"
).encode()
EVENTS = [("job", "{\n}"), ("message", "no blank before, ünicode"), ("message", "")]


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_events_are_the_same_however_their_bytes_are_cut(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    parser = Parser()
    found = [event for start, end in itertools.pairwise(places) for event in parser.feed(STREAM[start:end])]
    assert found == EVENTS
    assert (parser.last_id, parser.retry) == ("3-0", 1.5)


def test_an_event_without_an_end_is_not_kept_in_memory() -> None:
    parser = Parser()
    with pytest.raises(NotReached):
        list(parser.feed(b"data: " + b"x" * EVENT_MAX_BYTES))
