"""What a run's container is given and what the engine tells of it, as pure functions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aioanalysis.buildcontext import SHARED
from aioanalysis.domain.usage import Sample
from aioanalysis.interfaces import Exit, Image, RunSpec
from aioanalysis.runtime.engine import engine_time

KIND_LABEL: Final = "aioanalysis"
RUN: Final = "run"
CLEARING: Final = "clearing"
TMP_BYTES: Final = 64 * 1024 * 1024
PIDS: Final = 256
OPEN_FILES: Final = 4096
OUTPUT_BYTES: Final = 64 * 1024
TERM_SECONDS: Final = 1  # what a stage has after SIGTERM, within the stop's own time

CLEARING_MEMORY_BYTES: Final = 512 * 1024 * 1024
CLEAR: Final = """
import os, shutil
for entry in os.scandir("/job"):
    shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
"""

CONTAINER_ENDED: Final = frozenset({"exited", "dead"})


def container_config(
    image: Image, spec: RunSpec, *, user: tuple[int, int], host_cpus: int | None, source: str | None = None
) -> dict[str, Any]:
    """The container of a run: nothing of the host but its job directory, and no rights (HAZARDS H24).

    `source` is the job directory's path on the engine's host, where that is another one.
    """
    uid, gid = user
    return {
        "Image": image.id,
        "User": f"{uid}:{gid}",
        "WorkingDir": "/job",
        "Env": [f"{name}={value}" for name, value in _environment(spec).items()],
        "Labels": {**spec.labels, KIND_LABEL: RUN},
        "Tty": False,
        "OpenStdin": False,
        "HostConfig": _host_config(spec, host_cpus, source or str(spec.job_dir.absolute())),
    }


def _environment(spec: RunSpec) -> dict[str, str]:
    environment = {
        "JOB_DIR": "/job",
        "METHOD_DIR": "/method",
        "ALIVE_TIMEOUT_SECONDS": f"{spec.alive_seconds:g}",
        "TERM_SECONDS": str(TERM_SECONDS),
        "HOME": "/tmp",  # noqa: S108 (the container's own tmpfs)
    }
    if (spec.method.path.parent / SHARED).is_dir():
        environment["PYTHONPATH"] = f"/method/{SHARED}"
    return environment


def _host_config(spec: RunSpec, host_cpus: int | None, source: str) -> dict[str, Any]:
    limits = spec.limits
    ulimits = [_ulimit("nofile", OPEN_FILES), _ulimit("core", 0)]
    if limits.output_bytes is not None:
        ulimits.append(_ulimit("fsize", limits.output_bytes))
    config: dict[str, Any] = {
        "NetworkMode": "bridge" if spec.method.method.network else "none",
        "CapDrop": ["ALL"],
        "UsernsMode": "host",  # an engine that maps user ids would have the job directory another's
        "SecurityOpt": ["no-new-privileges:true"],
        "ReadonlyRootfs": True,
        "Tmpfs": {"/tmp": f"rw,nosuid,nodev,size={TMP_BYTES}"},  # noqa: S108
        "PidsLimit": PIDS,
        "Init": True,
        "Ulimits": ulimits,
        "LogConfig": {"Type": "json-file", "Config": {"max-size": "1m", "max-file": "2"}},
        "Mounts": [{"Type": "bind", "Source": source, "Target": "/job"}],
        "AutoRemove": False,
    }
    if limits.memory_bytes is not None:
        config |= {"Memory": limits.memory_bytes, "MemorySwap": limits.memory_bytes}
    if limits.cpus is not None:  # the engine refuses more than it has
        config["NanoCpus"] = round(min(limits.cpus, host_cpus or limits.cpus) * 1e9)
    return config


def _ulimit(name: str, value: int) -> dict[str, Any]:
    return {"Name": name, "Soft": value, "Hard": value}


def clearing_config(image: str, source: str) -> dict[str, Any]:
    """A container that empties the folder `source` of the engine's host: root, with a right to files only."""
    return {
        "Image": image,
        "User": "0:0",
        "Entrypoint": ["python3", "-I", "-c", CLEAR],
        "WorkingDir": "/",
        "Labels": {KIND_LABEL: CLEARING},
        "HostConfig": {
            "NetworkMode": "none",
            "UsernsMode": "host",
            "CapDrop": ["ALL"],
            "CapAdd": ["DAC_OVERRIDE", "FOWNER"],
            "SecurityOpt": ["no-new-privileges:true"],
            "ReadonlyRootfs": True,
            "PidsLimit": PIDS,
            "Memory": CLEARING_MEMORY_BYTES,
            "LogConfig": {"Type": "json-file", "Config": {"max-size": "1m", "max-file": "2"}},
            "Mounts": [{"Type": "bind", "Source": source, "Target": "/job"}],
        },
    }


def give_to(job_dir: Path, user: tuple[int, int]) -> None:
    """Make the job directory and all in it `user`'s, as far as we may; links are not followed. Blocks."""
    if os.getuid() != 0:
        return
    os.chown(job_dir, *user, follow_symlinks=False)
    for folder, folders, files in os.walk(job_dir):
        for name in (*folders, *files):
            os.chown(Path(folder, name), *user, follow_symlinks=False)


def exit_of(facts: Mapping[str, Any], *, engine_was_away: bool = False) -> Exit | None:
    """How a container that `facts` describe has ended; None while it has not."""
    state = facts.get("State") or {}
    started_at = engine_time(state.get("StartedAt"))
    if state.get("Status") == "created":
        return Exit(code=None, detail=state.get("Error") or "The container was never started.")
    if state.get("Status") not in CONTAINER_ENDED:
        return None
    code, oom = state.get("ExitCode"), bool(state.get("OOMKilled"))
    told = [str(state["Error"])] if state.get("Error") else []
    if oom:
        told.append("The engine tells of a process killed for memory.")
    elif code in {137, 143}:
        told.append(
            f"The container was ended by signal {code - 128} from outside, not for memory:"
            " its engine was stopped, or somebody stopped it."
        )
    elif code in {125, 126, 127}:  # the orchestrator has no such codes
        told.append("The image's entry point could not be run.")
    if engine_was_away:
        told.append("The engine was away or restarted during the run.")
    return Exit(
        code=code if isinstance(code, int) else None,
        out_of_memory=oom,
        started_at=started_at,
        finished_at=engine_time(state.get("FinishedAt")),
        detail=" ".join(told),
    )


def sample_of(stats: Mapping[str, Any]) -> Sample | None:
    """A sample from one-shot stats; None when the container does not run (its times are then the year 1)."""
    at = engine_time(stats.get("read"))
    if at is None:
        return None
    cpu = ((stats.get("cpu_stats") or {}).get("cpu_usage") or {}).get("total_usage")
    memory = _memory(stats.get("memory_stats") or {})
    if not cpu and memory is None:
        return None
    networks = stats.get("networks")
    blocks = (stats.get("blkio_stats") or {}).get("io_service_bytes_recursive")
    return Sample(
        at=at,
        cpu_seconds=cpu / 1e9 if cpu else None,
        memory_bytes=memory,
        network_bytes=_sum(n.get(way) for n in networks.values() for way in ("rx_bytes", "tx_bytes"))
        if networks
        else None,
        block_bytes=_sum(b.get("value") for b in blocks if str(b.get("op")).lower() in {"read", "write"})
        if blocks
        else None,
    )


def _memory(stats: Mapping[str, Any]) -> int | None:
    """Without the page cache, as `docker stats` counts it, on cgroup v1 (total_...) and v2."""
    usage = stats.get("usage")
    if not isinstance(usage, int):
        return None
    details = stats.get("stats") or {}
    cache = details.get("total_inactive_file", details.get("inactive_file", 0))
    return usage - cache if 0 <= cache < usage else usage


def _sum(values: Any) -> int:
    return sum(value for value in values if isinstance(value, int))


def log_tail(data: bytes) -> str:
    """The end of a log's text: the engine's frames (8 bytes of head, then content) taken apart."""
    text = bytearray()
    at = 0
    while at + 8 <= len(data):
        size = int.from_bytes(data[at + 4 : at + 8], "big")
        text += data[at + 8 : at + 8 + size]
        at += 8 + size
    return text[-OUTPUT_BYTES:].decode("utf-8", "replace")
