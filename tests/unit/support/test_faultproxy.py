"""The fault proxy, before small servers of HTTP and Redis's language in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.faultproxy import FaultProxy, http_reply
from tests.support.waiting import eventually


class HttpServer:
    """Keeps connections alive, remembers requests; /chunked answers in chunks, the others with a length."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.bodies: list[bytes] = []
        self.open = 0
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.seen.append(head.split("\r\n")[0])
                length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0] or 0)
                self.bodies.append(await reader.readexactly(length))
                writer.write(self.reply(self.seen[-1]))
                await writer.drain()
        except asyncio.IncompleteReadError as error:
            if error.partial:
                self.bodies.append(error.partial)
        finally:
            self.open -= 1
            writer.close()

    def reply(self, line: str) -> bytes:
        if "/chunked" in line:
            return (
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nWiki\r\n5\r\npedia\r\n0\r\n\r\n"
            )
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"
        return head if line.startswith("HEAD") else head + b"0123456789"


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    http = HttpServer()
    listener = await asyncio.start_server(http.serve, "127.0.0.1", 0)
    http.port = listener.sockets[0].getsockname()[1]
    yield http
    listener.close()
    await eventually(lambda: http.open == 0)


@pytest.fixture
async def proxy(server: HttpServer) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(("127.0.0.1", server.port), "http") as proxy:
        yield proxy


class Client:
    """One HTTP connection, byte for byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, proxy: FaultProxy) -> Client:
        if proxy.unix_path:
            return cls(*await asyncio.open_unix_connection(proxy.unix_path))
        return cls(*await asyncio.open_connection("127.0.0.1", proxy.port))

    def send(self, line: str, body: bytes = b"") -> None:
        head = f"{line} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)

    async def ask(self, line: str, body: bytes = b"") -> bytes:
        """The reply's body (as framed), or IncompleteReadError."""
        self.send(line, body)
        head = await self.reader.readuntil(b"\r\n\r\n")
        if b"chunked" in head:
            return await self.reader.readuntil(b"0\r\n\r\n")
        length = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0])
        return await self.reader.readexactly(0 if line.startswith("HEAD") else length)

    async def close(self) -> None:
        self.writer.close()


@pytest.fixture
async def client(proxy: FaultProxy) -> AsyncIterator[Client]:
    client = await Client.connect(proxy)
    yield client
    await client.close()


async def test_it_forwards_requests_of_one_connection_in_order(
    server: HttpServer, proxy: FaultProxy, client: Client
) -> None:
    assert await client.ask("PUT /a", b"x" * 300_000) == b"0123456789"
    assert await client.ask("HEAD /b") == b""
    assert (await client.ask("GET /chunked")).startswith(b"4\r\nWiki")
    assert await client.ask("GET /c") == b"0123456789"
    assert server.bodies[0] == b"x" * 300_000
    lines = ["PUT /a", "HEAD /b", "GET /chunked", "GET /c"]
    assert proxy.requests == server.seen == [f"{line} HTTP/1.1" for line in lines]
    assert proxy.connections == proxy.open_connections == 1


async def test_pipelined_requests_get_their_own_faults(
    server: HttpServer, proxy: FaultProxy, client: Client
) -> None:
    fault = proxy.drop_reply("/b")
    client.send("GET /a")
    client.send("GET /b")
    assert (await client.reader.read()).endswith(b"\r\n\r\n0123456789")
    assert len(server.seen) == 2
    assert fault.hits == 1


async def test_a_dropped_reply_is_of_a_request_that_acted(
    server: HttpServer, proxy: FaultProxy, client: Client
) -> None:
    fault = proxy.drop_reply(r"^PUT .*/queue/")
    assert await client.ask("GET /queue/x") == b"0123456789"
    with pytest.raises(asyncio.IncompleteReadError) as caught:
        await client.ask("PUT /queue/x", b"body")
    assert caught.value.partial == b""
    assert server.bodies[-1] == b"body"
    assert fault.hits == 1
    again = await Client.connect(proxy)
    assert await again.ask("PUT /queue/x") == b"0123456789"
    await again.close()


async def test_a_lost_request_is_never_seen(server: HttpServer, proxy: FaultProxy, client: Client) -> None:
    proxy.lose_request("/x")
    with pytest.raises(asyncio.IncompleteReadError):
        await client.ask("PUT /x")
    assert server.seen == []


async def test_a_reply_is_cut_in_its_body(proxy: FaultProxy, client: Client) -> None:
    proxy.cut_reply("/x", after=4)
    with pytest.raises(asyncio.IncompleteReadError) as caught:
        await client.ask("GET /x")
    assert caught.value.partial == b"0123"


async def test_a_request_is_cut_in_its_body(server: HttpServer, proxy: FaultProxy, client: Client) -> None:
    proxy.cut_request("/x", after=100_000)
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await client.ask("PUT /x", b"y" * 300_000)
    await eventually(lambda: server.bodies)
    assert server.bodies == [b"y" * 100_000]


async def test_an_injected_answer_keeps_the_connection(
    server: HttpServer, proxy: FaultProxy, client: Client
) -> None:
    proxy.answer("/x", reply=http_reply(503, b"busy", headers={"Retry-After": "1"}), times=2)
    assert await client.ask("PUT /x", b"body") == b"busy"
    assert await client.ask("PUT /x", b"body") == b"busy"
    assert await client.ask("PUT /x", b"body") == b"0123456789"
    assert len(server.seen) == 1


async def test_a_black_hole_takes_everything_and_answers_nothing(
    server: HttpServer, proxy: FaultProxy, client: Client
) -> None:
    with proxy.black_hole() as hole:
        client.send("GET /x")
        await eventually(lambda: hole.hits == 1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.reader.read()
    assert server.seen == []
    again = await Client.connect(proxy)
    assert await again.ask("GET /x") == b"0123456789"
    await again.close()


@pytest.mark.parametrize("side", ["request", "reply"])
async def test_requests_and_replies_can_be_late(
    side: str, server: HttpServer, proxy: FaultProxy, client: Client
) -> None:
    late = proxy.delay_request if side == "request" else proxy.delay_reply
    late("/x", seconds=0.1)
    start = asyncio.get_running_loop().time()
    asked = asyncio.create_task(client.ask("GET /x"))
    if side == "reply":
        await eventually(lambda: server.seen)
        assert not asked.done()
    assert await asked == b"0123456789"
    assert asyncio.get_running_loop().time() - start >= 0.1


async def test_faults_skip_count_and_end(proxy: FaultProxy, client: Client) -> None:
    fault = proxy.answer("/x", reply=http_reply(500, b"no"), times=None, skip=1)
    answers = [await client.ask("GET /x") for _ in range(3)]
    fault.remove()
    fault.remove()
    assert [*answers, await client.ask("GET /x")] == [b"0123456789", b"no", b"no", b"0123456789"]
    assert fault.hits == 2


async def test_it_refuses_and_accepts_again_on_the_same_port(proxy: FaultProxy, client: Client) -> None:
    port = proxy.port
    await proxy.refuse()
    assert await client.reader.read() == b""
    with pytest.raises(ConnectionRefusedError):
        await Client.connect(proxy)
    await proxy.heal()
    assert proxy.port == port
    again = await Client.connect(proxy)
    assert await again.ask("GET /x") == b"0123456789"
    await again.close()


async def test_a_pause_holds_bytes_back_and_loses_none(
    server: HttpServer, proxy: FaultProxy, client: Client
) -> None:
    proxy.pause()
    asked = asyncio.create_task(client.ask("GET /x"))
    await eventually(lambda: proxy.requests)
    assert server.seen == []
    proxy.resume()
    assert await asked == b"0123456789"


async def test_it_ends_connections_whose_client_or_server_has_gone(
    server: HttpServer, proxy: FaultProxy, client: Client
) -> None:
    await client.ask("GET /x")
    await client.close()
    await eventually(lambda: proxy.open_connections == 0 and server.open == 0)


async def test_an_upstream_that_is_not_there_closes_the_connection(proxy: FaultProxy) -> None:
    async with FaultProxy(("127.0.0.1", 1), "http") as nowhere:
        client = await Client.connect(nowhere)
        assert await client.reader.read() == b""
        await client.close()


async def test_with_reset_connections_end_by_rst(server: HttpServer) -> None:
    async with FaultProxy(("127.0.0.1", server.port), "http", reset=True) as proxy:
        proxy.drop_reply()
        client = await Client.connect(proxy)
        with pytest.raises(ConnectionResetError):
            await client.ask("GET /x")
        await client.close()


async def test_it_works_over_unix_sockets(server: HttpServer, tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    async with (
        FaultProxy(("127.0.0.1", server.port), "http", unix_path=first),
        FaultProxy(first, "http", unix_path=second) as proxy,
    ):
        client = await Client.connect(proxy)
        assert await client.ask("GET /x") == b"0123456789"
        await client.close()


# --- Redis's language ---


async def test_it_knows_commands_and_their_replies() -> None:
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            seen.append(data)
            writer.write(b"+OK\r\n")
            writer.write(b"*2\r\n$3\r\na\r\n\r\n%1\r\n+k\r\n*0\r\n")
            writer.write(b">2\r\n+push\r\n:1\r\n$-1\r\n")
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with FaultProxy(listener.sockets[0].getsockname()[:2], "redis") as proxy:
        fault = proxy.drop_reply("^GET gone")
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(
            b"PING\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\n\r\n\r\n\r\n*2\r\n$3\r\nGET\r\n$4\r\ngone\r\n"
        )
        reply = await reader.read()
        writer.close()
    listener.close()
    assert proxy.requests == ["PING", "SET k \r\n\r\n", "GET gone"]
    assert reply == b"+OK\r\n*2\r\n$3\r\na\r\n\r\n%1\r\n+k\r\n*0\r\n>2\r\n+push\r\n:1\r\n"
    assert fault.hits == 1
    assert b"".join(seen).endswith(b"gone\r\n")


async def test_raw_bytes_pass_and_are_cut() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            writer.write(data)
        writer.close()

    listener = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with FaultProxy(listener.sockets[0].getsockname()[:2]) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        proxy.cut_reply("world", after=2)
        writer.write(b"world")
        assert await reader.read() == b"wo"
        writer.close()
    listener.close()
