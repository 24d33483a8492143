"""Job changes and progress as server-sent events: read once a process, a bounded queue for each listener."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from aiohttp import web

from aioanalysis import logs
from aioanalysis.aio import Tasks
from aioanalysis.api.context import CALLER, TRACE
from aioanalysis.api.endpoints import Endpoint
from aioanalysis.api.runviews import rfc3339
from aioanalysis.api.signin import still_holds
from aioanalysis.errors import Invalid, Missing, Unavailable
from aioanalysis.interfaces import JobEvent, JobEvents, JobProgress, ProgressBoard, User

QUEUE_LENGTH: Final = 500
BATCH: Final = 500
GATHER_SECONDS: Final = 0.02
"""Once events come close behind each other: those of so long are read in one call."""

LISTENERS_MAX: Final = 2000
HEARTBEAT_SECONDS: Final = 15.0
WRITE_SECONDS: Final = 20.0
RETRY_MILLISECONDS: Final = 2000
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0

log = logs.get()


class Listener:
    """One stream's events: those that its user may see. `lost` when it has been too slow to take them."""

    def __init__(self, user: User) -> None:
        self.user = user
        self._waiting: asyncio.Queue[JobEvent | JobProgress | None] = asyncio.Queue(QUEUE_LENGTH)
        self.lost = False

    def sees(self, event: JobEvent | JobProgress) -> bool:
        return self.user.sees_all or event.submitter == self.user.name

    def give(self, event: JobEvent) -> None:
        if self.lost or not self.sees(event):
            return
        if self._waiting.full():
            self.lose()
        else:
            self._waiting.put_nowait(event)

    def inform(self, progress: JobProgress) -> None:
        """Give it, unless much waits already: the next one says as much."""
        if not self.lost and self.sees(progress) and self._waiting.qsize() < QUEUE_LENGTH // 2:
            self._waiting.put_nowait(progress)

    def lose(self) -> None:
        """Drop what waits: the listener is told to begin anew."""
        self.lost = True
        while not self._waiting.empty():
            self._waiting.get_nowait()
        self._waiting.put_nowait(None)

    async def next(self, seconds: float) -> JobEvent | JobProgress | None:
        """The next event; None when none came in time, or `lost` is set."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await self._waiting.get()
        return None

    def wake(self) -> None:
        """Makes `next` return soon."""
        with suppress(asyncio.QueueFull):
            self._waiting.put_nowait(None)


class Hub:
    """Reads the job store's events and hands them to the listeners of this process."""

    def __init__(self, source: JobEvents, board: ProgressBoard) -> None:
        self.source = source
        self._board = board
        self.stopping = False
        self._listeners: set[Listener] = set()
        self._started = asyncio.Event()

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    @contextmanager
    def listening(self, user: User) -> Iterator[Listener]:
        if len(self._listeners) >= LISTENERS_MAX:
            raise Unavailable("too many listen already", retry_after=10)
        listener = Listener(user)
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    async def ready(self) -> None:
        """Wait until events are read; raises `Unavailable`."""
        try:
            async with asyncio.timeout(3):
                await self._started.wait()
        except TimeoutError:
            raise Unavailable("the job store does not answer", retry_after=2) from None

    async def run(self) -> None:
        """For ever, through faults. Each look makes sure that nothing was missed: the store may lose data."""
        place: str | None = None
        pause = FIRST_PAUSE
        while True:
            try:
                if place is None:
                    place = await self.source.newest()
                else:
                    place = self._hand_out(await self.source.after(place, limit=BATCH), place)
                self._started.set()
                pause = FIRST_PAUSE
                while True:
                    await self.source.wait(place, limit=1)
                    events = await self.source.after(place, limit=BATCH)
                    place = self._hand_out(events, place)
                    if len(events) > 1:
                        await asyncio.sleep(GATHER_SECONDS)
            except Missing:
                for listener in self._listeners:
                    listener.lose()
                place = None
            except Exception as error:  # nothing may end it
                self._started.clear()
                log.warning("events_not_read", problem=str(error) or type(error).__name__)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    async def run_progress(self) -> None:
        """As `run`, of progress; what is told while it cannot be read is not made up for."""
        pause = FIRST_PAUSE
        while True:
            try:
                place = await self._board.newest()
                pause = FIRST_PAUSE
                while True:
                    place, news = await self._board.wait(place, limit=BATCH)
                    for progress in news:
                        for listener in self._listeners:
                            listener.inform(progress)
            except Exception as error:  # nothing may end it
                log.warning("progress_not_read", problem=str(error) or type(error).__name__)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    def _hand_out(self, events: Sequence[JobEvent], place: str) -> str:
        for event in events:
            for listener in self._listeners:
                listener.give(event)
            place = event.id
        return place

    def stop(self) -> None:
        """End all streams; their clients come back, to another process if there is one."""
        self.stopping = True
        for listener in self._listeners:
            listener.wake()


HUB: Final = web.AppKey("hub", Hub)


async def running(app: web.Application) -> AsyncIterator[None]:
    """For `cleanup_ctx`: the hub reads for as long as the application lives."""
    async with Tasks() as tasks:
        tasks.start(app[HUB].run(), name="events")
        tasks.start(app[HUB].run_progress(), name="progress")
        yield


async def end_streams(app: web.Application) -> None:
    """For `on_shutdown`."""
    app[HUB].stop()


async def listen(request: web.Request) -> web.StreamResponse:
    """Changes and progress of the jobs that the caller may see, from now; changes from Last-Event-ID on.

    Events are `job` (`kind` is created, changed or removed), `reset` (events were missed, load anew) and
    `progress` of a run: `stage` of `stages`, its `name`, and what it says of itself, else null: `message`
    and `fraction`. Progress has no id and is not told again; it may come just after the change that ends it.
    """
    hub = request.app[HUB]
    since = request.headers.get("Last-Event-ID")
    if hub.stopping:
        raise Unavailable("the service is stopping", retry_after=2)
    response = web.StreamResponse(headers=_HEADERS)
    if request.method == "HEAD":
        await response.prepare(request)
        return response
    await hub.ready()
    with hub.listening(request[CALLER].user) as listener:
        stream = Stream(request, response, listener, hub)
        newest = await hub.source.newest()
        missed = await stream.missed(since) if since else None
        await response.prepare(request)
        try:
            await stream.begin(newest, missed)
            await stream.follow()
        except ConnectionError:
            request[TRACE].cut = "client"
        except TimeoutError:
            request[TRACE].cut = "slow client"
            if request.transport is not None:
                request.transport.abort()
    return response


class Stream:
    """What one listener is sent; no event twice, and none before another."""

    def __init__(
        self, request: web.Request, response: web.StreamResponse, listener: Listener, hub: Hub
    ) -> None:
        self._request = request
        self._response = response
        self._listener = listener
        self._hub = hub
        self._sent = (0, 0)

    async def missed(self, since: str) -> list[JobEvent] | None:
        """The visible events after `since`; None when they are not kept any more."""
        found: list[JobEvent] = []
        try:
            while events := await self._hub.source.after(since, limit=BATCH):
                found += [event for event in events if self._listener.sees(event)]
                since = events[-1].id
        except (Missing, Invalid):
            return None
        return found

    async def begin(self, newest: str, missed: list[JobEvent] | None) -> None:
        """Without Last-Event-ID only the place is told from where a client that comes back will go on."""
        await self._write(f"retry: {RETRY_MILLISECONDS}\n\n")
        if "Last-Event-ID" not in self._request.headers:
            self._sent = _place(newest)
            await self._write(f"id: {newest}\n\n")
        elif missed is None:
            await self._reset(newest)
        else:
            for event in missed:
                await self._send(event)

    async def follow(self) -> None:
        """Until the client leaves, its session or key is nobody's any more, or the service stops."""
        clock = asyncio.get_running_loop().time
        looked = clock()
        while not self._hub.stopping:
            event = await self._listener.next(HEARTBEAT_SECONDS)
            if clock() >= looked + HEARTBEAT_SECONDS:
                if not await still_holds(self._request):
                    return
                looked = clock()
            if self._listener.lost:
                self._listener.lost = False  # before the look: what comes meanwhile waits
                await self._reset(await self._hub.source.newest())
            elif isinstance(event, JobProgress):
                await self._tell(event)
            elif event is not None:
                await self._send(event)
            elif not self._hub.stopping:
                await self._write(":\n\n")

    async def _send(self, event: JobEvent) -> None:
        place = _place(event.id)
        if place <= self._sent:
            return
        self._sent = place
        data = {"kind": event.kind, "job": event.job, "title": event.title, "state": event.state}
        if self._listener.user.sees_all:
            data["submitter"] = event.submitter
        await self._write(f"id: {event.id}\nevent: job\ndata: {json.dumps(data)}\n\n")

    async def _tell(self, news: JobProgress) -> None:
        progress = news.progress
        data = {
            "id": news.job,
            "title": news.title,
            "frame": news.frame,
            "stage": progress.stage,
            "stages": progress.stages,
            "name": progress.name,
            "message": progress.message,
            "fraction": progress.fraction,
            "at": rfc3339(progress.at),
        }
        if self._listener.user.sees_all:
            data["submitter"] = news.submitter
        await self._write(f"event: progress\ndata: {json.dumps(data)}\n\n")

    async def _reset(self, newest: str) -> None:
        self._sent = _place(newest)
        await self._write(f"id: {newest}\nevent: reset\ndata: {{}}\n\n")

    async def _write(self, text: str) -> None:
        async with asyncio.timeout(WRITE_SECONDS):
            await self._response.write(text.encode())


_HEADERS: Final = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}


def _place(event: str) -> tuple[int, int]:
    milliseconds, _, number = event.partition("-")
    return int(milliseconds), int(number)


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/v1/events",
        handler=listen,
        summary="Job changes and progress as server-sent events",
        headers={"Last-Event-ID": {"type": "string", "description": "From which event on."}},
        answer="text/event-stream",
    ),
)
