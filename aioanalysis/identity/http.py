"""Identity from an HTTP service that is asked with the key, and believed for a short while.

A good answer is `{"user": NAME}`, with `"role": "user" | "administrator"` if it likes; 401, 403 and 404 mean
that nobody holds the key. Anything else is an outage: nobody gets in by it, and who is in already stays no
longer than the answer of the time before it holds.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, Literal

import aiohttp

from aioanalysis.errors import Unavailable
from aioanalysis.identity.keyfile import RESERVED, USER_LENGTH, digest
from aioanalysis.interfaces import User

ASK_SECONDS: Final = 5.0
ANSWER_MAX_BYTES: Final = 64 * 1024
REMEMBERED: Final = 10_000
RETRY_AFTER: Final = 5.0
NOBODY: Final = frozenset({401, 403, 404})


class HttpIdentity:
    """`Identity`; made by `open_http_identity`. Keys are remembered by their digest only."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        *,
        header: Literal["bearer", "api-key"] = "bearer",
        good_seconds: float = 60,
        bad_seconds: float = 10,
    ) -> None:
        self._session = session
        self._url = url
        self._header = header
        self._good_seconds = good_seconds
        self._bad_seconds = bad_seconds
        self._known: OrderedDict[bytes, tuple[float, User | None]] = OrderedDict()
        self._asking: dict[bytes, asyncio.Lock] = {}

    async def identify(self, key: str) -> User | None:
        """Whoever asks for a key that is being asked for already waits for that answer."""
        about = digest(key)
        lock = self._asking.setdefault(about, asyncio.Lock())
        try:
            async with lock:
                known = self._known.get(about)
                if known is not None and known[0] > time.monotonic():
                    return known[1]
                user = await self._ask(key)
                seconds = self._good_seconds if user else self._bad_seconds
                self._known[about] = (time.monotonic() + seconds, user)
                self._known.move_to_end(about)
                while len(self._known) > REMEMBERED:
                    self._known.popitem(last=False)
                return user
        finally:
            if not lock.locked():
                self._asking.pop(about, None)

    async def _ask(self, key: str) -> User | None:
        headers = {"Authorization": f"Bearer {key}"} if self._header == "bearer" else {"api-key": key}
        try:
            async with (
                asyncio.timeout(ASK_SECONDS),
                self._session.get(self._url, headers=headers, allow_redirects=False) as response,
            ):
                if response.status in NOBODY:
                    return None
                if response.status != 200:
                    raise Unavailable(
                        f"the identity service answers {response.status}",
                        retry_after=_seconds(response.headers.get("Retry-After")),
                    )
                data = await _read(response.content)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unavailable("the identity service cannot be reached", retry_after=RETRY_AFTER) from error
        except ValueError:  # a key that cannot be in a header is nobody's
            return None
        return _user(data)


async def _read(content: aiohttp.StreamReader) -> bytes:
    """All of it, however it comes, or a little more than an answer may have."""
    data = bytearray()
    async for piece in content.iter_any():
        data += piece
        if len(data) > ANSWER_MAX_BYTES:
            break
    return bytes(data[: ANSWER_MAX_BYTES + 1])


def _user(data: bytes) -> User:
    try:
        answer: Any = json.loads(data) if len(data) <= ANSWER_MAX_BYTES else None
        name, role = answer["user"], answer.get("role") or "user"
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise Unavailable("the identity service gives no answer that can be read") from None
    good = isinstance(name, str) and 0 < len(name) <= USER_LENGTH and name.isprintable()
    if not good or name != name.strip() or name in RESERVED or role not in {"user", "administrator"}:
        raise Unavailable("the identity service names a user that cannot be one")
    return User(name=name, role="administrator" if role == "administrator" else "user")


def _seconds(value: str | None) -> float:
    return min(float(value), 300.0) if value and value.isascii() and value.isdigit() else RETRY_AFTER


@asynccontextmanager
async def open_http_identity(
    url: str, *, header: Literal["bearer", "api-key"], good_seconds: float, bad_seconds: float
) -> AsyncIterator[HttpIdentity]:
    """Asks `url`; does not connect before the first question."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield HttpIdentity(session, url, header=header, good_seconds=good_seconds, bad_seconds=bad_seconds)
