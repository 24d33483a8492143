"""The docker runtime on the real engine: images, isolation, causes of failure, and an engine that falters."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aioanalysis.domain.method import Limits
from aioanalysis.errors import MethodFailure, Unavailable
from aioanalysis.interfaces import Exit, MethodDirectory
from aioanalysis.methods import load_method
from aioanalysis.runtime.container import CLEARING, KIND_LABEL
from aioanalysis.runtime.docker import DockerRuntime
from aioanalysis.runtime.engine import Engine, open_engine
from aioanalysis.runtime.images import Images, image_tag
from tests.support.faultproxy import FaultProxy, http_reply
from tests.support.runs import (
    DOCKERFILE,
    LABEL,
    METHODS,
    job_directory,
    remove_images,
    run_spec,
    write_method,
)
from tests.support.waiting import eventually

USER = (65534, 65534)

SLOW_DOCKERFILE = "ARG BASE_IMAGE\nFROM $BASE_IMAGE\nRUN sleep 2 # {}\n"


class Bench:
    """A runtime on an engine behind a proxy, and methods of one test's own."""

    def __init__(self, engine: Engine, proxy: FaultProxy, base_image: str, folder: Path, unique: str) -> None:
        self.engine, self.proxy, self.base_image = engine, proxy, base_image
        self.folder, self.unique = folder, unique
        self.runtime = DockerRuntime(engine, Images(engine, base_image=base_image, network="none"), user=USER)

    async def write(self, stages: dict[int, str] | None = None, **more: Any) -> MethodDirectory:
        write_method(self.folder / "methods", self.unique, stages, **more)
        return await self.load()

    async def load(self) -> MethodDirectory:
        return await load_method(self.folder / "methods", self.unique, base_image=self.base_image)

    async def start(
        self, method: MethodDirectory | str = "noop", params: Any = None, **spec: Any
    ) -> tuple[str, Path]:
        if isinstance(method, str):
            method = await load_method(METHODS, method, base_image=self.base_image)
        image = await self.runtime.build(method)
        job_dir = job_directory(self.folder, params)
        run = await self.runtime.start(image, run_spec(method, job_dir, label=self.unique, **spec))
        return run, job_dir

    async def finish(self, run: str, *, within: float = 30) -> Exit:
        async with asyncio.timeout(within):
            return await self.runtime.wait(run)

    async def inspect(self, run: str) -> dict[str, Any]:
        facts = await self.engine.find(f"containers/{run}/json")
        assert facts is not None
        return facts

    def asked(self, pattern: str) -> int:
        return sum(pattern in line for line in self.proxy.requests)

    async def clean(self) -> None:
        await self.proxy.heal()
        for run in await self.runtime.leftovers(LABEL, self.unique):
            await self.runtime.remove(run)
        await remove_images(self.engine, self.unique)


@pytest.fixture
async def bench(docker_engine: str, base_image: str, tmp_path: Path, unique: str) -> AsyncIterator[Bench]:
    socket = tmp_path / "engine.sock"
    async with (
        FaultProxy(docker_engine.removeprefix("unix://"), "http", unix_path=socket) as proxy,
        open_engine(f"unix://{socket}") as engine,
    ):
        bench = Bench(engine, proxy, base_image, tmp_path, unique)
        yield bench
        await bench.clean()


# --- images ----------------------------------------------------------------------------------------------


async def test_an_image_that_does_not_build_fails_with_the_end_of_its_output(bench: Bench) -> None:
    method = await load_method(METHODS, "bad_image", base_image=bench.base_image)
    with pytest.raises(MethodFailure, match="returned a non-zero code: 17") as caught:
        await bench.runtime.build(method)
    assert caught.value.reason == "image"
    assert "a library is missing\n" in caught.value.output
    assert "\x1b" not in caught.value.output


async def test_a_failed_build_leaves_no_container(bench: Bench) -> None:
    method = await bench.write(
        dockerfile=f"ARG BASE_IMAGE\nFROM $BASE_IMAGE\nRUN echo {bench.unique} && false\n"
    )
    with pytest.raises(MethodFailure):
        await bench.runtime.build(method)
    containers = await bench.engine.call("GET", "containers/json", params={"all": "1"})
    assert not [c for c in containers if bench.unique in c["Command"]]


@pytest.mark.parametrize("dockerfile", ["NONSENSE\n", "", "FROM\n", "FROM no.such.image.anywhere:1\n"])
async def test_a_dockerfile_that_cannot_be_read_is_the_methods_fault(bench: Bench, dockerfile: str) -> None:
    with pytest.raises(MethodFailure) as caught:
        await bench.runtime.build(await bench.write(dockerfile=dockerfile))
    assert caught.value.reason == "image"


async def test_nothing_is_paid_for_a_method_that_has_not_changed(bench: Bench) -> None:
    method = await bench.write()
    first = await bench.runtime.build(method)
    bench.proxy.requests.clear()
    second = await bench.runtime.build(await bench.load())
    assert (first.built, second.built, second.id) == (True, False, first.id)
    assert len(bench.proxy.requests) <= 2
    assert first.base is not None


async def test_a_changed_file_counts_at_the_next_build(bench: Bench) -> None:
    first = await bench.runtime.build(await bench.write())
    second = await bench.runtime.build(await bench.write({2: "print('another')\n"}))
    assert second.built
    assert (second.id, second.digest) != (first.id, first.digest)
    run, _ = await bench.start(await bench.load())
    assert "another" in (await bench.finish(run)).output_tail


async def test_after_a_rebuild_that_fails_the_older_image_does_not_run(bench: Bench) -> None:
    await bench.runtime.build(await bench.write())
    broken = await bench.write(dockerfile=DOCKERFILE + "RUN exit 9\n")
    for _ in range(2):
        with pytest.raises(MethodFailure, match="code: 9"):
            await bench.runtime.build(broken)


async def test_one_digest_is_built_once_for_all_who_ask_at_the_same_time(bench: Bench) -> None:
    method = await bench.write(dockerfile=SLOW_DOCKERFILE.format(bench.unique))
    builds = [asyncio.create_task(bench.runtime.build(method)) for _ in range(5)]
    await eventually(lambda: bench.asked("/build?"), within=10)
    builds[0].cancel()
    images = await asyncio.gather(*builds, return_exceptions=True)
    assert isinstance(images[0], asyncio.CancelledError)
    assert len({image.id for image in images[1:]}) == 1  # type: ignore[union-attr]
    assert bench.asked("/build?") == 1


async def test_a_build_that_nobody_waits_for_is_given_up_and_can_be_had_again(bench: Bench) -> None:
    slow = await bench.write(dockerfile=SLOW_DOCKERFILE.format(bench.unique))
    build = asyncio.create_task(bench.runtime.build(slow))
    await eventually(lambda: bench.asked("/build?"), within=10)
    build.cancel()
    await asyncio.wait([build])
    assert (await bench.runtime.build(slow)).built
    assert bench.asked("/build?") == 2


async def test_a_directory_that_changed_before_it_was_sent_is_built_as_what_it_is(bench: Bench) -> None:
    old = await bench.write()
    new = await bench.write({2: "print('newer')\n"})
    image = await bench.runtime.build(old)
    assert image.digest == new.digest != old.digest
    assert await bench.engine.find(f"images/{image_tag(old)}/json") is None


async def test_the_context_is_the_same_from_two_checkouts(bench: Bench) -> None:
    first = await bench.runtime.build(await bench.write())
    for path in (bench.folder / "methods").rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    second = await bench.runtime.build(await bench.load())
    assert (second.id, second.built) == (first.id, False)
    run, _ = await bench.start(await bench.load())
    assert (await bench.finish(run)).code == 0


async def make_base(bench: Bench, layer: str) -> str:
    base = f"aioanalysis-test-base:{bench.unique}"
    text = f"FROM {bench.base_image}\nLABEL layer={layer} aioanalysis.title={bench.unique}\n"
    command = ["docker", "build", "-q", "-t", base, "-"]
    await asyncio.to_thread(subprocess.run, command, input=text.encode(), check=True, capture_output=True)
    return base


async def test_a_base_image_that_changed_under_its_name_is_built_upon_anew(bench: Bench) -> None:
    base = await make_base(bench, "one")
    images = Images(bench.engine, base_image=base, network="none")
    write_method(bench.folder / "methods", bench.unique)
    method = await load_method(bench.folder / "methods", bench.unique, base_image=base)
    first = await images.build(method)
    await make_base(bench, "two")
    second = await images.build(method)
    assert second.built
    assert second.base != first.base
    assert not (await images.build(method)).built


async def test_a_base_image_that_changes_during_a_build_counts_at_the_next(bench: Bench) -> None:
    base = await make_base(bench, "one")
    images = Images(bench.engine, base_image=base, network="none")
    write_method(bench.folder / "methods", bench.unique, dockerfile=DOCKERFILE + "RUN sleep 2\n")
    method = await load_method(bench.folder / "methods", bench.unique, base_image=base)
    building = asyncio.create_task(images.build(method))
    await eventually(lambda: bench.asked("/build?"), within=10)
    await make_base(bench, "two")
    assert (await building).built
    assert (await images.build(method)).built


# --- isolation and limits --------------------------------------------------------------------------------

PROBE = """
import json, os, socket, time

def tries(do):
    try:
        do()
    except OSError as error:
        return type(error).__name__ + " " + str(error.errno)
    return "done"

def forks():
    pids = []
    try:
        for _ in range(1000):
            pid = os.fork()
            if pid == 0:
                time.sleep(60)
            pids.append(pid)
    finally:
        for pid in pids:
            os.kill(pid, 9)

def large():
    with open("large", "wb") as file:
        for _ in range(64):
            file.write(bytes(1 << 20))

lines = open("/proc/self/status").read().splitlines()
status = dict(line.split(":\\t", 1) for line in lines if ":\\t" in line)
found = {
    "ids": [os.getuid(), os.getgid(), *os.getgroups()],
    "capabilities": status["CapEff"], "bounding": status["CapBnd"], "no_new_privs": status["NoNewPrivs"],
    "root": tries(lambda: open("/written", "w")),
    "method": tries(lambda: open("/method/written", "w")),
    "tmp": tries(lambda: open("/tmp/written", "w")),
    "network": tries(lambda: socket.create_connection(("192.0.2.1", 80), timeout=2)),
    "interfaces": [name for _, name in socket.if_nameindex()],
    "engine": os.path.exists("/var/run/docker.sock") or os.path.exists("/run/docker.sock"),
    "root_user": tries(lambda: os.setuid(0)),
    "chown": tries(lambda: os.chown("params.json", 0, 0)),
    "device": tries(lambda: os.mknod("device", 0o60600, os.makedev(8, 0))),
    "forks": tries(forks),
    "large": tries(large),
    "seconds": time.monotonic(),
}
json.dump(found, open("found.json", "w"))
"""


async def test_a_run_is_isolated_and_each_limit_holds(bench: Bench) -> None:
    limits = Limits(memory_bytes=128 << 20, cpus=1, output_bytes=16 << 20)
    run, job_dir = await bench.start(await bench.write({1: PROBE}), limits=limits)
    ended = await bench.finish(run)
    assert ended.code == 0, ended
    found = json.loads((job_dir / "found.json").read_text())
    assert found["ids"][:2] == [*USER]
    assert 0 not in found["ids"]
    assert int(found["capabilities"], 16) == int(found["bounding"], 16) == 0
    assert found["no_new_privs"] == "1"
    assert found["root"] == found["method"] == "OSError 30"  # read-only file system
    assert found["tmp"] == "done"
    assert found["network"] == "OSError 101"  # network is unreachable
    assert found["interfaces"] == ["lo"]
    assert not found["engine"]
    assert found["root_user"] == found["chown"] == found["device"] == "PermissionError 1"
    assert found["forks"] == "BlockingIOError 11"
    assert found["large"] == "OSError 27"  # file too large


async def test_the_engine_is_given_every_limit_and_no_more_cpus_than_it_has(bench: Bench) -> None:
    limits = Limits(memory_bytes=64 << 20, cpus=4096)
    run, job_dir = await bench.start("slow", {"seconds": 60}, limits=limits)
    facts = await bench.inspect(run)
    host = facts["HostConfig"]
    assert (host["Memory"], host["MemorySwap"]) == (64 << 20, 64 << 20)
    assert 0 < host["NanoCpus"] < 4096e9
    assert host["PidsLimit"] == 256
    assert host["Init"] is True
    assert host["AutoRemove"] is False
    assert host["LogConfig"] == {"Type": "json-file", "Config": {"max-file": "2", "max-size": "1m"}}
    assert host["Binds"] is None
    assert [m["Source"] for m in host["Mounts"]] == [str(job_dir)]
    assert facts["Config"]["Labels"]["aioanalysis"] == "run"


async def test_only_a_method_that_asks_for_it_has_a_network(bench: Bench) -> None:
    run, _ = await bench.start(await bench.write({1: "import time; time.sleep(60)\n"}, network=True))
    assert (await bench.inspect(run))["HostConfig"]["NetworkMode"] == "bridge"


async def test_a_process_killed_for_memory_is_told(bench: Bench) -> None:
    run, _ = await bench.start("oom")
    ended = await bench.finish(run)
    assert ended.out_of_memory
    assert "memory" in ended.detail
    assert ended.code == 3


UNRULY = """
import os
os.makedirs("a/b")
open("a/b/c", "w")
os.mkfifo("a/pipe")
os.chmod("a/b", 0)
os.chmod("a", 0)
"""


async def test_what_a_run_leaves_can_be_taken_away(bench: Bench) -> None:
    run, job_dir = await bench.start(await bench.write({5: UNRULY}))
    assert (await bench.finish(run)).code == 0
    shutil.rmtree(job_dir)
    assert not job_dir.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
async def test_what_others_own_in_a_folder_is_cleared_by_root_and_nothing_outside_it(bench: Bench) -> None:
    await bench.runtime.build(await load_method(METHODS, "noop", base_image=bench.base_image))
    outside, folder = bench.folder / "outside", bench.folder / "folder"
    (outside / "kept").mkdir(parents=True)
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "file").touch()
    (folder / "link").symlink_to(outside)
    (folder / "a" / "link").symlink_to(outside)
    for path in (folder / "a" / "b", folder / "a"):
        os.chown(path, 4711, 4711)
        path.chmod(0)
    await bench.runtime.clear(folder)
    assert list(folder.iterdir()) == []
    assert (outside / "kept").is_dir()
    await bench.runtime.clear(folder)
    filters = {"filters": json.dumps({"label": [f"{KIND_LABEL}={CLEARING}"]}), "all": "1"}
    assert await bench.engine.call("GET", "containers/json", params=filters) == []


async def test_a_folder_that_cannot_be_cleared_is_told(bench: Bench) -> None:
    with pytest.raises(Unavailable, match="cannot be cleared"):
        await bench.runtime.clear(bench.folder / "none")


# --- starting and ending ---------------------------------------------------------------------------------


async def test_an_entry_point_that_cannot_be_run_is_told(bench: Bench) -> None:
    method = await bench.write(dockerfile=DOCKERFILE + 'ENTRYPOINT ["/no/such/program"]\n')
    ended = await bench.finish((await bench.start(method))[0])
    assert ended.code == 127
    assert "entry point" in ended.detail
    assert "/no/such/program" in ended.output_tail


async def test_a_container_that_the_engine_does_not_make_is_told_in_its_words(bench: Bench) -> None:
    with pytest.raises(MethodFailure, match=r"(?i)minimum memory limit") as caught:
        await bench.start("noop", limits=Limits(memory_bytes=1024))
    assert caught.value.reason == "container"


@pytest.mark.parametrize(
    ("status", "message", "error"),
    [
        (400, "OCI runtime create failed: no such file", MethodFailure),
        (500, "OCI runtime create failed: container_linux.go", MethodFailure),
        (500, "server is shutting down", Unavailable),
        (503, "busy", Unavailable),
    ],
)
async def test_a_start_that_fails_takes_its_container_away(
    bench: Bench, status: int, message: str, error: type[Exception]
) -> None:
    body = json.dumps({"message": message}).encode()
    reply = http_reply(status, body, headers={"Content-Type": "application/json"})
    bench.proxy.answer(r"^POST \S+/start", reply=reply)
    with pytest.raises(error, match=message):
        await bench.start("noop")
    assert await bench.runtime.leftovers(LABEL, bench.unique) == []


async def test_an_image_that_was_pruned_meanwhile_is_to_be_built_again(bench: Bench) -> None:
    method = await bench.write()
    image = await bench.runtime.build(method)
    await bench.engine.call("DELETE", f"images/{image.id}", params={"force": "1"})
    with pytest.raises(Unavailable, match="built again"):
        await bench.runtime.start(image, run_spec(method, job_directory(bench.folder), label=bench.unique))
    assert (await bench.runtime.build(method)).built


async def test_a_container_that_was_never_started_has_no_exit_code(bench: Bench) -> None:
    answer = await bench.engine.call(
        "POST",
        "containers/create",
        body={"Image": bench.base_image, "Labels": {LABEL: bench.unique, "aioanalysis": "run"}},
    )
    ended = await bench.finish(answer["Id"])
    assert ended.code is None
    assert "never started" in ended.detail


async def test_a_killed_container_tells_that_it_was_not_memory(bench: Bench) -> None:
    run, _ = await bench.start("slow", {"seconds": 60})
    await bench.engine.call("POST", f"containers/{run}/kill")
    ended = await bench.finish(run)
    assert (ended.code, ended.out_of_memory) == (137, False)
    assert "not for memory" in ended.detail


async def test_a_container_removed_by_others_has_vanished(bench: Bench) -> None:
    run, _ = await bench.start("slow", {"seconds": 60})
    waiting = asyncio.create_task(bench.finish(run))
    await eventually(lambda: bench.asked(f"/{run}/wait"))
    await bench.engine.call("DELETE", f"containers/{run}", params={"force": "1"})
    ended = await waiting
    assert ended.code is None or ended.code == 137
    assert (await bench.finish(run)).code is None


async def test_a_hundred_and_fifty_cancelled_samplers_leave_no_connection(bench: Bench) -> None:
    run, _ = await bench.start("slow", {"seconds": 60})
    for batch in range(15):
        samplers = [asyncio.create_task(bench.runtime.sample(run)) for _ in range(10)]
        await asyncio.wait(samplers, timeout=0.005 * batch)
        for sampler in samplers:
            sampler.cancel()
        await asyncio.wait(samplers)
    assert bench.engine.connections == 0
    async with asyncio.timeout(5):
        assert await bench.runtime.check()
        assert await bench.runtime.sample(run) is not None


# --- an engine that falters ------------------------------------------------------------------------------


async def test_waiting_outlives_connections_that_break_and_an_engine_that_is_away(bench: Bench) -> None:
    run, _ = await bench.start("slow", {"seconds": 1.5})
    waiting = asyncio.create_task(bench.finish(run))
    await eventually(lambda: bench.asked(f"/{run}/wait"))
    await bench.proxy.drop_connections()
    await eventually(lambda: bench.asked(f"/{run}/wait") >= 2)
    await bench.proxy.refuse()
    assert await bench.runtime.sample(run) is None
    with pytest.raises(Unavailable):
        await bench.runtime.check()
    await bench.proxy.accept()
    ended = await waiting
    assert ended.code == 0
    assert "away or restarted" in ended.detail


async def test_an_engine_that_answers_500_for_a_while_does_not_end_a_wait(bench: Bench) -> None:
    run, _ = await bench.start("slow", {"seconds": 0.5})
    reply = http_reply(500, b'{"message": "hiccup"}', headers={"Content-Type": "application/json"})
    faults = [bench.proxy.answer(pattern, reply=reply, times=2) for pattern in (r"/wait", r"/json")]
    assert (await bench.finish(run)).code == 0
    assert [fault.hits for fault in faults] == [2, 2]


@pytest.mark.parametrize("pattern", [r"^POST \S+/containers/create", r"^POST \S+/start"])
async def test_a_start_whose_reply_is_lost_leaves_nothing_and_can_be_repeated(
    bench: Bench, pattern: str
) -> None:
    method = await load_method(METHODS, "noop", base_image=bench.base_image)
    image = await bench.runtime.build(method)
    job_dir = job_directory(bench.folder)
    spec = run_spec(method, job_dir, label=bench.unique)
    fault = bench.proxy.drop_reply(pattern)
    with pytest.raises(Unavailable):
        await bench.runtime.start(image, spec)
    assert fault.hits == 1
    assert await bench.runtime.leftovers(LABEL, bench.unique) == []
    assert (await bench.finish(await bench.runtime.start(image, spec))).code == 0


async def test_a_removal_whose_reply_is_lost_is_done(bench: Bench) -> None:
    run, _ = await bench.start("noop")
    fault = bench.proxy.drop_reply(r"^DELETE")
    await bench.runtime.remove(run)
    assert fault.hits == 1
    assert await bench.runtime.leftovers(LABEL, bench.unique) == []


async def test_a_build_that_breaks_off_is_the_engines_fault_and_works_the_next_time(bench: Bench) -> None:
    method = await bench.write()
    with bench.proxy.cut_reply(r"/build\?", after=10) as fault:
        with pytest.raises(Unavailable):
            await bench.runtime.build(method)
        assert fault.hits == 1
    with bench.proxy.cut_request(r"/build\?", after=10), pytest.raises(Unavailable):
        await bench.runtime.build(method)
    assert (await bench.runtime.build(method)).id
    assert bench.engine.connections == 0


async def test_an_engine_too_old_or_not_to_be_understood_is_refused(bench: Bench, tmp_path: Path) -> None:
    for version in (b'{"ApiVersion": "1.40"}', b"<html>"):
        reply = http_reply(200, version, headers={"Content-Type": "application/json"})
        with bench.proxy.answer(r"/version", reply=reply, times=None), pytest.raises(Unavailable):
            await bench.runtime.check()
    async with open_engine(f"unix://{tmp_path}/nothing.sock") as engine:
        with pytest.raises(Unavailable):
            await engine.version()
