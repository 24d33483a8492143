"""The records of a batch of process ids, sifted page by page: each once, and which ids had none."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from aioanalysis.domain.records import Malformed, Truncated
from aioanalysis.errors import AnalysisError, Unavailable
from aioanalysis.recordlines import line_reader
from aioanalysis.recordstore.replies import ERROR_KEYS

IDS: Final = 5_000
"""The most process ids that data.boldsystems.org is sent at a time."""


class BadPage(AnalysisError):
    """A page holds lines that are no records. Stays inside the record stores."""


def batches(ids: Sequence[str]) -> Iterator[Batch]:
    for start in range(0, len(ids), IDS):
        yield Batch(ids[start : start + IDS])


class Batch:
    """What came for `ids`. Of records with one record_id the first is kept; of those without, equal lines."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = ids
        self.records = 0
        self.duplicates = 0
        self._without: dict[object, str] = {name: name for name in ids}
        self._seen: set[object] = set()

    @property
    def missing(self) -> Sequence[str]:
        """The ids that no record came for."""
        return list(self._without.values())

    def knows(self, identity: object) -> bool:
        return identity in self._seen

    def take(self, page: Page) -> None:
        """Count a page in, once all of it is there."""
        self.records += len(page.fresh)
        self.duplicates += page.lines - len(page.fresh)
        self._seen |= page.fresh
        for name in page.processids:
            self._without.pop(name, None)


class Page:
    """One reply on its way: `feed` and `close` give what is to be kept of it.

    They raise `BadPage`, and `Unavailable` for a page that ends within a record or holds an error, which
    `spoken` puts in words.
    """

    def __init__(self, batch: Batch, spoken: Callable[[Any], str]) -> None:
        self.lines = 0
        self.fresh: set[object] = set()
        self.processids: set[object] = set()
        self._batch = batch
        self._spoken = spoken
        self._reader = line_reader()

    def feed(self, chunk: bytes) -> bytes:
        return self._kept(self._reader.feed(chunk))

    def close(self) -> bytes:
        return self._kept(self._reader.close())

    def _kept(self, lines: Iterator[tuple[bytes, dict[str, Any]]]) -> bytes:
        kept = []
        try:
            for line, record in lines:
                if record and record.keys() <= ERROR_KEYS:
                    words = self._spoken(record)
                    raise Unavailable(f"line {self._reader.line} of a page is an error, no record: {words}")
                if self._is_new(line, record):
                    kept.append(line)
        except Malformed as error:
            raise BadPage(str(error)) from error
        except Truncated as error:
            raise Unavailable(f"a page of records broke off: {error}") from error
        return b"".join(kept)

    def _is_new(self, line: bytes, record: dict[str, Any]) -> bool:
        self.lines += 1
        name = record.get("processid")
        if isinstance(name, str):
            self.processids.add(name)
        own = record.get("record_id")
        identity = own if isinstance(own, str) and own else hashlib.sha256(line).digest()
        if identity in self.fresh or self._batch.knows(identity):
            return False
        self.fresh.add(identity)
        return True
