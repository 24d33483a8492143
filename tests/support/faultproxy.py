"""One proxy for all network faults, over TCP or a unix socket; it knows where HTTP and Redis messages end.

    async with FaultProxy(("127.0.0.1", azurite.port), "http") as proxy:
        client = connect(azurite.through(proxy.port))
        fault = proxy.drop_reply(r"^PUT .*comp=lease")     # the next such request acts, its reply is lost
        ...
        assert fault.hits == 1 and len(proxy.requests) == 2

A fault's `pattern` is searched in the request's line: HTTP's first line (`PUT /queue/x?y HTTP/1.1`), Redis's
command with its arguments (`SET key value`), or in `raw` mode whatever one read brought. A fault strikes
`times` requests (None: all) after letting `skip` pass; as a context manager it ends with its block.
HTTP upgrades are not understood.
"""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Literal, Self

Address = tuple[str, int] | str | Path
Language = Literal["http", "redis", "raw"]

READ = 64 * 1024
LIMIT = 1024 * 1024
LINE = 500


class Action(Enum):
    LOSE_REQUEST = auto()
    CUT_REQUEST = auto()
    DELAY_REQUEST = auto()
    SWALLOW = auto()
    ANSWER = auto()
    DROP_REPLY = auto()
    CUT_REPLY = auto()
    DELAY_REPLY = auto()


@dataclass(kw_only=True)
class Fault:
    """What happens to which requests. `hits` counts those it struck."""

    action: Action
    pattern: re.Pattern[str]
    times: int | None
    skip: int
    seconds: float = 0
    after: int = 0
    reply: bytes = b""
    hits: int = 0
    remove: Callable[[], None] = field(default=lambda: None, repr=False)

    def strikes(self, line: str) -> bool:
        if not self.pattern.search(line) or self.times == 0:
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times is not None:
            self.times -= 1
        self.hits += 1
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class FaultProxy:
    """Forwards every connection to `upstream` until told otherwise.

    Listens on a free loopback `port`, or at `unix_path` if given. `connections` counts those accepted,
    `requests` holds their lines in order. With `reset`, cut connections end by RST instead of FIN.
    """

    def __init__(
        self,
        upstream: Address,
        language: Language = "raw",
        *,
        unix_path: Path | None = None,
        reset: bool = False,
    ) -> None:
        self.upstream = upstream
        self.unix_path = unix_path
        self.reset = reset
        self.port = 0
        self.connections = 0
        self.requests: list[str] = []
        self._messages = _LANGUAGES[language]
        self._faults: list[Fault] = []
        self._server: asyncio.Server | None = None
        self._links: dict[asyncio.Task[None], _Link] = {}
        self._flowing = asyncio.Event()
        self._flowing.set()

    async def __aenter__(self) -> Self:
        await self.accept()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.refuse()

    # --- the whole proxy ---

    async def accept(self) -> None:
        """Listen (again, at the same address)."""
        if self._server is not None:
            return
        if self.unix_path:
            self._server = await asyncio.start_unix_server(self._accepted, self.unix_path, limit=LIMIT)
        else:
            self._server = await asyncio.start_server(self._accepted, "127.0.0.1", self.port, limit=LIMIT)
            self.port = self._server.sockets[0].getsockname()[1]

    async def refuse(self) -> None:
        """Refuse new connections and end those that there are."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        if self.unix_path:
            self.unix_path.unlink(missing_ok=True)
        await self.drop_connections()

    async def drop_connections(self) -> None:
        """End all present connections, as a restart of a router would."""
        links = dict(self._links)
        for task, link in links.items():
            link.abort()
            task.cancel()
        if links:
            await asyncio.wait(links)

    @property
    def open_connections(self) -> int:
        return len(self._links)

    def pause(self) -> None:
        """Hold back every byte, both ways, until `resume`; connections are still accepted."""
        self._flowing.clear()

    def resume(self) -> None:
        self._flowing.set()

    async def heal(self) -> None:
        """Forget all faults."""
        self._faults.clear()
        self.resume()
        await self.accept()

    # --- single requests ---

    def lose_request(self, pattern: str = "", *, times: int | None = 1, skip: int = 0) -> Fault:
        """Close before the server sees the request."""
        return self._add(Action.LOSE_REQUEST, pattern, times, skip)

    def cut_request(self, pattern: str = "", *, after: int, times: int | None = 1, skip: int = 0) -> Fault:
        """Close when `after` bytes of the request's body (raw, Redis: of the request) have gone through."""
        return self._add(Action.CUT_REQUEST, pattern, times, skip, after=after)

    def delay_request(
        self, pattern: str = "", *, seconds: float, times: int | None = 1, skip: int = 0
    ) -> Fault:
        return self._add(Action.DELAY_REQUEST, pattern, times, skip, seconds=seconds)

    def black_hole(self, pattern: str = "", *, times: int | None = None, skip: int = 0) -> Fault:
        """Take the request, and all that follows on its connection, and never answer."""
        return self._add(Action.SWALLOW, pattern, times, skip)

    def answer(self, pattern: str = "", *, reply: bytes, times: int | None = 1, skip: int = 0) -> Fault:
        """Answer in the server's place, which never sees the request; see `http_reply`."""
        return self._add(Action.ANSWER, pattern, times, skip, reply=reply)

    def drop_reply(self, pattern: str = "", *, times: int | None = 1, skip: int = 0) -> Fault:
        """Let the server act, take its whole reply, then close instead of passing it on."""
        return self._add(Action.DROP_REPLY, pattern, times, skip)

    def cut_reply(self, pattern: str = "", *, after: int, times: int | None = 1, skip: int = 0) -> Fault:
        """Close when `after` bytes of the reply's body (raw, Redis: of the reply) have gone through."""
        return self._add(Action.CUT_REPLY, pattern, times, skip, after=after)

    def delay_reply(
        self, pattern: str = "", *, seconds: float, times: int | None = 1, skip: int = 0
    ) -> Fault:
        """Let the server act, pass its reply on late."""
        return self._add(Action.DELAY_REPLY, pattern, times, skip, seconds=seconds)

    def _add(
        self,
        action: Action,
        pattern: str,
        times: int | None,
        skip: int,
        *,
        seconds: float = 0,
        after: int = 0,
        reply: bytes = b"",
    ) -> Fault:
        fault = Fault(
            action=action,
            pattern=re.compile(pattern),
            times=times,
            skip=skip,
            seconds=seconds,
            after=after,
            reply=reply,
        )
        fault.remove = lambda: self._faults.remove(fault) if fault in self._faults else None
        self._faults.append(fault)
        return fault

    # --- forwarding ---

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Not a coroutine: on Python 3.11 asyncio reports the cancelled task of one as an error.
        self.connections += 1
        link = _Link(client=writer, reset=self.reset)
        task = asyncio.create_task(self._serve(link, reader), name="faultproxy connection")
        self._links[task] = link
        task.add_done_callback(self._links.pop)

    async def _serve(self, link: _Link, reader: asyncio.StreamReader) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                up_reader, link.upstream = await self._connect()
                await self._forward(link, reader, up_reader)
        finally:
            await link.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self.upstream, tuple):
            return await asyncio.open_connection(*self.upstream, limit=LIMIT)
        return await asyncio.open_unix_connection(self.upstream, limit=LIMIT)

    async def _forward(
        self, link: _Link, client: asyncio.StreamReader, upstream: asyncio.StreamReader
    ) -> None:
        """Until either side ends."""
        async with (
            aclosing(self._messages(client, None)) as requests,
            aclosing(self._messages(upstream, link.pending)) as replies,
        ):
            pumps = [
                asyncio.create_task(
                    self._forward_requests(link, client, requests), name="faultproxy requests"
                ),
                asyncio.create_task(self._forward_replies(link, replies), name="faultproxy replies"),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                ends = await asyncio.gather(*pumps, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end

    async def _forward_requests(
        self, link: _Link, reader: asyncio.StreamReader, requests: AsyncGenerator[_Message, None]
    ) -> None:
        assert link.upstream is not None
        async for message in requests:
            self.requests.append(message.line)
            fault = next((fault for fault in self._faults if fault.strikes(message.line)), None)
            match fault and fault.action:
                case Action.LOSE_REQUEST:
                    link.abort()
                    return
                case Action.SWALLOW:
                    while await reader.read(READ):
                        pass
                    return
                case Action.ANSWER:
                    assert fault is not None
                    await message.read()
                    await self._write(link.client, fault.reply)
                    continue
                case Action.CUT_REQUEST:
                    assert fault is not None
                    await self._write_some(link.upstream, message, fault.after)
                    link.abort_client()
                    return
                case Action.DELAY_REQUEST:
                    assert fault is not None
                    await asyncio.sleep(fault.seconds)
            link.pending.append((message.line, fault))
            await self._write_some(link.upstream, message, None)

    async def _forward_replies(self, link: _Link, replies: AsyncGenerator[_Message, None]) -> None:
        async for message in replies:
            fault = message.fault
            match fault and fault.action:
                case Action.DROP_REPLY:
                    await message.read()
                    link.abort()
                    return
                case Action.CUT_REPLY:
                    assert fault is not None
                    await self._write_some(link.client, message, fault.after)
                    return
                case Action.DELAY_REPLY:
                    assert fault is not None
                    await asyncio.sleep(fault.seconds)
            await self._write_some(link.client, message, None)

    async def _write_some(self, writer: asyncio.StreamWriter, message: _Message, most: int | None) -> None:
        """Forward the head and the body, or the body's first `most` bytes."""
        await self._write(writer, message.head)
        left = most
        async with aclosing(message.body) as body:
            async for piece in body:
                await self._write(writer, piece if left is None else piece[:left])
                if left is not None:
                    left = max(0, left - len(piece))
                    if left == 0:
                        return

    async def _write(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        await self._flowing.wait()
        writer.write(data)
        await writer.drain()


@dataclass(kw_only=True)
class _Link:
    """One connection's two ends, and the requests that wait for their replies."""

    client: asyncio.StreamWriter
    reset: bool
    upstream: asyncio.StreamWriter | None = None
    pending: _Pending = field(default_factory=deque)

    def abort(self) -> None:
        self.abort_client()
        if self.upstream is not None:
            self.upstream.transport.abort()

    def abort_client(self) -> None:
        if self.reset and (sock := self.client.get_extra_info("socket")) is not None:
            with suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.client.transport.abort()

    async def close(self) -> None:
        """Close both ends; what is buffered gets a second to leave."""
        for writer in (self.client, self.upstream):
            if writer is None:
                continue
            writer.close()
            try:
                async with asyncio.timeout(1):
                    await writer.wait_closed()
            except (OSError, TimeoutError):
                writer.transport.abort()


# --- messages ---


@dataclass(kw_only=True)
class _Message:
    line: str
    head: bytes
    body: AsyncGenerator[bytes, None]
    fault: Fault | None = None

    async def read(self) -> None:
        async with aclosing(self.body) as body:
            async for _ in body:
                pass


_Pending = deque[tuple[str, Fault | None]]
_Messages = Callable[[asyncio.StreamReader, "_Pending | None"], AsyncGenerator[_Message, None]]


async def _raw(reader: asyncio.StreamReader, pending: _Pending | None) -> AsyncGenerator[_Message, None]:
    """Each read is a message; a reply answers all requests before it."""
    while data := await reader.read(READ):
        faults = [fault for _, fault in pending or () if fault]
        if pending:
            pending.clear()
        line = data[:LINE].decode("latin-1")
        yield _Message(line=line, head=b"", body=_one(data), fault=faults[0] if faults else None)


async def _redis(reader: asyncio.StreamReader, pending: _Pending | None) -> AsyncGenerator[_Message, None]:
    """RESP 2 and 3: a request is an array of strings, or a line."""
    while True:
        data, words = await _redis_value(reader)
        fault = None
        if pending and data[:1] != b">":  # a push answers nothing
            fault = pending.popleft()[1]
        line = b" ".join(words)[:LINE].decode("latin-1")
        yield _Message(line=line, head=b"", body=_one(data), fault=fault)


async def _redis_value(reader: asyncio.StreamReader) -> tuple[bytes, list[bytes]]:
    """The bytes of one value, and the strings in it."""
    head = await reader.readuntil(b"\r\n")
    kind, rest = head[:1], head[1:-2]
    if kind in b"*>~%|":
        parts, words = [head], []
        for _ in range(max(0, int(rest)) * (2 if kind in b"%|" else 1)):
            data, inner = await _redis_value(reader)
            parts.append(data)
            words += inner
        if kind == b"|":  # attributes precede the value proper
            data, inner = await _redis_value(reader)
            parts.append(data)
            words += inner
        return b"".join(parts), words
    if kind in b"$=!":
        if int(rest) < 0:
            return head, []
        text = await reader.readexactly(int(rest) + 2)
        return head + text, [text[:-2]]
    return head, [head[:-2]]


async def _http(reader: asyncio.StreamReader, pending: _Pending | None) -> AsyncGenerator[_Message, None]:
    """HTTP/1.1 requests, or with `pending` the replies to them."""
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        line = head.split(b"\r\n", 1)[0].decode("latin-1")
        fault = None
        bodyless = False
        if pending is not None:
            status = int(line.split(" ")[1])
            bodyless = status < 200 or status in {204, 304}
            if pending and status >= 200:
                request, fault = pending.popleft()
                bodyless = bodyless or request.startswith("HEAD ")
        body = _none() if bodyless else _http_body(reader, head, reply=pending is not None)
        yield _Message(line=line[:LINE], head=head, body=body, fault=fault)


async def _http_body(
    reader: asyncio.StreamReader, head: bytes, *, reply: bool
) -> AsyncGenerator[bytes, None]:
    if re.search(rb"(?i)\r\ntransfer-encoding:[^\r]*chunked", head):
        size = -1
        while size:
            line = await reader.readuntil(b"\r\n")
            yield line
            size = int(line.split(b";")[0], 16)
            left = size + 2 if size else 0
            while left:
                data = await _some(reader, left)
                left -= len(data)
                yield data
        while line != b"\r\n":  # trailers
            line = await reader.readuntil(b"\r\n")
            yield line
    elif length := re.search(rb"(?i)\r\ncontent-length: *(\d+)", head):
        left = int(length[1])
        while left:
            data = await _some(reader, left)
            left -= len(data)
            yield data
    elif reply:
        while data := await reader.read(READ):
            yield data


async def _some(reader: asyncio.StreamReader, most: int) -> bytes:
    data = await reader.read(min(most, READ))
    if not data:
        raise asyncio.IncompleteReadError(b"", most)
    return data


async def _one(data: bytes) -> AsyncGenerator[bytes, None]:
    yield data


async def _none() -> AsyncGenerator[bytes, None]:
    return
    yield


def http_reply(status: int, body: bytes = b"", *, headers: dict[str, str] | None = None) -> bytes:
    """A whole HTTP reply for `answer`."""
    lines = [f"HTTP/1.1 {status} Injected", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


_LANGUAGES: dict[Language, _Messages] = {"raw": _raw, "redis": _redis, "http": _http}
