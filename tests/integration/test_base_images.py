"""What `doctor` says of the image that builds of methods begin with, on the real engine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from aioanalysis.cli.diagnosis import diagnose
from aioanalysis.cli.findings import Finding, Status
from aioanalysis.runtime.baseimages import base_images
from aioanalysis.settings import Settings
from tests.support.servers import free_port

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"


def blob(content: dict[str, object]) -> tuple[bytes, str]:
    data = json.dumps(content).encode()
    return data, f"sha256:{hashlib.sha256(data).hexdigest()}"


@pytest.fixture
async def registry() -> AsyncIterator[str]:
    """A registry that has the image `base:1`, as far as an engine asks for it without pulling."""
    config, config_digest = blob({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers"}})
    manifest, digest = blob(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "size": len(config), "digest": config_digest},
            "layers": [],
        }
    )
    described = {"Content-Type": MANIFEST, "Docker-Content-Digest": digest}

    async def nothing(request: web.Request) -> web.Response:
        return web.Response()

    async def manifest_of(request: web.Request) -> web.Response:
        if request.match_info["name"] not in ("1", digest):
            raise web.HTTPNotFound
        return web.Response(body=manifest, headers=described)

    async def config_of(request: web.Request) -> web.Response:
        return web.Response(body=config, content_type="application/octet-stream")

    app = web.Application()
    app.router.add_get("/v2/", nothing)
    app.router.add_get("/v2/base/manifests/{name}", manifest_of)
    app.router.add_get(f"/v2/base/blobs/{config_digest}", config_of)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    yield f"127.0.0.1:{port}"
    await runner.cleanup()


async def told(folder: Path, engine: str, image: str | None) -> Finding:
    settings = Settings(
        runtime="docker",
        docker_host=engine,
        data_dir=folder / "data",
        methods_dir=folder,
        base_image=image,
    )
    (finding,) = [finding async for finding in diagnose(settings) if finding.part == "base image"]
    return finding


async def test_a_base_image_in_the_engine_is_there(
    tmp_path: Path, docker_engine: str, base_image: str
) -> None:
    finding = await told(tmp_path, docker_engine, base_image)
    assert finding == Finding("base image", Status.OK, f"{base_image} is here")


async def test_one_that_a_registry_has_will_be_fetched(
    tmp_path: Path, docker_engine: str, registry: str
) -> None:
    finding = await told(tmp_path, docker_engine, f"{registry}/base:1")
    text = f"{registry}/base:1 is not here, and the first build fetches it"
    assert finding == Finding("base image", Status.OK, text)


@pytest.mark.parametrize("name", ["base:2", "other:1"])
async def test_one_that_is_to_be_had_nowhere_is_wrong_with_the_reason(
    tmp_path: Path, docker_engine: str, registry: str, name: str
) -> None:
    finding = await told(tmp_path, docker_engine, f"{registry}/{name}")
    assert finding.status is Status.WRONG
    assert f"{registry}/{name} is not here, and no registry gives it: " in finding.text
    assert "AIOANALYSIS_BASE_IMAGE" in str(finding.mend)


async def test_without_the_setting_the_dockerfiles_say_which(
    tmp_path: Path, docker_engine: str, base_image: str
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "Dockerfile").write_text(f"ARG BASE_IMAGE={base_image}\nFROM ${{BASE_IMAGE}}\n")
    assert (await told(tmp_path, docker_engine, None)).text == f"{base_image} is here"
    assert base_images(Path(__file__).parents[2] / "methods", None) == {"python:3.12-slim"}
