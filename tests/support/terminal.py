"""The command line as a person has it: a process of its own, with pipes or in a terminal."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

PROGRAM = str(Path(sys.executable).with_name("aioanalysis"))
SECONDS = 60.0
CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    out: str
    err: str


@dataclass(kw_only=True)
class Terminal:
    """A command that runs in a terminal of some width; `text` is all that it has printed there."""

    process: asyncio.subprocess.Process
    _handle: int
    _bytes: bytearray = field(default_factory=bytearray)

    @property
    def text(self) -> str:
        return CONTROLS.sub("", self._bytes.decode("utf-8", "replace"))

    def type(self, keys: bytes) -> None:
        """Ctrl-C is b"\\x03"."""
        os.write(self._handle, keys)

    def read(self) -> None:
        with suppress(OSError):  # of a terminal that nobody has open any more
            self._bytes += os.read(self._handle, 65536)

    async def end(self) -> int:
        """Wait for its end; its exit code."""
        async with asyncio.timeout(SECONDS):
            code = await self.process.wait()
        self.read()
        return code


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """As a user's shell has it, without settings but these."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIOANALYSIS_", "XDG_"))}
    kept.pop("COLUMNS", None)
    return {**kept, "TERM": "xterm-256color", **settings}


async def command(
    *words: str, settings: Mapping[str, str], folder: Path, typed: bytes | None = None
) -> Ended:
    """Run `aioanalysis WORDS` to its end, with `typed` on its standard input, nothing by default."""
    process = await asyncio.create_subprocess_exec(
        PROGRAM,
        *words,
        cwd=folder,
        env=environment(settings),
        stdin=asyncio.subprocess.PIPE if typed is not None else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(SECONDS):
            out, err = await process.communicate(typed)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Ended(process.returncode or 0, out.decode(), err.decode())


@asynccontextmanager
async def terminal(
    *words: str, settings: Mapping[str, str], folder: Path, columns: int = 80
) -> AsyncIterator[Terminal]:
    """`aioanalysis WORDS` running in a terminal; it is killed if it has not ended when the block does."""
    handle, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    try:
        process = await asyncio.create_subprocess_exec(
            PROGRAM,
            *words,
            cwd=folder,
            env=environment(settings),
            stdin=inside,
            stdout=inside,
            stderr=inside,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
    finally:
        os.close(inside)
    opened = Terminal(process=process, _handle=handle)
    loop = asyncio.get_running_loop()
    loop.add_reader(handle, opened.read)
    try:
        yield opened
    finally:
        loop.remove_reader(handle)
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(handle)


def _take_terminal() -> None:
    """Make it the controlling one, or Ctrl-C would reach nobody."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
