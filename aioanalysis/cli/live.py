"""Views that keep themselves up to date: events say when to ask anew, and every second they are drawn."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, TypeVar

from rich.console import Group
from rich.live import Live
from rich.text import Text
from typer import BadParameter

from aioanalysis.cli.output import console
from aioanalysis.client import AnalysisClient, Event

T = TypeVar("T")
Progress = Mapping[str, Mapping[str, Any]]
"""What was last told of a run's progress, by the job's id."""

FETCH_SECONDS: Final = 1.0
REFETCH_SECONDS: Final = 30.0


def require_terminal() -> None:
    """Raises `BadParameter` where a live view cannot be drawn."""
    if not console.is_terminal:
        raise BadParameter("a live view needs a terminal; use --json for programs")


async def show(
    client: AnalysisClient,
    fetch: Callable[[], Awaitable[T]],
    draw: Callable[[T, Progress], Sequence[Text]],
) -> None:
    """Until it is cancelled: what `fetch` gives, asked for anew upon events, at most once a second."""
    progress: dict[str, Mapping[str, Any]] = {}
    news = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(_listen(client, progress, news), name="events")
        with Live(console=console, auto_refresh=False, screen=True) as live:
            data, fetched = await fetch(), _now()
            while True:
                if news.is_set() or _now() > fetched + REFETCH_SECONDS:
                    news.clear()
                    data, fetched = await fetch(), _now()
                lines = list(draw(data, progress))[: console.height]
                live.update(Group(*lines), refresh=True)
                await asyncio.sleep(FETCH_SECONDS)


async def _listen(
    client: AnalysisClient, progress: dict[str, Mapping[str, Any]], news: asyncio.Event
) -> None:
    async with aclosing(client.events()) as events:
        async for event in events:
            if event.name == "progress" and event.job:
                progress[event.job] = event.data
            else:
                if event.job and event.data.get("state") != "running":
                    progress.pop(event.job, None)
                news.set()


async def print_changes(client: AnalysisClient) -> None:
    """Every event as a line of JSON, until it is cancelled."""
    async with aclosing(client.events()) as events:
        async for event in events:
            print(json.dumps(_line(event), ensure_ascii=False), flush=True)


def _line(event: Event) -> dict[str, Any]:
    return {"event": event.name, "id": event.id, "job": event.job, **event.data}


def _now() -> float:
    return asyncio.get_running_loop().time()
