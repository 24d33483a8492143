"""Loads an HTTP server at little cost to itself: keep-alive connections, the same bytes again and again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, kw_only=True)
class Load:
    """What came of it: latencies in seconds, in order of their ends."""

    seconds: float
    latencies: Sequence[float]

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.seconds

    def percentile(self, share: float) -> float:
        return sorted(self.latencies)[min(int(len(self.latencies) * share), len(self.latencies) - 1)]


async def load(
    requests: Sequence[bytes], server: str, *, count: int, connections: int = 16, pause: float = 0.0
) -> Load:
    """Send `requests` in turn, `count` in all; each of `connections` waits for its answer, and `pause` more.

    An answer that is no success, or has no length, is an error.
    """
    address = urlsplit(server)
    left = iter(range(count))
    latencies: list[float] = []

    async def one() -> None:
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        try:
            for number in left:
                request = requests[number % len(requests)]
                began = time.perf_counter()
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                if not head.startswith(b"HTTP/1.1 2"):
                    raise RuntimeError(f"{request[:60]!r} is answered by {head[:60]!r}")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                await reader.readexactly(length)
                latencies.append(time.perf_counter() - began)
                if pause:
                    await asyncio.sleep(pause)
        finally:
            writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(connections)))
    return Load(seconds=time.perf_counter() - began, latencies=latencies)


def request_bytes(method: str, path: str, *, key: str | None = None, body: bytes = b"") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    if key:
        lines.append(f"Authorization: Bearer {key}")
    if body:
        lines.append("Content-Type: application/json")
    return "\r\n".join([*lines, "", ""]).encode() + body
