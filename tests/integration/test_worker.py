"""The worker on real parts: directory and child processes, Azurite and the Docker engine."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from azure.storage.blob.aio import BlobClient, BlobLeaseClient
from structlog.testing import capture_logs

from aioanalysis.domain.exchange import (
    Container,
    Control,
    Ending,
    PackageMeta,
    Sidecar,
    attempt_name,
    claim_name,
    control_name,
    package_name,
    progress_log_name,
    progress_name,
    result_name,
    worker_name,
)
from aioanalysis.domain.outcomes import Reason
from aioanalysis.errors import Unavailable
from aioanalysis.interfaces import BlobStream, ExchangeStorage, LeaseState, Runtime
from aioanalysis.runtime.opening import open_runtime
from aioanalysis.settings import PREFIX, Settings
from aioanalysis.worker import sampler
from aioanalysis.worker.loop import run_worker
from aioanalysis.worker.run import LABEL
from tests.support.exchange import (
    Crash,
    Exchange,
    azurite_exchange,
    directory_exchange,
    recover,
)
from tests.support.packages import (
    enqueue,
    make_tar,
    names_in,
    new_stem,
    outcome_of,
    package_meta,
    read_blob,
    sidecar_of,
    zip_of,
)
from tests.support.runs import METHODS, write_method
from tests.support.servers import Azurite
from tests.support.waiting import eventually

QUEUE, RESULTS = Container.QUEUE, Container.RESULTS

CREATE_TROUBLE = """
import os, socket
os.symlink("/etc/passwd", "link")
os.symlink("/", "root")
os.mkfifo("pipe")
server = socket.socket(socket.AF_UNIX); server.bind("socket")
open(b"caf\\xe9", "w").close()
open("old", "w").close(); os.utime("old", (0, 0))
os.makedirs("closed/inner"); open("closed/inner/file", "w").write("inside")
os.chmod("closed/inner/file", 0); os.chmod("closed/inner", 0); os.chmod("closed", 0)
os.unlink("params.json"); os.symlink("/etc/hostname", "params.json")
os.mkdir("resource_stats.json")
"""


@dataclass
class Place:
    """One pair of real parts, and workers on it."""

    exchange: Exchange
    runtime: Runtime
    settings: Settings
    methods: Path
    azurite: Azurite | None

    @property
    def storage(self) -> ExchangeStorage:
        return self.exchange.storage

    @property
    def isolated(self) -> bool:
        return self.runtime.name == "docker"

    def worker_settings(self, **changes: Any) -> Settings:
        return self.settings.model_copy(update=changes)

    async def once(self, runtime: Runtime | None = None, **changes: Any) -> int:
        settings = self.worker_settings(**changes)
        return await run_worker(self.storage, runtime or self.runtime, settings, asyncio.Event(), once=True)

    @asynccontextmanager
    async def worker(self, **changes: Any) -> AsyncIterator[asyncio.Event]:
        """A worker in this process; the event stops it, and so does the end."""
        stop = asyncio.Event()
        settings = self.worker_settings(**changes)
        task = asyncio.create_task(run_worker(self.storage, self.runtime, settings, stop), name="worker")
        try:
            yield stop
        finally:
            stop.set()
            async with asyncio.timeout(60):
                assert await task == 0

    async def ended(self, stem: str, *, within: float = 30) -> Sidecar:
        async def look() -> Sidecar | None:
            return await outcome_of(self.storage, stem)

        found = await eventually(look, within=within, every=0.1, what=f"an outcome of {stem}")
        assert found is not None
        return found

    async def running(
        self, stem: str, *, within: float = 30, worker: asyncio.subprocess.Process | None = None
    ) -> dict[str, Any]:
        """The run's progress once its second stage has begun."""

        async def look() -> dict[str, Any] | None:
            if worker is not None and worker.returncode is not None:
                raise RuntimeError(f"the worker ended: {self.process_log.read_text()[-2000:]}")
            if await self.storage.stat(RESULTS, progress_name(stem)) is None:
                return None
            body = json.loads(await read_blob(self.storage, progress_name(stem)))
            return body if (body["stage"] or 0) >= 2 else None

        found = await eventually(look, within=within, every=0.1, what=f"progress of {stem}")
        assert found is not None
        return found

    @property
    def process_log(self) -> Path:
        return self.settings.data_dir.parent / "process.log"

    def worker_folder(self, name: str = "w") -> Path:
        return self.settings.data_dir / "worker" / name

    async def containers(self, name: str = "w") -> list[str]:
        key = (self.worker_folder(name) / "key").read_text()
        return list(await self.runtime.leftovers(LABEL, key))

    async def is_tidy(self, name: str = "w") -> bool:
        """No container, no folder of a run, no lease."""
        assert await self.containers(name) == []
        assert list((self.worker_folder(name) / "runs").iterdir()) == []
        for container in Container:
            async for info in self.storage.list(container):
                assert info.lease is not LeaseState.HELD, info.name
        return True

    async def break_lease(self, stem: str) -> None:
        """End a live worker's lease, as if its time had run out."""
        name = claim_name(stem)
        if self.azurite is None:
            await self.exchange.lapse(RESULTS, name)
            return
        async with BlobClient.from_connection_string(
            self.azurite.connection_string, self.settings.results_container, name
        ) as blob:
            await BlobLeaseClient(blob).break_lease(0)  # type: ignore[arg-type]

    def environment(self, **changes: Any) -> dict[str, str]:
        """Of a worker process on the same parts."""
        settings = self.worker_settings(**changes)
        shown = {
            name: value
            for name, value in self.exchange.settings.items()
            if name in type(settings).model_fields
        }
        for name in (
            "data_dir", "methods_dir", "runtime", "docker_host", "worker_id", "base_image", "lease_seconds",
            "lease_grace_seconds", "sample_interval", "drain_seconds", "poll_interval", "build_network",
        ):  # fmt: skip
            value = getattr(settings, name)
            if value is not None:
                shown[name] = value
        ours = {f"{PREFIX}{name.upper()}": str(value) for name, value in shown.items()}
        return {**{k: v for k, v in os.environ.items() if not k.startswith(PREFIX)}, **ours}

    @asynccontextmanager
    async def process(self, **changes: Any) -> AsyncIterator[asyncio.subprocess.Process]:
        """A worker as a process of its own."""
        with self.process_log.open("ab") as out:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "aioanalysis", "worker",
                env=self.environment(**changes), stdout=out, stderr=out,
            )  # fmt: skip
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


@pytest.fixture(params=["directory and processes", "azurite and docker"])
async def place(request: pytest.FixtureRequest, tmp_path: Path, unique: str) -> AsyncIterator[Place]:
    docker = "docker" in request.param
    azurite: Azurite | None = request.getfixturevalue("azurite") if docker else None
    base = request.getfixturevalue("base_image") if docker else None
    methods = tmp_path / "methods"
    shutil.copytree(METHODS, methods)
    async with AsyncExitStack() as stack:
        exchange = await stack.enter_async_context(
            azurite_exchange(azurite, unique) if azurite else directory_exchange(tmp_path / "blobs")
        )
        settings = exchange.worker_settings(
            data_dir=tmp_path / "data",
            methods_dir=methods,
            runtime="docker" if docker else "process",
            docker_host=request.getfixturevalue("docker_engine") if docker else None,
            base_image=base,
            build_network="none",
            worker_id="w",
            sample_interval=0.5,
            poll_interval=0.3,
            drain_seconds=30,
            host_cpus=16,
        )
        runtime = await stack.enter_async_context(open_runtime(settings))
        place = Place(exchange, runtime, settings, methods, azurite)
        yield place
        for key in (tmp_path / "data" / "worker").glob("*/key"):
            for run in await runtime.leftovers(LABEL, key.read_text()):
                await runtime.remove(run)


# --- a run ---


async def test_a_package_becomes_a_result_and_its_sidecar_says_what_ran(place: Place) -> None:
    stem = await enqueue(place.storage, note="hello")
    assert await place.once() == 0
    sidecar = await sidecar_of(place.storage, stem)
    assert sidecar is not None
    assert (sidecar.error, sidecar.packaged_count, sidecar.attempt) == (None, 2, 1)
    body = sidecar.body
    assert body["usage"]["samples"] >= 0
    assert body["usage"]["wall_seconds"] > 0
    assert body["usage"]["cpu_seconds"] > 0
    assert body["method"]["version"] == "1.0.0"
    assert body["worker"]["id"] == "w"
    assert body["limits"]["memory_bytes"] == 256 << 20
    assert (body["exit_code"], body["runtime"]) == (0, place.runtime.name)
    assert body["started_at"] < body["finished_at"]
    assert body["package"]["sha256"] == package_meta(make_tar(stem, note="hello")).sha256
    info = await place.storage.stat(RESULTS, result_name(stem, Ending.COMPLETE))
    assert info is not None
    result = body["result"]
    assert (result["name"], result["etag"], result["size"]) == (info.name, info.etag, info.size)
    assert info.metadata["sha256"] == result["sha256"]
    package = await zip_of(place.storage, stem)
    assert package.testzip() is None
    assert b"Records: 2" in package.read("analysis_report.html")
    assert json.loads(package.read("resource_stats.json")) == body["usage"]
    members = {member["name"] for member in json.loads(package.read("manifest.json"))["members"]}
    assert members | {"manifest.json"} == set(package.namelist())


async def test_afterwards_the_claim_waits_for_the_scheduler_and_nothing_else_is_left(place: Place) -> None:
    stem = await enqueue(place.storage)
    assert await place.once() == 0
    assert await names_in(place.storage, QUEUE) == []
    assert set(await names_in(place.storage, RESULTS)) == {
        claim_name(stem),
        f"{stem}.zip",
        f"{stem}.metadata.json",
        worker_name("w"),
    }
    assert await place.is_tidy()
    folder = place.worker_folder() / "logs"
    summary = json.loads((folder / "last_run_summary.json").read_text())
    assert (summary["stem"], summary["end"], summary["reason"]) == (stem, "complete", None)
    log = (folder / summary["log"]).read_text()
    assert "5_report" in log or "report written" in log


async def test_a_running_job_shows_its_stage_and_the_worker_its_state(place: Place) -> None:
    stem = await enqueue(place.storage, new_stem("slow"), seconds=4)
    async with place.worker():
        progress = await place.running(stem)
        assert (progress["phase"], progress["stages"], progress["attempt"]) == ("run", 5, 1)
        assert progress["worker"]["id"] == "w"

        async def counted() -> bool:
            body = await place.running(stem)
            lines = await read_blob(place.storage, progress_log_name(stem))
            points = [point["memory_bytes"] for point in body["usage"]["series"]]
            return bool(body["records_done"] and body["sample"] and any(points)) and b"step 1" in lines

        await eventually(counted, within=10)
        assert "cpus" in (await place.running(stem))["limits"]
        presence = json.loads(await read_blob(place.storage, worker_name("w")))
        assert presence["state"] == "running"
        assert [run["stem"] for run in presence["running"]] == [stem]
        assert {"noop", "slow"} <= {method["title"] for method in presence["methods"]}
        assert presence["disk"]["free_bytes"] > 0
        sidecar = await place.ended(stem)
        assert sidecar.body["usage"]["samples"] >= 2
    assert await place.storage.stat(RESULTS, progress_name(stem)) is None
    presence = json.loads(await read_blob(place.storage, worker_name("w")))
    assert (presence["state"], presence["running"]) == ("stopped", [])


async def test_what_a_method_leaves_behind_neither_leaks_nor_stays(place: Place) -> None:
    write_method(place.methods, "trouble", {5: CREATE_TROUBLE})
    stem = await enqueue(place.storage, new_stem("trouble"))
    assert await place.once() == 0
    package = await zip_of(place.storage, stem)
    assert package.testzip() is None
    manifest = json.loads(package.read("manifest.json"))
    skipped = {entry["name"]: entry["reason"] for entry in manifest["skipped"]}
    expected = {"link", "root", "params.json"}
    assert {name for name, reason in skipped.items() if reason == "a link"} == expected
    assert (skipped["pipe"], skipped["socket"]) == ("a pipe", "a socket")
    assert package.read("closed/inner/file") == b"inside"
    assert {"caf%E9", "old"} <= set(package.namelist())
    assert not any(b"root:x:0:" in package.read(name) for name in package.namelist())
    assert await place.is_tidy()


# --- failures ---


def failing_methods(place: Place) -> None:
    hang = "import time\nprint('begun', flush=True)\ntime.sleep(60)\n"
    fill = "import time\nopen('big', 'wb').write(b'x' * (4 << 20))\ntime.sleep(60)\n"
    parent = "import os, signal, time\nos.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(60)\n"
    write_method(place.methods, "endless", {2: hang}, limits={"run_seconds": 1.5})
    write_method(place.methods, "silent", {2: hang}, limits={"silence_seconds": 1.5})
    write_method(place.methods, "filling", {2: fill}, limits={"output_bytes": 1 << 20})
    write_method(place.methods, "murderer", {3: parent})
    write_method(place.methods, "unfinished")
    (place.methods / "unfinished" / "method.json").write_text("{")


FAILURES: Mapping[str, tuple[Reason, str]] = {
    "fail_stage3": (Reason.STAGE, r"^container exited with code 3$"),
    "absent": (Reason.METHOD, "no method 'absent'"),
    "unfinished": (Reason.METHOD, "method.json"),
    "noop without records": (Reason.INPUT, r"^container exited with code 404$"),
    "noop without anything": (Reason.INPUT, r"^container exited with code 404$"),
    "noop not a tar": (Reason.INPUT, "no tar file"),
    "noop damaged": (Reason.INPUT, "SHA-256"),
    "noop with a link": (Reason.INPUT, "a link"),
    "endless": (Reason.TIME_LIMIT, r"run limit of 1.5 s.*exited with code"),
    "silent": (Reason.SILENT, r"no output came for 1.5 s"),
    "filling": (Reason.DISK, r"beyond 1048576 bytes"),
    "murderer": (Reason.CONTAINER, r"exited with code 137"),
}
ISOLATED_FAILURES: Mapping[str, tuple[Reason, str]] = {
    "bad_image": (Reason.IMAGE, "does not build"),
    "oom": (Reason.OUT_OF_MEMORY, "out of memory"),
}


async def enqueue_failure(storage: ExchangeStorage, kind: str) -> str:
    title, _, how = kind.partition(" ")
    stem = new_stem(title)
    link = make_tar(stem)[:-1024]
    match how:
        case "without records":
            data = make_tar(stem, {"params.json": b"{}"})
        case "without anything":
            data = make_tar(stem, {})
        case "not a tar":
            data = b"this is no tar file" * 100
        case "damaged":
            data = make_tar(stem)
            return await enqueue(storage, stem, data=data, meta=package_meta(b"other"))
        case "with a link":
            header = bytearray(link[:512])
            header[156:157] = b"2"
            header[157:167] = b"/etc/hosts"
            header[148:156] = b" " * 8
            header[148:156] = b"%06o\0 " % sum(header)
            data = bytes(header) + b"\0" * 1024
        case _:
            data = make_tar(stem)
    return await enqueue(storage, stem, data=data)


async def test_every_failure_ends_with_its_reason_and_a_package_and_the_next_job_runs(place: Place) -> None:
    failing_methods(place)
    kinds = {**FAILURES, **(ISOLATED_FAILURES if place.isolated else {})}
    stems = {kind: await enqueue_failure(place.storage, kind) for kind in kinds}
    last = await enqueue(place.storage)
    async with place.worker(worker_jobs=2):
        for kind, (reason, message) in kinds.items():
            stem = stems[kind]
            sidecar = await place.ended(stem, within=90)
            error = sidecar.error
            assert error is not None, kind
            assert error.reason is reason, (kind, error)
            assert re.search(message, error.message), (kind, error)
            package = await zip_of(place.storage, stem, Ending.FAILED)
            assert package.testzip() is None
            told = json.loads(package.read("error.json"))
            assert told["script"] == error.script, kind
            assert {"manifest.json", "resource_stats.json"} <= set(package.namelist())
            info = await place.storage.stat(RESULTS, result_name(stem, Ending.FAILED))
            assert info is not None
            assert info.etag == sidecar.body["result"]["etag"]
        assert (await place.ended(last)).error is None
    assert await place.is_tidy()
    stage = (await place.ended(stems["fail_stage3"])).error
    assert stage is not None
    assert stage.script == "3_analyse.sh"
    assert "no two sequences overlap" in (stage.error or "")
    assert (await place.ended(stems["noop without records"])).body["exit_code"] == 404
    if place.isolated:
        image = (await place.ended(stems["bad_image"])).error
        assert image is not None
        assert "a library is missing" in (image.error or "")


async def test_exit_codes_of_a_single_handling_are_for_cron(place: Place, tmp_path: Path) -> None:
    assert await place.once() == 0
    await enqueue(place.storage)
    assert await place.once() == 0
    await enqueue(place.storage, new_stem("absent"))
    assert await place.once() == 1
    assert await place.once(disk_reserve_bytes=1 << 60) == 2
    (tmp_path / "file").touch()
    with capture_logs() as told:
        assert await place.once(data_dir=tmp_path / "file") == 2
    assert "doctor" in next(line["mend"] for line in told if line["event"] == "worker_cannot_start")


async def test_below_the_disk_reserve_nothing_is_claimed_and_the_worker_says_so(place: Place) -> None:
    stem = await enqueue(place.storage)
    async with place.worker(disk_reserve_bytes=1 << 60):

        async def told() -> bool:
            if await place.storage.stat(RESULTS, worker_name("w")) is None:
                return False
            return bool(json.loads(await read_blob(place.storage, worker_name("w")))["state"] == "low_disk")

        await eventually(told, within=10)
        assert await names_in(place.storage, QUEUE) == [package_name(stem)]


class Disturbed:
    """A runtime, with some of its calls replaced."""

    def __init__(self, runtime: Runtime, **calls: Any) -> None:
        self._runtime = runtime
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        return self._calls.get(name) or getattr(self._runtime, name)


async def test_a_sampler_that_fails_does_the_run_no_harm(place: Place) -> None:
    async def sample(run: str) -> None:
        raise KeyError("memory_stats")

    stem = await enqueue(place.storage)
    assert await place.once(Disturbed(place.runtime, sample=sample)) == 0
    sidecar = await sidecar_of(place.storage, stem)
    assert sidecar is not None
    assert sidecar.body["usage"]["samples"] == 0
    assert sidecar.body["usage"]["network_bytes"] is None


async def test_an_engine_that_is_gone_for_good_ends_the_run_and_the_worker_says_what_happened(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler, "ENGINE_SECONDS", 0.5)
    monkeypatch.setattr("aioanalysis.worker.run.ENGINE_SECONDS", 0.5)
    monkeypatch.setattr("aioanalysis.worker.run.END_SECONDS", -16.0)
    gone = False

    async def start(*args: Any) -> str:
        nonlocal gone
        run = await place.runtime.start(*args)
        gone = True
        return run

    async def wait(run: str) -> None:
        await asyncio.Event().wait()

    async def away(*_: Any) -> Any:
        if gone:
            raise Unavailable("no answer from the engine")
        return await place.runtime.check()

    async def sample(run: str) -> None:
        return None

    disturbed = Disturbed(
        place.runtime, start=start, wait=wait, sample=sample, check=away, remove=away, kill=away
    )
    stem = await enqueue(place.storage)
    assert await place.once(disturbed) == 1
    sidecar = await sidecar_of(place.storage, stem, Ending.FAILED)
    assert sidecar is not None
    assert sidecar.error is not None
    assert (sidecar.error.reason, "engine" in sidecar.error.message) == (Reason.CONTAINER, True)
    assert await place.once() == 0  # the restart finds the container
    assert await place.is_tidy()


# --- many workers ---


async def test_of_two_workers_and_thirty_packages_each_runs_exactly_once(place: Place) -> None:
    stems = [await enqueue(place.storage) for _ in range(30)]
    async with place.worker(worker_id="a"), place.worker(worker_id="b"):
        for stem in stems:
            sidecar = await place.ended(stem, within=120)
            assert (sidecar.error, sidecar.attempt) == (None, 1)
    logs = [path.name for name in "ab" for path in (place.worker_folder(name) / "logs").glob("*.log")]
    assert sorted(name.partition("_")[2] for name in logs) == sorted(f"{stem}.1.log" for stem in stems)
    assert await place.is_tidy("a")
    assert await place.is_tidy("b")


# --- orders ---


@pytest.mark.parametrize("action", ["kill", "interrupt", "discard"])
async def test_an_action_for_this_attempt_ends_the_run_and_gives_no_result(place: Place, action: str) -> None:
    stem = await enqueue(place.storage, new_stem("slow"), seconds=60)
    async with place.worker():
        await place.running(stem)
        control = Control(attempt=1, action=action).to_bytes()
        await place.storage.write(RESULTS, control_name(stem), control)

        async def released() -> bool:
            info = await place.storage.stat(RESULTS, claim_name(stem))
            return info is not None and info.lease is LeaseState.FREE and not await place.containers()

        await eventually(released, within=20, every=0.1)
        await eventually(place.is_tidy, within=10, every=0.1)
    assert await outcome_of(place.storage, stem) is None
    kept = await names_in(place.storage, RESULTS, "attempts/")
    if action != "kill":
        assert kept == []
        return
    names = [attempt_name(stem, 1, ".killed.metadata.json"), attempt_name(stem, 1, ".killed.zip")]
    assert kept == names
    body = json.loads(await read_blob(place.storage, names[0]))
    assert body["error"]["reason"] == "killed"
    assert body["usage"]["samples"] >= 1


async def test_an_action_that_is_there_before_the_run_lets_nothing_begin(place: Place) -> None:
    stem = await enqueue(place.storage)
    control = Control(attempt=1, action="discard").to_bytes()
    await place.storage.write(RESULTS, control_name(stem), control)
    assert await place.once() == 1
    assert await outcome_of(place.storage, stem) is None
    assert await names_in(place.storage, RESULTS, stem) == []


class Stuck:
    """Storage on which a read or write of one blob never ends; `reached` tells that it has begun."""

    def __init__(self, storage: ExchangeStorage, *, reading: str = "", writing: str = "") -> None:
        self._storage = storage
        self._reading, self._writing = reading, writing
        self.reached = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return {"write": self._write, "open": self._open}.get(name) or getattr(self._storage, name)

    async def hang(self, *_: Any) -> Any:
        self.reached.set()
        await asyncio.Event().wait()

    async def _write(self, container: Container, name: str, *args: Any, **options: Any) -> Any:
        if name == self._writing:
            await self.hang()
        return await self._storage.write(container, name, *args, **options)

    @asynccontextmanager
    async def _open(self, container: Container, name: str, **options: Any) -> AsyncIterator[BlobStream]:
        if name == self._reading:
            await self.hang()
        async with self._storage.open(container, name, **options) as stream:
            yield stream


@pytest.mark.parametrize("phase", ["download", "image", "upload"])
async def test_a_kill_is_heard_in_whatever_phase_a_run_is(place: Place, phase: str) -> None:
    stem = await enqueue(place.storage)
    stuck = Stuck(
        place.storage,
        reading=claim_name(stem) if phase == "download" else "",
        writing=f"{stem}.zip" if phase == "upload" else "",
    )
    storage: Any = stuck
    runtime: Any = Disturbed(place.runtime, build=stuck.hang) if phase == "image" else place.runtime
    run = run_worker(storage, runtime, place.settings, asyncio.Event(), once=True)
    worker = asyncio.create_task(run, name="worker")
    async with asyncio.timeout(60):
        await stuck.reached.wait()
    await place.storage.write(RESULTS, control_name(stem), Control(attempt=1, action="kill").to_bytes())
    async with asyncio.timeout(20):
        assert await worker == 1
    assert await names_in(place.storage, RESULTS, stem) == []
    assert attempt_name(stem, 1, ".killed.zip") in await names_in(place.storage, RESULTS, "attempts/")
    assert await place.is_tidy()


class KilledAtTheLast:
    """Storage where a kill comes in between a run's zip and its sidecar."""

    def __init__(self, storage: ExchangeStorage, stem: str) -> None:
        self._storage = storage
        self._stem = stem

    def __getattr__(self, name: str) -> Any:
        return self._write if name == "write" else getattr(self._storage, name)

    async def _write(self, container: Container, name: str, *args: Any, **options: Any) -> Any:
        info = await self._storage.write(container, name, *args, **options)
        if name == f"{self._stem}.zip":
            control = Control(attempt=1, action="kill").to_bytes()
            await self._storage.write(RESULTS, control_name(self._stem), control)
        return info


async def test_a_kill_that_comes_just_before_the_commit_point_still_counts(place: Place) -> None:
    stem = await enqueue(place.storage)
    storage: Any = KilledAtTheLast(place.storage, stem)
    assert await run_worker(storage, place.runtime, place.settings, asyncio.Event(), once=True) == 1
    assert await names_in(place.storage, RESULTS, stem) == []
    assert len(await names_in(place.storage, RESULTS, "attempts/")) == 2
    assert await place.is_tidy()


@pytest.mark.parametrize(
    "control", [Control(attempt=7, action="kill").to_bytes(), b"{", b'{"attempt": 1, "action": "dance"}']
)
async def test_an_action_for_another_attempt_or_none_at_all_changes_nothing(
    place: Place, control: bytes
) -> None:
    stem = await enqueue(place.storage)
    await place.storage.write(RESULTS, control_name(stem), control)
    assert await place.once() == 0
    assert await sidecar_of(place.storage, stem) is not None


# --- stopping ---


async def test_a_stop_lets_runs_finish_and_claims_nothing_more(place: Place) -> None:
    stem = await enqueue(place.storage, new_stem("slow"), seconds=2)
    async with place.worker() as stop:
        await place.running(stem)
        later = await enqueue(place.storage)
        stop.set()
    assert (await place.ended(stem, within=1)).error is None
    assert await names_in(place.storage, QUEUE) == [package_name(later)]


async def test_a_drain_that_takes_too_long_gives_the_package_back(place: Place) -> None:
    stem = await enqueue(place.storage, new_stem("slow"), seconds=60)
    async with place.worker(drain_seconds=0.2) as stop:
        await place.running(stem)
        stop.set()
    info = await place.storage.stat(QUEUE, package_name(stem))
    assert info is not None
    assert PackageMeta.from_metadata(info.metadata).attempt == 2
    assert await names_in(place.storage, RESULTS) == [worker_name("w")]
    assert await place.is_tidy()


async def test_a_second_signal_gives_back_at_once(place: Place) -> None:
    stem = await enqueue(place.storage, new_stem("slow"), seconds=60)
    stop, abort = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(
        run_worker(place.storage, place.runtime, place.settings, stop, abort=abort), name="worker"
    )
    await place.running(stem)
    stop.set()
    done, _ = await asyncio.wait({task}, timeout=0.5)
    assert not done
    abort.set()
    async with asyncio.timeout(15):
        assert await task == 0
    assert await names_in(place.storage, QUEUE) == [package_name(stem)]
    assert await place.is_tidy()


async def test_interrupted_twice_a_worker_process_drains_and_then_gives_back(place: Place) -> None:
    stem = await enqueue(place.storage, new_stem("slow"), seconds=60)
    async with place.process(drain_seconds=300) as process:
        await place.running(stem, worker=process)
        process.send_signal(signal.SIGINT)

        async def drains() -> bool:
            presence = json.loads(await read_blob(place.storage, worker_name("w")))
            return bool(presence["state"] == "draining")

        await eventually(drains, within=30, every=0.1)
        assert process.returncode is None
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(60):
            assert await process.wait() == 0
    assert await names_in(place.storage, QUEUE) == [package_name(stem)]
    assert await place.is_tidy()


async def test_wherever_a_worker_is_cancelled_nothing_of_it_is_left(place: Place) -> None:
    begin = random.Random(5)
    for number in range(12):
        stem = await enqueue(place.storage, new_stem("noop"))
        task = asyncio.create_task(
            run_worker(place.storage, place.runtime, place.settings, asyncio.Event()), name="worker"
        )
        await asyncio.wait({task}, timeout=begin.uniform(0, 1.2 if place.isolated else 0.4))
        task.cancel()
        async with asyncio.timeout(20):
            await asyncio.wait({task})
        assert task.cancelled(), number
        if (place.worker_folder() / "runs").exists():
            assert await place.is_tidy()
        queued = await names_in(place.storage, QUEUE)
        ended = await outcome_of(place.storage, stem)
        assert (package_name(stem) in queued) is (ended is None), number
        await place.storage.delete(QUEUE, package_name(stem))


# --- dying ---


async def kill_in_mid_run(place: Place, stem: str, **changes: Any) -> None:
    async with place.process(**changes) as process:
        await place.running(stem, worker=process)
        process.send_signal(signal.SIGKILL)
        await process.wait()


async def test_a_worker_that_is_killed_loses_nothing_and_its_container_ends_by_itself(
    place: Place, tmp_path: Path
) -> None:
    stem = await enqueue(place.storage, new_stem("slow"), seconds=300)
    await kill_in_mid_run(place, stem)
    assert len(await place.containers()) == 1

    async def ended() -> bool:
        [job] = (place.worker_folder() / "runs").iterdir()
        path = job / "job" / "status.json"
        return path.exists() and json.loads(path.read_text())["reason"] == "lease"

    await place.exchange.lapse(RESULTS, claim_name(stem))
    assert await recover(place.storage, stem)
    data = make_tar(stem, seconds=1)
    await place.storage.write(
        QUEUE,
        package_name(stem),
        data,
        metadata=package_meta(data, attempt=2).to_metadata(),
    )
    async with place.worker(worker_id="other", data_dir=tmp_path / "another host"):
        sidecar = await place.ended(stem)
        assert (sidecar.attempt, sidecar.worker) == (2, os.uname().nodename)
    await eventually(ended, within=40, every=0.5)
    assert await place.once() == 0  # the first worker comes back and clears away what it left
    assert await place.is_tidy()
    after = await sidecar_of(place.storage, stem)
    assert after is not None
    assert after.nonce == sidecar.nonce


async def test_what_a_killed_worker_left_is_cleared_away_by_any_other_of_its_host_once_its_claims_have_lapsed(
    place: Place,
) -> None:
    stem = await enqueue(place.storage, new_stem("slow"), seconds=300)
    await kill_in_mid_run(place, stem)
    assert await place.once(worker_id="other") == 0  # the claim may still be come back to
    assert len(await place.containers()) == 1
    await place.exchange.lapse(RESULTS, claim_name(stem))
    async with place.worker(worker_id="other", drain_seconds=0) as stop:
        await eventually(lambda: not list((place.worker_folder() / "runs").iterdir()), within=15, every=0.1)
        stop.set()
    assert await place.is_tidy()
    assert await names_in(place.storage, QUEUE) == [package_name(stem)]


async def test_a_worker_that_restarts_gives_back_what_it_had_begun_without_waiting_for_the_lease(
    place: Place,
) -> None:
    stem = await enqueue(place.storage, new_stem("slow"), seconds=2)
    await kill_in_mid_run(place, stem)
    async with place.worker():
        sidecar = await place.ended(stem, within=14)
        assert (sidecar.attempt, sidecar.error) == (2, None)
    assert await place.is_tidy()


class Unplugged:
    """Storage of a worker whose host dies when it begins to upload."""

    def __init__(self, storage: ExchangeStorage) -> None:
        self._storage = storage
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._storage, name)
        if self.dead:
            raise Crash(name)
        return self._write if name == "write" else call

    async def _write(self, container: Container, name: str, *args: Any, **options: Any) -> Any:
        if name.endswith(".zip"):
            self.dead = True
            raise Crash("upload")
        return await self._storage.write(container, name, *args, **options)


async def test_a_worker_that_restarts_uploads_a_run_that_had_ended(place: Place) -> None:
    stem = await enqueue(place.storage)
    unplugged = Unplugged(place.storage)
    worker = run_worker(unplugged, place.runtime, place.settings, asyncio.Event(), once=True)  # type: ignore[arg-type]
    dying = asyncio.create_task(worker, name="worker")
    await asyncio.wait({dying})
    assert isinstance(dying.exception(), Crash)
    [run] = (place.worker_folder() / "runs").iterdir()
    nonce = json.loads((run / "outcome.json").read_text())["nonce"]
    assert await place.once() == 0
    sidecar = await sidecar_of(place.storage, stem)
    assert sidecar is not None
    assert (sidecar.attempt, sidecar.nonce, sidecar.error) == (1, nonce, None)
    assert (await zip_of(place.storage, stem)).testzip() is None
    assert await place.is_tidy()


async def test_a_worker_that_lost_its_lease_ends_its_container_and_commits_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aioanalysis.worker.claims.RENEWALS", 15)
    stem = await enqueue(place.storage, new_stem("slow"), seconds=60)
    async with place.worker() as stop:
        await place.running(stem)
        stop.set()  # or it would take up the next attempt
        await place.break_lease(stem)
        assert await recover(place.storage, stem)
        await eventually(place.is_tidy, within=15, every=0.1)
    assert await outcome_of(place.storage, stem) is None
    assert await names_in(place.storage, RESULTS, stem) == []
    assert await names_in(place.storage, QUEUE) == [package_name(stem)]


async def test_a_worker_stopped_for_longer_than_its_lease_commits_nothing_when_it_goes_on(
    place: Place,
) -> None:
    stem = await enqueue(place.storage, new_stem("slow"), seconds=4)
    async with place.process(sample_interval=0.5) as process:
        await place.running(stem, worker=process)
        process.send_signal(signal.SIGSTOP)
        if place.exchange.real_time:
            await place.exchange.lapse(RESULTS, claim_name(stem))
        else:
            await asyncio.sleep(16)  # the stopped worker's clock is the real one
            await place.exchange.lapse(RESULTS, claim_name(stem))
        assert await recover(place.storage, stem)
        async with place.worker(worker_id="other"):
            sidecar = await place.ended(stem)
        process.send_signal(signal.SIGCONT)

        async def let_go() -> bool:
            return not list((place.worker_folder() / "runs").iterdir())

        await eventually(let_go, within=15, every=0.2)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(15):
            assert await process.wait() == 0
    after = await sidecar_of(place.storage, stem)
    assert after is not None
    assert (after.attempt, after.nonce) == (2, sidecar.nonce)
    info = await place.storage.stat(RESULTS, result_name(stem, Ending.COMPLETE))
    assert info is not None
    assert info.metadata["sha256"] == after.result_sha256
    assert await place.is_tidy()
