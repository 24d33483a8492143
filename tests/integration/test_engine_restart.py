"""A run through a stop, a crash and a start of its engine: one of the test's own, apart from the host's."""

from __future__ import annotations

import asyncio
import io
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from aioanalysis.domain.method import Limits, Method
from aioanalysis.domain.outcomes import Reason
from aioanalysis.interfaces import Image, MethodDirectory
from aioanalysis.runtime.docker import DockerRuntime
from aioanalysis.runtime.engine import open_engine
from aioanalysis.runtime.images import Images
from tests.support.packages import enqueue, new_stem
from tests.support.parts import lacking
from tests.support.runs import job_directory, run_spec
from tests.support.servers import Server
from tests.support.waiting import eventually
from tests.support.workers import worker_parts

SECONDS = 6


class OwnEngine(Server):
    """dockerd in a network namespace of its own: `--bridge=none` would delete the host's bridge."""

    stop_within = 30.0
    live_restore = False

    def command(self) -> Sequence[str]:
        return [
            *("unshare", "-n", self.program, "--host", self.address, "--bridge=none", "--iptables=false"),
            *("--data-root", f"{self.folder}/data", "--exec-root", f"{self.folder}/exec"),
            *("--pidfile", f"{self.folder}/pid", f"--live-restore={str(self.live_restore).lower()}"),
        ]

    @property
    def address(self) -> str:
        return f"unix://{self.folder}/sock"

    def docker(self, *command: str, data: bytes | None = None) -> str:
        done = subprocess.run(
            ["docker", "--host", self.address, *command], input=data, capture_output=True, timeout=60
        )
        if done.returncode:
            raise OSError(done.stderr.decode())
        return done.stdout.decode().strip()

    def kill(self) -> None:
        """As a crash of the host's engine; what names its processes is gone with it."""
        super().kill()
        for name in ("pid", "exec/containerd/containerd.pid"):
            (self.folder / name).unlink(missing_ok=True)

    def __exit__(self, *_: object) -> None:
        """End its containers' keepers too, and give back its mounts."""
        try:
            self.stop()
        finally:
            for process in psutil.process_iter():
                with suppress(psutil.Error):
                    if any(str(self.folder) in part for part in process.cmdline()):
                        process.kill()
            mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
            for mount in sorted((m for m in mounts if m.startswith(f"{self.folder}/")), reverse=True):
                subprocess.run(["umount", "--lazy", mount])
            super().__exit__()

    def answers(self) -> bool:
        return bool(self.docker("version", "--format", "{{.Server.Version}}"))


@pytest.fixture(params=[False, True], ids=["plain", "live-restore"])
def own_engine(request: pytest.FixtureRequest, docker_engine: str) -> Iterator[OwnEngine]:
    if os.getuid() != 0:
        pytest.skip("only root can start an engine: sudo scripts/test")
    program = shutil.which("dockerd")
    if program is None or shutil.which("unshare") is None:
        lacking("dockerd or unshare is missing; try: apt-get install docker.io util-linux")
    engine = OwnEngine(program)
    engine.live_restore = request.param
    with engine:
        yield engine


@pytest.fixture
async def runtime(own_engine: OwnEngine) -> AsyncIterator[DockerRuntime]:
    async with open_engine(own_engine.address) as engine:
        yield DockerRuntime(engine, Images(engine), user=(65534, 65534))


def sleeping_image(engine: OwnEngine) -> Image:
    """An image of `sleep` and the libraries it needs, nothing else."""
    sleep = shutil.which("sleep") or "/bin/sleep"
    needed = re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", sleep], capture_output=True, text=True).stdout)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", dereference=True) as tar:
        for path in [sleep, *needed]:
            tar.add(path)
    change = f'ENTRYPOINT ["{sleep}", "{SECONDS}"]'
    image = engine.docker("import", "--change", change, "-", data=packed.getvalue())
    return Image(id=image, digest="none")


@pytest.mark.parametrize("crash", [False, True], ids=["stopped", "killed"])
async def test_a_run_is_waited_for_through_a_restart_of_the_engine(
    own_engine: OwnEngine, runtime: DockerRuntime, tmp_path: Path, crash: bool
) -> None:
    image = await asyncio.to_thread(sleeping_image, own_engine)
    method = Method(title="sleep", label="sleep", description="sleep", version="1")
    directory = MethodDirectory(method=method, path=tmp_path / "sleep", digest="none")
    limits = Limits(memory_bytes=64 << 20, cpus=1)
    run = await runtime.start(image, run_spec(directory, job_directory(tmp_path), limits=limits))
    waiting = asyncio.create_task(runtime.wait(run))
    await asyncio.to_thread(own_engine.kill if crash else own_engine.stop)
    assert await runtime.sample(run) is None
    await asyncio.to_thread(own_engine.start)
    async with asyncio.timeout(30):
        ended = await waiting
    assert await runtime.wait(run) is not None
    if own_engine.live_restore:
        assert ended.code == 0
    else:
        assert ended.code in {137, 143, 255}
        assert "signal" in ended.detail or "away" in ended.detail
    await runtime.remove(run)


def load_base_image(engine: OwnEngine, docker_engine: str, name: str) -> None:
    save = subprocess.Popen(["docker", "--host", docker_engine, "save", name], stdout=subprocess.PIPE)
    with save:
        load = ["docker", "--host", engine.address, "load"]
        done = subprocess.run(load, stdin=save.stdout, capture_output=True, timeout=120)
    assert (save.returncode, done.returncode) == (0, 0), done.stderr


async def test_a_worker_goes_on_through_a_restart_of_its_engine(
    own_engine: OwnEngine, docker_engine: str, base_image: str, tmp_path: Path
) -> None:
    """What the run comes to depends on the engine's set-up; the next one completes in any case."""
    await asyncio.to_thread(load_base_image, own_engine, docker_engine, base_image)
    settings = {"runtime": "docker", "docker_host": own_engine.address, "base_image": base_image}
    async with worker_parts(tmp_path, **settings, build_network="none") as parts, parts.worker():
        stem = await enqueue(parts.storage, new_stem("slow"), seconds=8)
        job = parts.settings.data_dir / "worker/w/runs"
        await eventually(lambda: list(job.glob("*/job/progress.json")), within=60, every=0.1)
        await asyncio.to_thread(own_engine.stop)
        await asyncio.to_thread(own_engine.start)
        after = await enqueue(parts.storage)
        sidecar = await parts.ended(stem, within=90)
        if own_engine.live_restore:
            assert sidecar.error is None
        else:
            assert sidecar.error is not None
            assert sidecar.error.reason is Reason.CONTAINER
            assert re.search("engine was (stopped|away)", sidecar.error.message)
        assert (await parts.ended(after, within=90)).error is None
        assert await parts.runtime.check()
