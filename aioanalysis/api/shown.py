"""What is answered about one job, written once and kept for as long as it would be written the same."""

from __future__ import annotations

from datetime import datetime
from typing import Final
from weakref import WeakKeyDictionary

from aiohttp import web

from aioanalysis.api.responses import JobView, Known, to_bytes
from aioanalysis.domain.why import why_holds_until
from aioanalysis.interfaces import Glance


class Shown:
    """By glance: the job store gives the same one again while nothing of the job has changed."""

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[Glance, tuple[bytes, datetime | None]] = WeakKeyDictionary()

    def of(self, glance: Glance, now: datetime) -> bytes:
        """The job's JSON."""
        kept = self._kept.get(glance)
        if kept is not None and (kept[1] is None or now < kept[1]):
            return kept[0]
        body = to_bytes(JobView.of(glance.job, now, Known(glance.outlook, glance.progress)))
        self._kept[glance] = body, why_holds_until(glance.job, now, glance.outlook)
        return body


SHOWN: Final = web.AppKey("shown", Shown)
