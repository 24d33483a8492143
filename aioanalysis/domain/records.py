"""Records as JSON Lines: checked line by line as bytes arrive, and selected by id.

A record is one BCDM object a line. Nothing is repaired and no unknown key is touched: a line goes on as the
bytes that came in, whatever selection passes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from aioanalysis.errors import AnalysisError

MAX_LINE_BYTES: Final = 32 * 1024 * 1024
BOM: Final = b"\xef\xbb\xbf"
QUOTED_TEXT: Final = 60


class Malformed(AnalysisError):
    """A line is not a JSON object; the text names the line."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line
        self.problem = problem


class Truncated(AnalysisError):
    """The data ended early: the last line is incomplete, or fewer lines came than were announced."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """Which records a job is about: only these ids, or all but these; ids are record or process ids."""

    mode: Literal["include", "exclude"]
    ids: frozenset[str]

    def takes(self, record: dict[str, Any]) -> bool:
        named = any(_id(record.get(key)) in self.ids for key in ("record_id", "processid"))
        return named if self.mode == "include" else not named


def _id(value: object) -> str | None:
    """An id as text: some exports write them as numbers. A missing one is not the id `None`."""
    return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else None


class LineReader:
    """Cuts a stream of bytes into checked record lines; holds at most one line.

    `feed` gives (line, record) pairs, the line with its newline and without BOM or carriage return; blank
    lines are passed over. `close` ends the stream, and gives the last line if it has no newline. `feed`
    raises `Malformed`, `close` `Truncated`: a last line without newline that is no record was cut off.
    `lines` may be called in its place at any time.
    What comes does not depend on how the bytes are cut into chunks.

    `quick` may parse lines faster: it takes a line only if this reader would, as the same value, and raises
    `ValueError` for all others, which are then looked at here. None parses everything here.
    """

    def __init__(
        self, max_line_bytes: int = MAX_LINE_BYTES, *, quick: Callable[[bytes], Any] | None = None
    ) -> None:
        self._quick = quick or _decode
        self._parts: list[bytes] = []
        self._held = 0
        self._line = 0
        self._max_line_bytes = max_line_bytes

    @property
    def line(self) -> int:
        """The number of the line read last, from 1."""
        return self._line

    def feed(self, chunk: bytes) -> Iterator[tuple[bytes, dict[str, Any]]]:
        *whole, rest = chunk.split(b"\n")
        if whole and self._parts:
            whole[0] = b"".join([*self._parts, whole[0]])
            self._parts.clear()
            self._held = 0
        for line in whole:
            pair = self._take(line)
            if pair is not None:
                yield pair
        if rest:
            self._parts.append(rest)
            self._held += len(rest)
            if self._held > self._max_line_bytes:
                raise Malformed(self._line + 1, f"longer than {self._max_line_bytes} bytes")

    def lines(self, chunk: bytes) -> tuple[bytes, int]:
        """The lines that `feed` gives, in one piece, and how many; without the records, half the work."""
        *whole, rest = chunk.split(b"\n")
        if whole and self._is_plain(chunk):
            whole[0] = b"".join([*self._parts, whole[0]])
            if self._are_records(whole):
                data = b"".join([*self._parts, chunk[: len(chunk) - len(rest)]])
                self._parts = [rest] if rest else []
                self._held = len(rest)
                self._line += len(whole)
                return data, len(whole)
        found = [line for line, _ in self.feed(chunk)]
        return b"".join(found), len(found)

    def _is_plain(self, chunk: bytes) -> bool:
        """Whether nothing is to be taken off the lines that `chunk` ends, and none can be too long."""
        bare = not any(b"\r" in part for part in (*self._parts, chunk))
        return bare and self._line > 0 and self._held + len(chunk) <= self._max_line_bytes

    def _are_records(self, lines: list[bytes]) -> bool:
        quick = self._quick
        try:
            for line in lines:
                if type(quick(line)) is not dict:
                    return False
        except (ValueError, RecursionError):
            return False
        return True

    def close(self) -> Iterator[tuple[bytes, dict[str, Any]]]:
        if not self._parts:
            return
        rest = b"".join(self._parts)
        self._parts.clear()
        self._held = 0
        try:
            pair = self._take(rest)
        except Malformed as error:
            raise Truncated(f"the last line, {error.line}, is incomplete") from error
        if pair is not None:
            yield pair

    def _take(self, line: bytes) -> tuple[bytes, dict[str, Any]] | None:
        """The line and its record; None for a blank one."""
        self._line += 1
        if len(line) > self._max_line_bytes:
            raise Malformed(self._line, f"longer than {self._max_line_bytes} bytes")
        if self._line == 1:
            line = line.removeprefix(BOM)
        if line.endswith(b"\r"):
            line = line.rstrip(b"\r")
        try:
            record = self._quick(line)
        except (ValueError, RecursionError):
            if not line.strip():
                return None
            record = self._parse(line)
        if not isinstance(record, dict):
            raise Malformed(self._line, f"a record must be a JSON object, not {_kind(record)}")
        return line + b"\n", record

    def _parse(self, line: bytes) -> Any:
        try:
            return _decode(line)
        except UnicodeDecodeError as error:
            raise Malformed(self._line, f"not UTF-8 at byte {error.start + 1}") from error
        except json.JSONDecodeError as error:
            start = line[:QUOTED_TEXT].decode("utf-8", "replace")
            raise Malformed(
                self._line, f"not JSON at column {error.colno} ({error.msg}); it starts with {start!r}"
            ) from error
        except (ValueError, RecursionError) as error:
            raise Malformed(self._line, f"not JSON that can be used ({error})") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)  # `json.loads` would make one a line


def _decode(line: bytes) -> Any:
    return _DECODER.decode(line.decode("utf-8"))


def _kind(value: object) -> str:
    return {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}.get(
        type(value), "a number"
    )
