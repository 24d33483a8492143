"""What the engine tells, understood: times, exits, samples, logs; and what a run is given."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from aioanalysis.domain.method import Limits, Method
from aioanalysis.interfaces import Image, MethodDirectory, RunSpec
from aioanalysis.runtime.container import clearing_config, container_config, exit_of, log_tail, sample_of
from aioanalysis.runtime.engine import engine_time
from aioanalysis.runtime.images import image_tag

AT = "2026-11-30T10:06:18.801675123Z"


def directory(title: str = "m", path: Path = Path("/nowhere/m"), **more: Any) -> MethodDirectory:
    method = Method(title=title, label="m", description="m", version="1", **more)
    return MethodDirectory(method=method, path=path, digest="0123456789abcdef" * 4)


def config(limits: Limits = Limits(), **more: Any) -> dict[str, Any]:  # noqa: B008
    spec = RunSpec(
        name="r",
        labels={"a": "b", "aioanalysis": "x"},
        job_dir=Path("/jobs/one: two"),
        method=directory(**more),
        limits=limits,
        alive_seconds=12.5,
    )
    return container_config(Image(id="sha256:1", digest="d"), spec, user=(1000, 100), host_cpus=2)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        (AT, datetime(2026, 11, 30, 10, 6, 18, 801675, UTC)),
        ("2026-11-30T10:06:18Z", datetime(2026, 11, 30, 10, 6, 18, 0, UTC)),
        ("2026-11-30T10:06:18.5Z", datetime(2026, 11, 30, 10, 6, 18, 500000, UTC)),
        ("0001-01-01T00:00:00Z", None),
        ("", None),
        ("nonsense", None),
        (None, None),
    ],
)
def test_the_engines_times(text: object, time: datetime | None) -> None:
    assert engine_time(text) == time


@pytest.mark.parametrize("title", ["distance_summary", "A__b---C_", "x-", "N0"])
def test_a_tag_is_one_that_the_engine_takes_and_names_the_digest(title: str) -> None:
    name, _, tag = image_tag(directory(title)).partition(":")
    assert tag == "0123456789abcdef" * 2
    part = name.removeprefix("aioanalysis/")
    assert part == part.lower()
    assert part.strip("-") == part
    assert part.replace("-", "").isalnum()


def state(**facts: Any) -> dict[str, Any]:
    return {"State": {"Status": "exited", "ExitCode": 0, "StartedAt": AT, "FinishedAt": AT, **facts}}


@pytest.mark.parametrize("status", ["running", "paused", "restarting", "removing", None])
def test_a_container_that_has_not_ended_has_no_exit(status: str | None) -> None:
    assert exit_of(state(Status=status)) is None
    assert exit_of({}) is None


def test_an_exit_has_code_times_and_no_words_when_all_is_well() -> None:
    ended = exit_of(state())
    assert ended is not None
    assert (ended.code, ended.out_of_memory, ended.detail) == (0, False, "")
    assert ended.started_at == ended.finished_at == datetime(2026, 11, 30, 10, 6, 18, 801675, UTC)


@pytest.mark.parametrize(
    ("facts", "away", "words"),
    [
        ({"ExitCode": 3, "OOMKilled": True}, False, "killed for memory"),
        ({"ExitCode": 137, "OOMKilled": True}, False, "killed for memory"),
        ({"ExitCode": 137}, False, "not for memory"),
        ({"ExitCode": 127}, False, "entry point"),
        ({"ExitCode": 255, "Error": "the shim went away"}, True, "the shim went away The engine was away"),
        ({"Status": "created", "StartedAt": "0001-01-01T00:00:00Z"}, False, "never started"),
        ({"Status": "created", "Error": "no space left on device"}, False, "no space left on device"),
    ],
)
def test_an_exit_tells_what_the_engine_told(facts: dict[str, Any], away: bool, words: str) -> None:
    ended = exit_of(state(**facts), engine_was_away=away)
    assert ended is not None
    assert words in ended.detail
    assert ended.out_of_memory == bool(facts.get("OOMKilled"))
    assert (ended.code is None) == (facts.get("Status") == "created")


def stats(**more: Any) -> dict[str, Any]:
    return {
        "read": AT,
        "cpu_stats": {"cpu_usage": {"total_usage": 1_500_000_000}},
        "memory_stats": {"usage": 1000, "stats": {"inactive_file": 300}},
        **more,
    }


def test_a_sample_of_cgroup_v2_leaves_out_the_page_cache() -> None:
    sample = sample_of(stats())
    assert sample is not None
    assert (sample.cpu_seconds, sample.memory_bytes) == (1.5, 700)
    assert (sample.network_bytes, sample.block_bytes) == (None, None)


def test_a_sample_of_cgroup_v1_counts_the_whole_tree() -> None:
    memory = {"usage": 1000, "max_usage": 5000, "stats": {"inactive_file": 1, "total_inactive_file": 400}}
    sample = sample_of(stats(memory_stats=memory))
    assert sample is not None
    assert sample.memory_bytes == 600


def test_a_sample_adds_up_network_and_blocks() -> None:
    sample = sample_of(
        stats(
            networks={"eth0": {"rx_bytes": 1, "tx_bytes": 2}, "eth1": {"rx_bytes": 4}},
            blkio_stats={
                "io_service_bytes_recursive": [
                    {"op": "Read", "value": 10},
                    {"op": "Write", "value": 20},
                    {"op": "Total", "value": 30},
                    {"op": "read", "value": 40},
                ]
            },
        )
    )
    assert sample is not None
    assert (sample.network_bytes, sample.block_bytes) == (7, 70)


@pytest.mark.parametrize(
    "empty",
    [
        {},
        {"read": "0001-01-01T00:00:00Z", "memory_stats": {}, "cpu_stats": {"cpu_usage": {"total_usage": 0}}},
        {"read": AT, "memory_stats": {}, "cpu_stats": {"cpu_usage": {"total_usage": 0}}},
        {"read": AT, "memory_stats": None, "cpu_stats": None, "networks": None, "blkio_stats": None},
    ],
)
def test_there_is_no_sample_of_what_does_not_run(empty: dict[str, Any]) -> None:
    assert sample_of(empty) is None


def test_a_page_cache_larger_than_the_usage_is_not_believed() -> None:
    sample = sample_of(stats(memory_stats={"usage": 100, "stats": {"inactive_file": 200}}))
    assert sample is not None
    assert sample.memory_bytes == 100


def test_a_log_is_put_together_from_its_frames_and_cut_at_the_front() -> None:
    def frame(text: bytes, stream: int = 1) -> bytes:
        return bytes([stream, 0, 0, 0]) + len(text).to_bytes(4, "big") + text

    assert log_tail(frame(b"one\n") + frame(b"", 2) + frame(b"two \xff\n", 2)) == "one\ntwo \ufffd\n"
    assert log_tail(b"") == ""
    assert log_tail(frame(b"cut")[:-1]) == "cu"
    long = log_tail(frame(b"a" * 70_000) + frame(b"end"))
    assert len(long) == 65536
    assert long.endswith("aend")


def test_a_run_is_given_its_job_directory_and_nothing_else() -> None:
    given = config()
    host = given["HostConfig"]
    assert given["User"] == "1000:100"
    assert given["Labels"] == {"a": "b", "aioanalysis": "run"}
    assert host["Mounts"] == [{"Type": "bind", "Source": "/jobs/one: two", "Target": "/job"}]
    assert host["NetworkMode"] == "none"
    assert host["CapDrop"] == ["ALL"]
    assert host["ReadonlyRootfs"]
    assert {"JOB_DIR=/job", "METHOD_DIR=/method", "ALIVE_TIMEOUT_SECONDS=12.5", "HOME=/tmp"} <= set(
        given["Env"]
    )
    assert not any(text.startswith("PYTHONPATH") for text in given["Env"])
    assert "Memory" not in host
    assert "NanoCpus" not in host


def test_user_ids_are_the_hosts_on_an_engine_that_maps_them_too() -> None:
    """Otherwise neither a run nor the clearing after it could use the job directory."""
    for given in (config(), clearing_config("image", "/jobs/one")):
        assert given["HostConfig"]["UsernsMode"] == "host"


def test_limits_become_the_containers() -> None:
    host = config(Limits(memory_bytes=7, cpus=1.5, output_bytes=9), network=True)["HostConfig"]
    assert (host["Memory"], host["MemorySwap"], host["NanoCpus"]) == (7, 7, 1_500_000_000)
    assert {"Name": "fsize", "Soft": 9, "Hard": 9} in host["Ulimits"]
    assert host["NetworkMode"] == "bridge"
    assert config(Limits(cpus=64))["HostConfig"]["NanoCpus"] == 2_000_000_000


def test_the_shared_folder_is_on_the_path_where_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "_shared").mkdir()
    assert "PYTHONPATH=/method/_shared" in config(path=tmp_path / "m")["Env"]
