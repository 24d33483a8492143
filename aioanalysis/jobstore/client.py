"""The connection to Redis or Valkey: its options, its errors in our words, and the check at start."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.connection import parse_url
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    NoPermissionError,
    RedisError,
    ResponseError,
)

from aioanalysis import logs
from aioanalysis.errors import Damaged, Misconfigured, SystemFault, Unavailable

CALL_SECONDS: Final = 4.0
RETRY_AFTER: Final = 2.0
MAX_CONNECTIONS: Final = 32
OLDEST_VERSION: Final = (7, 0)

OPTIONS: Final[dict[str, Any]] = {
    "socket_timeout": 2.0,
    "socket_connect_timeout": 1.0,
    "health_check_interval": 15,
    "protocol": 2,
    "decode_responses": True,
    # a damaged value must not make the reading of its neighbours fail
    "encoding_errors": "surrogateescape",
    "client_name": "aioanalysis",
}
"""Whatever redis-py's defaults are this year: with them a dead server costs a minute a call (HAZARDS H3)."""

log = logs.get()


def make_client(url: str, *, retries: int = 1) -> Redis:
    """A client for a redis://, rediss:// or unix:// address; connects when first used.

    An address may bring database, user, password and `ssl_*` options; ours win over its others.
    Raises `Misconfigured`.
    """
    try:
        address: dict[str, Any] = dict(parse_url(url))
    except ValueError:
        raise Misconfigured(
            "AIOANALYSIS_REDIS_URL: must be redis://HOST:PORT/DB, rediss://... or unix:///PATH"
        ) from None
    for ours in ("max_connections", "timeout", "retry_on_timeout", "retry_on_error"):
        address.pop(ours, None)
    if "path" not in address:
        address["socket_keepalive"] = True
    retry = Retry(ExponentialBackoff(cap=0.2, base=0.02), retries)
    pool = BlockingConnectionPool(
        **{**address, **OPTIONS, "retry": retry, "max_connections": MAX_CONNECTIONS, "timeout": 2}
    )
    try:
        pool.connection_class(**pool.connection_kwargs)  # tried now, not at the first call
    except (TypeError, ValueError, RedisError):
        raise Misconfigured("AIOANALYSIS_REDIS_URL: has an option that is none") from None
    return Redis.from_pool(pool)


@asynccontextmanager
async def open_client(url: str, *, retries: int = 1) -> AsyncIterator[Redis]:
    """A client that is closed at the end."""
    client = make_client(url, retries=retries)
    try:
        yield client
    finally:
        await client.aclose()


@contextmanager
def heeding_cancellation() -> Iterator[None]:
    """Around whatever sends by redis-py, which does so in `asyncio.wait_for`.

    On Python 3.11 that can swallow a cancellation (HAZARDS H20); what was swallowed within is raised here.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        yield
    finally:
        if task and task.cancelling() > before:
            raise asyncio.CancelledError


@asynccontextmanager
async def answering(seconds: float = CALL_SECONDS) -> AsyncIterator[None]:
    """Around calls to Redis: bounds them, and raises our errors from theirs."""
    try:
        with heeding_cancellation():
            async with asyncio.timeout(seconds):
                yield
    except (RedisError, OSError) as error:
        raise translated(error) from error


def translated(error: Exception) -> SystemFault:
    """Ours for theirs; nothing of their text, which may quote what was sent."""
    if isinstance(error, AuthenticationError | AuthorizationError | NoPermissionError):
        return Misconfigured("AIOANALYSIS_REDIS_URL: Redis refuses its user, password or rights")
    if isinstance(error, ResponseError) and str(error).startswith("WRONGTYPE"):
        return Damaged("a key of the job store in Redis is not of its type")
    kind = type(error).__name__
    return Unavailable(f"the job store cannot be used now ({kind})", retry_after=RETRY_AFTER)


async def check(client: Redis, told: set[str] | None = None) -> str:
    """Say which server this is, and what may lose jobs there; raises `Unavailable`, `Misconfigured`.

    Such a risk is also a warning in the log, unless it is in `told`, which then holds it.
    """
    async with answering():
        info: dict[str, Any] = await client.info()
    name = "Valkey" if "valkey_version" in info else "Redis"
    version = str(info.get("valkey_version") or info["redis_version"])
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_VERSION:
        raise Misconfigured(f"AIOANALYSIS_REDIS_URL: {name} {version} is too old, 7.0 is the least")
    if info.get("cluster_enabled"):
        raise Misconfigured("AIOANALYSIS_REDIS_URL: a cluster does not serve, one server is needed")
    if info.get("role", "master") != "master":
        raise Misconfigured("AIOANALYSIS_REDIS_URL: this server is a replica, its master is needed")
    risks = _risks(info)
    for risk in risks:
        if told is None or risk not in told:
            log.warning("redis_may_lose_jobs", risk=risk)
    if told is not None:
        told.update(risks)
    return "; ".join([f"{name} {version} at {_where(client)}", *risks])


async def server_time(client: Redis) -> datetime:
    """What the server's clock shows; raises `Unavailable`."""
    async with answering():
        seconds, microseconds = await client.time()
    return datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=microseconds)


def _risks(info: dict[str, Any]) -> list[str]:
    found: list[str] = []
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        found.append(f"its maxmemory-policy {policy} may evict jobs: set noeviction")
    if not info.get("aof_enabled"):
        found.append("its appendonly is off, a crash loses the last writes: set appendonly yes")
    elif info.get("aof_last_write_status", "ok") != "ok":
        found.append("it cannot write its append-only file: make room on its disk")
    return found


def _where(client: Redis) -> str:
    options = client.connection_pool.connection_kwargs
    if path := options.get("path"):
        return f"{path}, database {options.get('db') or 0}"
    host, port = options.get("host", "localhost"), options.get("port", 6379)
    return f"{host}:{port}, database {options.get('db') or 0}"
