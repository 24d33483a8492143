"""Counting records as they pass: the cuts between pieces do not show."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioanalysis.recordstore.lines import LineCount
from aioanalysis.recordstore.replies import HEAD_BYTES


def counted(*pieces: bytes) -> tuple[int, bytes]:
    lines = LineCount()
    for piece in pieces:
        lines.feed(piece)
    return lines.count, lines.last


@pytest.mark.parametrize(
    ("data", "count", "last"),
    [
        (b"", 0, b""),
        (b"\n \n\r\n", 0, b""),
        (b"a\n", 1, b"a"),
        (b"a\nb", 2, b"b"),
        (b"a\nb\r\n\n  ", 2, b"b\r"),
        (b"a\n" + b"x" * (HEAD_BYTES + 1), 2, b""),
        (b"a\n" + b"x" * (HEAD_BYTES + 1) + b"\n", 2, b""),
        (b"x" * (HEAD_BYTES + 1) + b"\nb\n", 2, b"b"),
        (b" " * (HEAD_BYTES + 1) + b"\n", 0, b""),
    ],
)
def test_lines_that_are_not_blank_count(data: bytes, count: int, last: bytes):
    assert counted(data) == (count, last)
    assert counted(*(data[n : n + 1000] for n in range(0, len(data), 1000))) == (count, last)


@given(st.lists(st.sampled_from([b"\n", b" ", b"a", b"bc", b"\r\n"])))
def test_the_cuts_do_not_show(pieces: list[bytes]):
    data = b"".join(pieces)
    assert counted(*pieces) == counted(data)
    assert counted(data)[0] == sum(bool(line.strip()) for line in data.split(b"\n"))
