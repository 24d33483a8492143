"""A worker that is a container: where the engine's host has its folders, and the probe at the start (H24)."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from aioanalysis.errors import Misconfigured, Unavailable
from aioanalysis.runtime.engine import Engine, open_engine
from aioanalysis.runtime.hostpaths import HostPaths, by_mounts
from tests.support.faultproxy import FaultProxy, http_reply
from tests.support.waiting import eventually

MOUNTS: list[dict[str, Any]] = [
    {"Type": "volume", "Source": "/engine/volumes/data/_data", "Destination": "/data"},
    {"Type": "bind", "Source": "/srv/runs", "Destination": "/data/worker"},
    {"Type": "bind", "Source": "/srv/methods", "Destination": "/methods"},
]


@pytest.mark.parametrize(
    ("inside", "host"),
    [
        ("/data", "/engine/volumes/data/_data"),
        ("/data/spool/x", "/engine/volumes/data/_data/spool/x"),
        ("/data/worker/w1", "/srv/runs/w1"),
        ("/database", None),
        ("/", None),
    ],
)
def test_the_nearest_mount_tells_where_the_host_has_a_path(inside: str, host: str | None) -> None:
    found = by_mounts(MOUNTS, Path(inside))
    assert (None if found is None else str(found)) == host


async def test_outside_a_container_paths_are_the_same_and_the_engine_is_not_asked(tmp_path: Path) -> None:
    async with open_engine(f"unix://{tmp_path}/nothing.sock") as engine:
        paths = HostPaths(engine, tmp_path, in_container=False)
        await paths.check()
        assert await paths.of(tmp_path / "worker" / "w") == str(tmp_path / "worker" / "w")


async def test_the_given_path_counts_for_the_data_folder_only(tmp_path: Path) -> None:
    async with open_engine(f"unix://{tmp_path}/nothing.sock") as engine:
        paths = HostPaths(engine, tmp_path / "data", Path("/srv/data"))
        assert await paths.of(tmp_path / "data" / "worker" / "w") == "/srv/data/worker/w"
        assert await paths.of(tmp_path / "data") == "/srv/data"
        assert await paths.of(tmp_path / "database") == str(tmp_path / "database")
        with pytest.raises(Unavailable):
            await paths.check()


async def test_the_probe_finds_out_whether_the_engine_has_the_same_files(
    docker_engine: str, tmp_path: Path
) -> None:
    data, link = tmp_path / "data", tmp_path / "link"
    link.symlink_to(data)
    async with open_engine(docker_engine) as engine:
        await HostPaths(engine, data, in_container=True).check()
        await HostPaths(engine, data, link).check()
        (tmp_path / "other").mkdir()
        for wrong in (tmp_path / "other", Path("/there/is/none")):
            with pytest.raises(Misconfigured, match=f"AIOANALYSIS_HOST_DATA_DIR: .* is not {wrong} "):
                await HostPaths(engine, data, wrong).check()
        await eventually(lambda: _no_probe_left(engine), what="images and containers of probes are gone")
        assert engine.connections == 0
    assert list(data.iterdir()) == []


async def test_another_file_in_the_probes_place_is_seen(docker_engine: str, tmp_path: Path) -> None:
    async with open_engine(docker_engine) as engine:
        paths = HostPaths(engine, tmp_path)
        (tmp_path / "probe").write_text("not ours")
        assert await paths._seen(str(tmp_path)) == "not ours"


async def test_a_folder_that_cannot_be_written_is_named(docker_engine: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    async with open_engine(docker_engine) as engine:
        with pytest.raises(Misconfigured, match="AIOANALYSIS_DATA_DIR"):
            await HostPaths(engine, tmp_path / "file", in_container=True).check()


async def test_a_container_asks_the_engine_for_its_own_mounts(
    docker_engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "0123456789ab"
    monkeypatch.setattr(socket, "gethostname", lambda: name)
    door = tmp_path / "engine.sock"
    async with (
        FaultProxy(docker_engine.removeprefix("unix://"), "http", unix_path=door) as proxy,
        open_engine(f"unix://{door}") as engine,
    ):
        for mounts, expected in ((MOUNTS, "/engine/volumes/data/_data/w"), (MOUNTS[2:], None)):
            body = json.dumps({"Id": name + "f" * 52, "Mounts": mounts}).encode()
            reply = http_reply(200, body, headers={"Content-Type": "application/json"})
            with proxy.answer(re.escape(f"/containers/{name}/json"), reply=reply):
                paths = HostPaths(engine, Path("/data"), in_container=True)
                if expected is None:
                    with pytest.raises(Misconfigured, match="mount a volume there"):
                        await paths.of(Path("/data/w"))
                else:
                    assert await paths.of(Path("/data/w")) == expected
                    assert await paths.of(Path("/data/w")) == expected
        same = HostPaths(engine, tmp_path, in_container=True)  # no container of this engine's
        assert await same.of(tmp_path / "w") == str(tmp_path / "w")


async def _no_probe_left(engine: Engine) -> bool:
    filters = {"all": "1", "filters": '{"label": ["aioanalysis=probe"]}'}
    images = await engine.call("GET", "images/json", params=filters)
    return not images and not await engine.call("GET", "containers/json", params=filters)
