"""The servers that tests stand on: they start, come back with their data, and speak what we need."""

from __future__ import annotations

import aiohttp
import pytest
from azure.core.exceptions import ResourceExistsError
from azure.storage.blob.aio import BlobServiceClient
from redis.asyncio import Redis

from tests.support.faultproxy import FaultProxy
from tests.support.parts import require
from tests.support.servers import Azurite, RedisServer, TlsRedisServer


async def ping(url: str) -> bool:
    async with Redis.from_url(url) as client:
        return bool(await client.ping())


async def test_redis_and_valkey_answer(server_url: str) -> None:
    assert await ping(server_url)


async def test_redis_answers_on_its_unix_socket_and_over_tls(
    redis: RedisServer, tls_redis: TlsRedisServer
) -> None:
    assert await ping(redis.unix_url)
    assert tls_redis.url.startswith("rediss://")
    assert await ping(tls_redis.url)


async def test_a_killed_redis_comes_back_with_its_data(unique: str) -> None:
    with RedisServer(require("redis-server")) as server:
        async with Redis.from_url(server.url) as client:
            await client.set(unique, "kept")
        server.kill()
        server.start()
        async with Redis.from_url(server.url) as client:
            assert await client.get(unique) == b"kept"


async def test_a_restarted_azurite_has_kept_its_blobs(unique: str) -> None:
    with Azurite(require("azurite")) as server:
        async with BlobServiceClient.from_connection_string(server.connection_string) as client:
            container = await client.create_container(unique)
            await container.upload_blob("a/b.txt", b"text")
        server.restart()
        async with BlobServiceClient.from_connection_string(server.connection_string) as client:
            blob = client.get_blob_client(unique, "a/b.txt")
            assert await (await blob.download_blob()).readall() == b"text"


async def test_a_create_whose_reply_is_lost_looks_like_a_conflict(azurite: Azurite, unique: str) -> None:
    """The proxy's reason to be (and what every conditional write of ours must see through)."""
    async with (
        FaultProxy(("127.0.0.1", azurite.port), "http") as proxy,
        BlobServiceClient.from_connection_string(azurite.through(proxy.port), retry_total=0) as client,
    ):
        container = await client.create_container(unique)
        fault = proxy.drop_reply(rf"^PUT /[^/]+/{unique}/claim")
        with pytest.raises(ResourceExistsError):
            await container.upload_blob("claim", b"mine")
        assert await (await container.download_blob("claim")).readall() == b"mine"
    assert fault.hits == 1
    assert len([line for line in proxy.requests if line.startswith("PUT") and "/claim" in line]) == 2


async def test_an_increment_whose_reply_is_lost_counts_twice(redis: RedisServer, unique: str) -> None:
    async with (
        FaultProxy(("127.0.0.1", redis.port), "redis") as proxy,
        Redis(port=proxy.port) as client,
    ):
        fault = proxy.drop_reply(f"^INCRBY {unique}")
        assert await client.incr(unique) == 2
    assert fault.hits == 1


async def test_the_docker_engine_answers_by_way_of_a_proxy(docker_engine: str, tmp_path) -> None:
    if not docker_engine.startswith("unix://"):
        pytest.skip("the engine has no unix socket")
    async with FaultProxy(docker_engine.removeprefix("unix://"), "http", unix_path=tmp_path / "s") as proxy:
        connector = aiohttp.UnixConnector(path=str(proxy.unix_path))
        async with aiohttp.ClientSession(connector=connector) as session:
            async with session.get("http://docker/version") as reply:
                assert (await reply.json())["ApiVersion"]
            proxy.delay_reply("/version", seconds=30)
            with pytest.raises(TimeoutError):
                await session.get("http://docker/version", timeout=aiohttp.ClientTimeout(total=0.2))


def test_the_base_image_is_there(base_image: str) -> None:
    assert base_image
