"""Records as JSON Lines: what passes, what is refused and how it is named, whatever the chunks."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aioanalysis.domain.records import BOM, LineReader, Malformed, Selection, Truncated
from aioanalysis.recordlines import quick

Read = tuple[list[tuple[bytes, dict[str, Any]]], tuple[type[Exception], str] | None, int]


def read(
    chunks: list[bytes], max_line_bytes: int = 100, *, quick: Callable[[bytes], Any] | None = None
) -> Read:
    """All pairs, the error that ended it, and the number of the last line."""
    reader = LineReader(max_line_bytes, quick=quick)
    pairs: list[tuple[bytes, dict[str, Any]]] = []
    try:
        for chunk in chunks:
            for pair in reader.feed(chunk):
                pairs.append(pair)
        pairs.extend(reader.close())
    except (Malformed, Truncated) as error:
        return pairs, (type(error), str(error)), 0
    return pairs, None, reader.line


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


def lines(data: bytes) -> list[bytes]:
    pairs, error, _ = read([data])
    assert error is None
    return [line for line, _ in pairs]


def problem(data: bytes) -> str:
    _, error, _ = read([data])
    assert error is not None
    assert error[0] is Malformed
    return error[1]


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
record = st.dictionaries(text, st.none() | st.booleans() | st.integers() | text, max_size=3)
good_line = st.builds(
    lambda value, ascii_only: json.dumps(value, ensure_ascii=ascii_only).encode(), record, st.booleans()
)
any_line = good_line | st.sampled_from([b"", b" ", b"\r", b"{}\r", b"[1]", b"{", b"\xff", BOM + b"{}"])
document = st.builds(
    lambda start, found, ends, last: (
        start + b"".join(a + b for a, b in zip(found, ends, strict=False)) + last
    ),
    st.sampled_from([b"", BOM]),
    st.lists(any_line, max_size=6),
    st.lists(st.sampled_from([b"\n", b"\r\n", b"\r\r\n"]), min_size=6, max_size=6),
    any_line,
)


@given(data=document, places=st.lists(st.integers(0, 10_000), max_size=8))
@example(data=b"{}" + b" " * 98 + b"\r\n", places=[101])
@example(data=BOM + b"{}" + b" " * 96 + b"\n", places=[100])
@example(data=b" " * 101 + b"\n", places=[101])
def test_any_chunking_gives_the_same_lines_and_the_same_error(data: bytes, places: list[int]):
    assert read(cut(data, places)) == read([data])


@given(values=st.lists(record), places=st.lists(st.integers(0, 10_000), max_size=8))
def test_records_come_back_as_they_were_written(values: list[dict[str, Any]], places: list[int]):
    written = [json.dumps(value).encode() + b"\n" for value in values]
    pairs, error, count = read(cut(b"".join(written), places), max_line_bytes=10_000)
    assert error is None
    assert pairs == list(zip(written, values, strict=True))
    assert count == len(values)


@given(data=document, places=st.lists(st.integers(0, 10_000), max_size=8))
def test_a_quick_parser_changes_nothing_but_the_time(data: bytes, places: list[int]):
    assert read(cut(data, places), quick=quick) == read([data])


@given(data=document, places=st.lists(st.integers(0, 10_000), max_size=8), whole=st.lists(st.booleans()))
@example(data=b"{}\n{}\r\n{}\n", places=[6], whole=[True, True])
@example(data=b"{}\n{}" + b" " * 98 + b"\n", places=[3], whole=[True, True])
@example(data=b"{}\n{}" + b" " * 99 + b"\n", places=[3, 50], whole=[True, True, True])
@example(data=b"{}\n\n{}\n[1]\n", places=[3], whole=[True, True])
def test_lines_in_one_piece_are_those_that_come_one_by_one(
    data: bytes, places: list[int], whole: list[bool]
) -> None:
    pairs, error, line = read([data])
    lines, count, *ended = read_lines(cut(data, places), whole)
    expected = b"".join(line for line, _ in pairs)
    assert ended == [error, line]
    assert (lines, count) == (expected, len(pairs)) if error is None else expected.startswith(lines)


def read_lines(
    chunks: list[bytes], whole: list[bool]
) -> tuple[bytes, int, tuple[type[Exception], str] | None, int]:
    """As `read`, by `lines` where `whole` says so, in the end all the time."""
    reader, found, count = LineReader(100, quick=quick), b"", 0
    ways = itertools.chain(whole, itertools.repeat(True))
    try:
        for chunk in chunks:
            lines, more = reader.lines(chunk) if next(ways) else joined(reader.feed(chunk))
            found, count = found + lines, count + more
        lines, more = joined(reader.close())
    except (Malformed, Truncated) as error:
        return found, count, (type(error), str(error)), 0
    return found + lines, count + more, None, reader.line


def joined(pairs: Iterable[tuple[bytes, dict[str, Any]]]) -> tuple[bytes, int]:
    lines = [line for line, _ in pairs]
    return b"".join(lines), len(lines)


@pytest.mark.parametrize(
    "value",
    [
        "NaN",
        "-Infinity",
        '"\\ud800"',
        "1e400",
        "1" * 4_300,
        "1" * 4_301,
        "18446744073709551616",
        "-0",
        "01",
        "1.5e3",
        "0.12345678901234567890",
        '"a\tb"',
        '"\\ud83d\\ude00"',
        '"\x7f"',
        "1,",
        '1,"a":2',
        "[" * 300 + "]" * 300,
    ],
)
def test_a_quick_parser_takes_and_refuses_what_the_exact_one_does(value: str):
    data = f'{{"a":{value}}}\n'.encode()
    assert read([data], 10_000, quick=quick) == read([data], 10_000)


def test_byte_order_mark_carriage_returns_and_blank_lines_do_not_count():
    assert lines(BOM + b'{"a":1}\r\n\r\n  \n{"b":2}') == [b'{"a":1}\n', b'{"b":2}\n']


def test_the_bytes_of_a_line_pass_unchanged():
    line = b'{ "b" : 1.50, "a":"\\u00e9 \xc3\xa9", "unknown key":null }\n'
    assert lines(line) == [line]


def test_no_bytes_are_no_lines():
    assert read([]) == read([b"", b""]) == ([], None, 0)


def test_a_line_of_five_megabytes_passes():
    line = b'{"nuc":"' + b"A" * 5_000_000 + b'"}\n'
    reader = LineReader()
    chunks = [line[i : i + 65_536] for i in range(0, len(line), 65_536)]
    assert [found for chunk in chunks for found, _ in reader.feed(chunk)] == [line]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b"<!doctype html>", "not JSON at column 1 (Expecting value); it starts with '<!doctype html>'"),
        (b'{"a": 1', "not JSON at column 8 (Expecting ',' delimiter); it starts with '{\"a\": 1'"),
        (b'{"a":"\xff"}', "not UTF-8 at byte 7"),
        (b'{"a":NaN}', "not JSON that can be used (NaN is not JSON)"),
        (b'{"a":-Infinity}', "not JSON that can be used (-Infinity is not JSON)"),
        (b"[{}]", "a record must be a JSON object, not an array"),
        (b'"x"', "a record must be a JSON object, not a string"),
        (b"true", "a record must be a JSON object, not a boolean"),
        (b"null", "a record must be a JSON object, not null"),
        (b"1.5", "a record must be a JSON object, not a number"),
        (b'{"a":"' + b"x" * 100 + b'"}', "longer than 100 bytes"),
    ],
)
def test_a_malformed_line_is_named_with_what_is_wrong(line: bytes, what: str):
    assert problem(b"{}\n\n" + line + b"\n{}\n") == f"line 3: {what}"


@pytest.mark.parametrize("line", [b"[" * 100_000, b'{"a":' + b"1" * 5_000 + b"}"])
def test_json_that_python_cannot_hold_is_malformed_too(line: bytes):
    _, error, _ = read([line + b"\n"], max_line_bytes=1_000_000)
    assert error is not None
    assert "line 1: not JSON that can be used" in error[1]


def test_a_malformed_line_ends_the_reading_after_the_lines_before_it():
    pairs, error, _ = read([b"{}\nx\n{}\n"])
    assert [line for line, _ in pairs] == [b"{}\n"]
    assert error is not None


def test_a_line_without_end_is_given_up_before_it_fills_the_memory():
    reader = LineReader(max_line_bytes=100)
    assert list(reader.feed(b"x" * 100)) == []
    with pytest.raises(Malformed, match="line 1: longer than 100 bytes"):
        list(reader.feed(b"x"))


def test_a_last_line_without_newline_counts_when_it_is_whole():
    assert lines(b'{"a":1}\n{"b":2}') == [b'{"a":1}\n', b'{"b":2}\n']


@pytest.mark.parametrize("tail", [b'{"b":', b'{"b":"\xc3', b"[1]"])
def test_a_last_line_cut_off_is_a_fault_and_never_a_shorter_data_set(tail: bytes):
    pairs, error, _ = read([b'{"a":1}\n' + tail])
    assert len(pairs) == 1
    assert error == (Truncated, "the last line, 2, is incomplete")


def test_malformed_keeps_line_and_problem_apart():
    error = Malformed(7, "wrong")
    assert (error.line, error.problem, str(error)) == (7, "wrong", "line 7: wrong")


RECORD = {"record_id": "AB1-20.COI-5P", "processid": "AB1-20"}


@pytest.mark.parametrize(
    ("ids", "named"),
    [
        ({"AB1-20.COI-5P"}, True),
        ({"AB1-20"}, True),
        ({"AB1-2", "other"}, False),
        (set(), False),
    ],
)
def test_a_selection_names_records_by_record_or_process_id(ids: set[str], named: bool):
    assert Selection(mode="include", ids=frozenset(ids)).takes(RECORD) is named
    assert Selection(mode="exclude", ids=frozenset(ids)).takes(RECORD) is not named


@pytest.mark.parametrize("value", [None, True, ["x"], {"x": 1}, 1.0])
def test_a_record_without_id_is_not_named_by_the_text_of_what_stands_there(value: object):
    selection = Selection(mode="include", ids=frozenset({str(value), "None"}))
    assert not selection.takes({"record_id": value})


def test_ids_written_as_numbers_are_ids():
    assert Selection(mode="include", ids=frozenset({"123"})).takes({"processid": 123})
