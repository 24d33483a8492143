"""Server-sent events as a browser reads them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.support.apiserver import Api


class Events:
    """A stream of server-sent events; `id` is the last that was told."""

    def __init__(self, content: Any) -> None:
        self._content = content
        self.id: str | None = None

    async def next(self, within: float = 10) -> tuple[str, dict[str, Any]]:
        """The next event's name and data; comments and lone ids are passed over."""
        name, data = "message", ""
        async with asyncio.timeout(within):
            while True:
                line = (await self._content.readline()).decode()
                if not line:
                    return "end", {}
                field, _, value = line.rstrip("\n").partition(": ")
                if field == "id":
                    self.id = value
                elif field == "event":
                    name = value
                elif field == "data":
                    data = value
                elif not field and data:
                    return name, json.loads(data)

    async def placed(self) -> None:
        """Wait until the place is known from which events come."""
        async with asyncio.timeout(30):
            while self.id is None:
                line = (await self._content.readline()).decode()
                if line.startswith("id: "):
                    self.id = line[4:].strip()


@asynccontextmanager
async def listening(api: Api, by: str, since: str | None = None) -> AsyncIterator[Events]:
    headers = {"Authorization": f"Bearer {api.keys[by]}", **({"Last-Event-ID": since} if since else {})}
    async with api.session.get(f"{api.url}/v1/events", headers=headers) as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/event-stream"
        events = Events(response.content)
        if since is None:
            await events.placed()
        yield events
