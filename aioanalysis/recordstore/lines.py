"""Counts the records of a stream as it passes, and looks at its last line."""

from __future__ import annotations

from aioanalysis.recordstore.replies import HEAD_BYTES


class LineCount:
    """Lines that are not blank, however the bytes are cut. `last` is the last one, empty if it is long."""

    def __init__(self) -> None:
        self._whole = 0
        self._rest = b""
        self._rest_is_long = False
        self._last = b""

    @property
    def count(self) -> int:
        return self._whole + self._open

    @property
    def last(self) -> bytes:
        return (b"" if self._rest_is_long else self._rest) if self._open else self._last

    @property
    def _open(self) -> bool:
        return self._rest_is_long or bool(self._rest.strip())

    def feed(self, piece: bytes) -> None:
        *whole, rest = piece.split(b"\n")
        for end in whole:
            self._extend(end)
            if self._open:
                self._whole += 1
                self._last = self.last
            self._rest, self._rest_is_long = b"", False
        self._extend(rest)

    def _extend(self, more: bytes) -> None:
        """Grow the open line, of which no more is kept than a short line has."""
        if self._rest_is_long or not more:
            return
        self._rest += more
        if len(self._rest) > HEAD_BYTES:
            self._rest_is_long = bool(self._rest.strip())
            self._rest = b""
