"""Hears what a running job shall do: the control blob of its stem, the only word that reaches a worker."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Final

from aioanalysis import logs
from aioanalysis.domain.exchange import Container, Control, control_name
from aioanalysis.errors import Contested, Damaged, Missing
from aioanalysis.interfaces import PackageStorage

ACTIONS: Final = frozenset({"kill", "interrupt", "discard"})
CONTROL_MAX_BYTES: Final = 64 * 1024
LOOK_SECONDS: Final = 2.0
APART_SECONDS: Final = 0.25  # between looks at least: short phases share one

log = logs.get()


class Orders:
    """The control blob of one attempt: looked at when a phase begins, every two seconds, and when asked."""

    def __init__(self, storage: PackageStorage, stem: str, attempt: int, seconds: float) -> None:
        self._storage = storage
        self._stem = stem
        self._attempt = attempt
        self._seconds = min(seconds, LOOK_SECONDS)
        self._now = asyncio.Event()

    def look_now(self) -> None:
        """Look as soon as may be: a phase begins."""
        self._now.set()

    async def wait(self) -> str:
        """The action for this attempt, once there is one. What cannot be read now is read later."""
        while True:
            self._now.clear()
            began = time.monotonic()
            try:
                action = await self.read()
            except Exception as error:
                log.warning("control_not_read", stem=self._stem, cause=f"{type(error).__name__}: {error}")
            else:
                if action is not None:
                    return action
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await self._now.wait()
            await asyncio.sleep(max(0.0, began + APART_SECONDS - time.monotonic()))

    async def read(self) -> str | None:
        """The action for this attempt, None when there is none. Raises `Unavailable`."""
        data = bytearray()
        try:
            async with self._storage.open(Container.RESULTS, control_name(self._stem)) as stream:
                async for chunk in stream.chunks():
                    data += chunk
                    if len(data) > CONTROL_MAX_BYTES:
                        raise Damaged("it is too long")
            control = Control.from_bytes(bytes(data))
        except (Missing, Contested):
            return None
        except Damaged as error:
            log.error("control_damaged", stem=self._stem, cause=str(error))
            return None
        if control.attempt != self._attempt:
            return None
        if control.action not in ACTIONS:
            log.error("control_unknown", stem=self._stem, action=control.action)
            return None
        return control.action
