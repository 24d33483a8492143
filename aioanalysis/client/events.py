"""The service's events: server-sent events parsed, and a stream of them that outlives its connections."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import aiohttp

from aioanalysis.client.transport import ApiProblem, NotReached, Transport, passes

SILENCE_SECONDS: Final = 45.0  # the service is heard every 15 s
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
EVENT_MAX_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Something has happened to the jobs that the caller may see.

    - `job`: one was created, changed or removed; `data` has `kind`, `title` and `state`.
    - `progress`: one that runs has come further; `data` has `frame`, `stage`, `stages`, `message` and `at`.
    - `reset`: events may have been missed; what is known of jobs should be asked for anew.

    `id` is where to go on from: `client.events(since=event.id)`. `job` is null for `reset`.
    """

    name: Literal["job", "progress", "reset"]
    id: str | None
    job: str | None
    data: dict[str, Any] = field(default_factory=dict)


class Parser:
    """Server-sent events out of bytes as they come (WHATWG HTML, 9.2.6).

    `last_id` and `retry` (seconds) are the latest that were told.
    """

    def __init__(self) -> None:
        self.last_id: str | None = None
        self.retry: float | None = None
        self._rest = b""
        self._name = ""
        self._data: list[str] = []

    def feed(self, piece: bytes) -> Iterator[tuple[str, str]]:
        """(name, data) of each event that this piece completes; raises `NotReached` for an endless one."""
        text = (self._rest + piece).replace(b"\r\n", b"\n")
        # A CR at the very end may be half of a CRLF.
        held = b"\r" if text.endswith(b"\r") else b""
        *lines, rest = text[: len(text) - len(held)].replace(b"\r", b"\n").split(b"\n")
        self._rest = rest + held
        if len(self._rest) + sum(map(len, self._data)) > EVENT_MAX_BYTES:
            raise NotReached("the stream of events cannot be read: an event without an end", sent=True)
        for line in lines:
            if line:
                self._take(line.decode("utf-8", "replace"))
            else:
                if self._data:
                    yield self._name or "message", "\n".join(self._data)
                self._name, self._data = "", []

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._name = value
        elif name == "id" and "\0" not in value:
            self.last_id = value
        elif name == "retry" and value.isdecimal():
            self.retry = int(value) / 1000


async def listen(transport: Transport, since: str | None = None) -> AsyncGenerator[Event, None]:
    """Events from now, or from the id `since` on, for ever.

    Raises `NotReached` if there is no service for the transport's patience at the start, `ApiProblem` if it
    refuses. A connection that ends later is made again, and goes on where the last one ended.
    """
    loop = asyncio.get_running_loop()
    until, begun, place, pause = loop.time() + transport.patience, False, since, FIRST_PAUSE
    while True:
        parser = Parser()
        try:
            async with transport.opened(
                "GET", "/v1/events", headers={"Last-Event-ID": place} if place else {}, timeout=_timeout
            ) as response:
                if begun and place is None:
                    yield Event(name="reset", id=None, job=None)
                begun = True
                async for piece in response.content.iter_any():
                    for name, data in parser.feed(piece):
                        pause = FIRST_PAUSE
                        if (event := _event(name, data, parser.last_id or place)) is not None:
                            yield event
                    place = parser.last_id or place
        except (ApiProblem, NotReached) as error:
            if not passes(error) or (not begun and loop.time() + pause > until):
                raise
            transport.tell(error)
            pause = max(pause, getattr(error, "retry_after", None) or 0)
        place = parser.last_id or place
        pause = max(pause, parser.retry or 0)
        await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311
        pause = min(pause * 2, LONGEST_PAUSE)


_timeout: Final = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=SILENCE_SECONDS)


def _event(name: str, data: str, place: str | None) -> Event | None:
    """None for one that this client does not know, or that is no JSON object."""
    try:
        body = json.loads(data)
    except ValueError:
        return None
    if not isinstance(body, dict):
        return None
    if name == "job":
        return Event(name="job", id=place, job=body.get("job"), data=body)
    if name == "progress":
        return Event(name="progress", id=place, job=body.get("id"), data=body)
    return Event(name="reset", id=place, job=None) if name == "reset" else None
