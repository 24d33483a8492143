"""A Docker Swarm of two nodes on this machine, and the stack of compose.yaml on it: `scripts/try-swarm`.

Each node is an engine of its own in a network namespace of its own, as on a host of its own; a bridge joins
them. Needs root and a kernel with VXLAN. The images come out of this machine's engine.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from aioanalysis.client import open_client
from tests.support.flow import Flow, Restart, problems
from tests.support.servers import Server
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
IMAGES = tuple(f"aioanalysis{part}:local" for part in ("", "-redis", "-azurite", "-base"))
NETWORK = "10.254.77."
STACK = "aioanalysis"
PREFIX = "aasw-"
SEEN_IN_NODES = Path("/tmp/aioanalysis-node")
STARTED_SECONDS = 180.0


class Node(Server):
    """dockerd in network, host name and mounts of its own."""

    stop_within = 60.0

    def __init__(self, number: int) -> None:
        super().__init__(shutil.which("dockerd") or "dockerd")
        self.name = f"node{number}"
        self.host = f"{NETWORK}{10 + number}"
        self.namespace = f"{PREFIX}{number}"

    def command(self) -> list[str]:
        folder = self.folder
        # Without a name server the vain look for images in a registry ends at once.
        script = (
            f"hostname {self.name}; mount --bind {folder} {SEEN_IN_NODES}; "
            "mount --bind /dev/null /etc/resolv.conf; "
            f"exec {self.program} --host unix://{SEEN_IN_NODES}/sock --data-root {folder}/data "
            f"--exec-root {folder}/exec --pidfile {folder}/pid"
        )
        return [
            "nsenter",
            f"--net=/run/netns/{self.namespace}",
            "unshare",
            "--uts",
            "--mount",
            "sh",
            "-c",
            script,
        ]

    @property
    def address(self) -> str:
        return f"unix://{self.folder}/sock"

    def answers(self) -> bool:
        return bool(self.docker("version", "--format", "{{.Server.Version}}"))

    def docker(self, *arguments: str) -> str:
        done = subprocess.run(
            ["docker", "--host", self.address, *arguments], capture_output=True, text=True, timeout=240
        )
        if done.returncode:
            raise OSError(done.stderr)
        return done.stdout.strip()

    def load_images(self) -> None:
        with subprocess.Popen(["docker", "save", *IMAGES], stdout=subprocess.PIPE) as saving:
            subprocess.run(
                ["docker", "--host", self.address, "load"],
                stdin=saving.stdout,
                check=True,
                capture_output=True,
            )
        if saving.returncode:
            raise OSError("docker save failed; scripts/local-images makes the images")


def _ip(*arguments: str, within: str | None = None) -> None:
    subprocess.run(["ip", *(("-n", within) if within else ()), *arguments], check=True)


@contextmanager
def joined(nodes: list[Node]) -> Iterator[None]:
    """Network namespaces of the nodes on one bridge, which this machine reaches as `NETWORK`1."""
    hub = f"{PREFIX}hub"
    names = [hub, *(node.namespace for node in nodes)]
    SEEN_IN_NODES.mkdir(exist_ok=True)
    try:
        for name in names:
            _ip("netns", "add", name)
            _ip("link", "set", "lo", "up", within=name)
        _ip("link", "add", "br0", "type", "bridge", within=hub)
        _ip("link", "set", "br0", "up", within=hub)
        for node in nodes:
            here = node.namespace
            _ip("link", "add", here, "netns", hub, "type", "veth", "peer", "name", "eth0", "netns", here)
            _ip("link", "set", here, "master", "br0", "up", within=hub)
            _ip("addr", "add", f"{node.host}/24", "dev", "eth0", within=here)
            _ip("link", "set", "eth0", "up", within=here)
            _ip("route", "add", "default", "via", f"{NETWORK}1", within=here)
        _ip("link", "add", f"{PREFIX}root", "type", "veth", "peer", "name", "root", "netns", hub)
        _ip("link", "set", "root", "master", "br0", "up", within=hub)
        _ip("addr", "add", f"{NETWORK}1/24", "dev", f"{PREFIX}root")
        _ip("link", "set", f"{PREFIX}root", "up")
        yield
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)
        SEEN_IN_NODES.rmdir()


@contextmanager
def swarm() -> Iterator[tuple[Node, Node]]:
    """Two joined nodes, images loaded; the first is the manager."""
    nodes = [Node(1), Node(2)]
    with joined(nodes), ExitStack() as stack:
        for node in nodes:
            stack.enter_context(node)
            node.load_images()
        manager, worker = nodes
        manager.docker("swarm", "init", "--advertise-addr", manager.host)
        token = manager.docker("swarm", "join-token", "--quiet", "worker")
        worker.docker(
            "swarm", "join", "--advertise-addr", worker.host, "--token", token, f"{manager.host}:2377"
        )
        yield manager, worker


def scripts_swarm(command: str, manager: Node, folder: Path) -> str:
    """What `scripts/swarm COMMAND` printed."""
    done = subprocess.run(
        [ROOT / "scripts" / "swarm", command],
        env={
            **os.environ,
            "COMPOSE_ENV": str(folder / "compose.env"),
            "DOCKER_HOST": manager.address,
            "DOCKER_SOCKET": f"{SEEN_IN_NODES}/sock",
            "SERVICE_IMAGE": "aioanalysis:local",
            "REDIS_IMAGE": "aioanalysis-redis:local",
            "AZURITE_IMAGE": "aioanalysis-azurite:local",
            "METHODS": str(ROOT / "tests" / "support" / "methods"),
            "STACK": STACK,
        },
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise OSError(f"scripts/swarm {command}: {done.stderr}")
    return done.stdout


def prepare_environment(manager: Node, folder: Path) -> None:
    """compose.env as scripts/compose makes it on the manager, with four workers."""
    file = folder / "compose.env"
    subprocess.run(
        [ROOT / "scripts" / "compose", "config"],
        env={**os.environ, "COMPOSE_ENV": str(file), "DOCKER_SOCKET": str(manager.folder / "sock")},
        check=True,
        capture_output=True,
    )
    lines = [line for line in file.read_text().splitlines() if not line.startswith("WORKERS=")]
    lines += ["WORKERS=4", "AIOANALYSIS_BASE_IMAGE=aioanalysis-base:local", "AIOANALYSIS_BUILD_NETWORK=none"]
    file.write_text("\n".join(lines) + "\n")


def is_up(manager: Node) -> bool:
    """Whether every service that stays has all its replicas."""
    lines = manager.docker("stack", "services", "--format", "{{.Name}} {{.Replicas}}", STACK).splitlines()
    replicas = dict(line.split() for line in lines if "_containers " not in line)
    return bool(replicas) and all(len(set(count.split("/"))) == 1 for count in replicas.values())


def restart(manager: Node, service: str) -> Restart:
    """A rolling restart of a service, replica by replica; waits until the last one runs."""

    def now() -> None:
        began = time.monotonic()
        manager.docker("service", "update", "--force", "--detach=false", "--quiet", f"{STACK}_{service}")
        print(f"restarted {service}, a replica at a time, in {time.monotonic() - began:.0f} s", flush=True)

    return lambda: asyncio.to_thread(now)


async def jobs_through_restarts(manager: Node, folder: Path, key: str) -> list[str]:
    """Jobs through the stack while workers and API are restarted; what is wrong with them."""
    hiccups: list[str] = []
    async with open_client(
        f"http://{manager.host}:8080", key, patience=90, on_retry=hiccups.append
    ) as client:
        flow = Flow(
            clients=[client],
            title="slow",
            recordset="records",
            params={"seconds": 3},
            folder=folder,
            count=80,
            at_once=12,
        )
        jobs = await flow.through([restart(manager, "api"), restart(manager, "worker")])
        hosts = {(await client.metadata(job["id"]))["worker"]["host"] for job in jobs}
        print(f"{len(jobs)} jobs, run by {len(hosts)} containers; calls tried again: {len(hiccups)}")
        return await problems(client, jobs)


def main() -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="swarm-") as name, swarm() as (manager, worker):
        folder = Path(name)
        print(manager.docker("node", "ls"), flush=True)
        prepare_environment(manager, folder)
        scripts_swarm("up", manager, folder)
        try:
            until(lambda: is_up(manager), within=STARTED_SECONDS, every=1, what="the stack is up")
            print(scripts_swarm("status", manager, folder), flush=True)
            api = manager.docker(
                "ps", "--quiet", "--filter", f"label=com.docker.swarm.service.name={STACK}_api"
            )
            key = manager.docker("exec", api, "aioanalysis", "keys", "add", "ada")
            found = asyncio.run(jobs_through_restarts(manager, folder, key))
        finally:
            scripts_swarm("down", manager, folder)
            until(lambda: not (manager.docker("ps", "--quiet") or worker.docker("ps", "--quiet")), within=90)
    for problem in found:
        print(f"PROBLEM  {problem}")
    print(f"{len(found) or 'no'} problems; {time.monotonic() - began:.0f} s")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
