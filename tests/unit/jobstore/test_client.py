"""How the client is built: redis-py's own defaults have changed before, and will again (HAZARDS H3)."""

from __future__ import annotations

from typing import Any

import pytest
from redis.asyncio import Redis
from redis.backoff import ExponentialBackoff
from redis.utils import HIREDIS_AVAILABLE

from aioanalysis.errors import Misconfigured
from aioanalysis.jobstore.client import make_client

HOSTILE = "&".join(
    (
        "socket_timeout=300",
        "socket_connect_timeout=300",
        "retry_on_timeout=yes",
        "decode_responses=no",
        "protocol=3",
        "max_connections=1",
        "health_check_interval=0",
    )
)


def _effective(client: Redis) -> dict[str, Any]:
    connection = client.connection_pool.make_connection()
    client.connection_pool._in_use_connections.clear()
    return {
        "socket_timeout": connection.socket_timeout,
        "socket_connect_timeout": connection.socket_connect_timeout,
        "retries": connection.retry.get_retries(),
        "backoff": connection.retry._backoff,
        "retry_on_timeout": connection.retry_on_timeout,
        "health_check_interval": connection.health_check_interval,
        "protocol": connection.protocol,
        "decode_responses": connection.encoder.decode_responses,
        "encoding_errors": connection.encoder.encoding_errors,
        "parser": type(connection._parser).__name__,
        "max_connections": client.connection_pool.max_connections,
    }


@pytest.mark.parametrize(
    "url",
    [
        "redis://127.0.0.1/0",
        "rediss://127.0.0.1/0",
        "unix:///run/redis.sock",
        f"redis://127.0.0.1/0?{HOSTILE}",
    ],
)
def test_the_effective_options_are_ours_whatever_the_defaults_and_the_address_say(url: str) -> None:
    assert HIREDIS_AVAILABLE
    assert _effective(make_client(url)) == {
        "socket_timeout": 2.0,
        "socket_connect_timeout": 1.0,
        "retries": 1,
        "backoff": ExponentialBackoff(cap=0.2, base=0.02),
        "retry_on_timeout": False,
        "health_check_interval": 15,
        "protocol": 2,
        "decode_responses": True,
        "encoding_errors": "surrogateescape",
        "parser": "_AsyncHiredisParser",
        "max_connections": 32,
    }


@pytest.mark.parametrize(
    "url",
    [
        "http://user:hunter2@127.0.0.1",
        "127.0.0.1:6379",
        "",
        "redis://:hunter2@127.0.0.1/0?colour=red",
        "redis://:hunter2@127.0.0.1:port/0",
        "redis://:hunter2@127.0.0.1/0?ssl_cert_reqs=maybe",
    ],
)
def test_a_wrong_address_is_named_by_its_setting_and_not_repeated(url: str) -> None:
    with pytest.raises(Misconfigured, match=r"^AIOANALYSIS_REDIS_URL") as caught:
        make_client(url)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_user_password_database_and_tls_options_come_from_the_address() -> None:
    client = make_client("rediss://ann:p%40ss@example.org:7000/3?ssl_ca_certs=/etc/ca.pem")
    options = client.connection_pool.connection_kwargs
    assert options["username"] == "ann"
    assert options["password"] == "p@ss"
    assert (options["host"], options["port"], options["db"]) == ("example.org", 7000, 3)
    assert options["ssl_ca_certs"] == "/etc/ca.pem"
