"""Methods that behave badly, one after the other through one worker on the real engine.

ILL_BEHAVED=full is the whole show (1 GB of output, 10 GB written, 100,000 files), else it is a small one.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from aioanalysis.domain.exchange import Ending
from aioanalysis.domain.outcomes import Reason
from aioanalysis.worker.jobtree import disk_bytes
from tests.support.packages import enqueue, new_stem, zip_of
from tests.support.runs import write_method
from tests.support.waiting import eventually
from tests.support.workers import Parts, worker_parts

FULL = os.environ.get("ILL_BEHAVED") == "full"
PRINTED = (1 << 30) if FULL else (32 << 20)
WRITTEN = (10 << 30) if FULL else (64 << 20)
FILES = 100_000 if FULL else 5_000
KEPT_BYTES = 257 << 20  # of job.log, which has an end

FORKING = """
import os, time
try:
    while True:
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
except OSError as error:
    print("no more processes:", error, flush=True)
"""
ALLOCATING = """
held = []
while True:
    held.append(bytearray(b"x" * (8 << 20)))
"""
DEAF = """
import signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(600)
"""
WRITING = f"""
with open("large", "wb") as file:
    for _ in range({WRITTEN} >> 20):
        file.write(b"x" * (1 << 20))
"""
PRINTING = f"""
import sys
line = b"y" * 1023 + b"\\n"
for _ in range({PRINTED} >> 10):
    sys.stdout.buffer.write(line)
"""
SILENT = """
import time
time.sleep(600)
"""
LITTERING = f"""
import os
for number in range({FILES}):
    if number % 1000 == 0:
        os.mkdir(f"folder{{number}}")
    with open(f"folder{{number // 1000 * 1000}}/{{number}}.txt", "w") as file:
        file.write(str(number))
"""
HIDING = """
import os, socket
os.makedirs("closed/inner")
open("closed/inner/file", "w").write("inside")
os.chmod("closed/inner/file", 0); os.chmod("closed/inner", 0); os.chmod("closed", 0)
server = socket.socket(socket.AF_UNIX); server.bind("socket")
os.symlink("/etc/passwd", "link"); os.symlink("/", "root"); os.mkfifo("pipe")
"""

ENDS: Mapping[str, tuple[str, Reason | None, str, Mapping[str, object]]] = {
    "forking": (FORKING, None, "", {}),
    "allocating": (ALLOCATING, Reason.OUT_OF_MEMORY, "out of memory", {"memory_bytes": 64 << 20}),
    "deaf": (DEAF, Reason.TIME_LIMIT, "run limit of 3 s", {"run_seconds": 3}),
    "writing": (WRITING, Reason.DISK, "grew beyond|File too large", {"output_bytes": WRITTEN // 2}),
    "printing": (PRINTING, None, "", {}),
    "silent": (SILENT, Reason.SILENT, "no output came for 2 s", {"silence_seconds": 2}),
    "littering": (LITTERING, None, "", {}),
    "hiding": (HIDING, None, "", {}),
}


@pytest.mark.parametrize("title", ENDS)
async def test_a_method_that_behaves_badly_ends_as_promised_and_the_next_job_runs(
    title: str, docker_engine: str, base_image: str, tmp_path: Path
) -> None:
    script, reason, text, limits = ENDS[title]
    methods = tmp_path / "methods"
    write_method(methods, title, {3: script}, limits=limits)
    write_method(methods, "modest")
    settings = {"runtime": "docker", "docker_host": docker_engine, "base_image": base_image}
    async with (
        worker_parts(tmp_path, **settings, build_network="none", methods_dir=methods) as parts,
        parts.worker(),
    ):
        began = time.monotonic()
        stem = await enqueue(parts.storage, new_stem(title))
        after = await enqueue(parts.storage, new_stem("modest"))
        sidecar = await parts.ended(stem, within=200)
        print(f"{title}: {reason or 'complete'} after {time.monotonic() - began:.1f} s")
        error = sidecar.error
        assert (error.reason if error else None) is reason, error
        if error:
            assert any(part in error.message + (error.error or "") for part in text.split("|")), error
        assert (await parts.ended(after, within=200)).error is None
        package = await zip_of(parts.storage, stem, Ending.FAILED if error else Ending.COMPLETE)
        assert package.testzip() is None
        names = set(package.namelist())
        match title:
            case "printing":
                assert package.getinfo("job.log").file_size <= min(PRINTED + (1 << 20), KEPT_BYTES)
            case "littering":
                assert len([name for name in names if name.endswith(".txt")]) == FILES
            case "hiding":
                assert package.read("closed/inner/file") == b"inside"
                skipped = json.loads(package.read("manifest.json"))["skipped"]
                assert {one["name"] for one in skipped} == {"link", "root", "pipe", "socket"}
        await eventually(lambda: is_tidy(parts), within=200, every=0.2)


async def is_tidy(parts: Parts) -> bool:
    folder = parts.settings.data_dir / "worker/w"
    left = await parts.runtime.leftovers("aioanalysis.worker", (folder / "key").read_text())
    return (
        not left and not list((folder / "runs").iterdir()) and disk_bytes(folder, enough=1 << 30) < 32 << 20
    )
