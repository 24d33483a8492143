"""The doctor over real parts: a sound set-up, and what it says of each thing that can be wrong with one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis as redis_library
from azure.storage.blob import BlobServiceClient
from cryptography.fernet import Fernet
from typer.testing import CliRunner

from aioanalysis.cli import app
from aioanalysis.cli.diagnosis import Process, diagnose
from aioanalysis.cli.findings import Finding, Status, skew
from aioanalysis.cli.sharedparts import _workers
from aioanalysis.domain.exchange import Container, worker_name
from aioanalysis.identity import keyfile
from aioanalysis.jobstore.parts import open_job_store
from aioanalysis.settings import PREFIX, Settings
from aioanalysis.storage.directory import open_storage
from aioanalysis.storage.setup import create_containers
from tests.support.jobs import make_job
from tests.support.servers import Azurite, RedisServer, free_port

METHODS = Path(__file__).parents[1] / "support" / "methods"


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings from outside."""
    for name in [name for name in os.environ if name.startswith(PREFIX)]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def sound(tmp_path: Path, redis_url: str, unique: str) -> dict[str, Any]:
    """Settings of a set-up with nothing wrong, on a storage directory and child processes."""
    _, entry = keyfile.new_key("ada")
    keyfile.add(tmp_path / "keys", entry)
    (tmp_path / "recordsets").mkdir()
    return {
        "data_dir": tmp_path / "data",
        "redis_url": redis_url,
        "redis_prefix": f"{unique}:",
        "job_key_secret": Fernet.generate_key().decode(),
        "storage_directory": tmp_path / "storage",
        "records_directory": tmp_path / "recordsets",
        "keys_file": tmp_path / "keys",
        "system_token": "t" * 43,
        "methods_dir": METHODS,
        "runtime": "process",
        "disk_reserve_bytes": 1,
    }


async def found(settings: dict[str, Any], process: Process | None = None) -> list[Finding]:
    return [finding async for finding in diagnose(Settings(**settings), process)]


def of(findings: list[Finding], part: str, status: Status) -> list[Finding]:
    return [finding for finding in findings if finding.part == part and finding.status is status]


async def test_a_sound_set_up_has_nothing_wrong_and_is_left_as_it_was(
    sound: dict[str, Any], tmp_path: Path
) -> None:
    findings = await found(sound)
    assert [finding for finding in findings if finding.status in {Status.WRONG, Status.ABSENT}] == []
    assert {finding.part for finding in findings if finding.status is Status.OK} >= {
        *("settings", "job store", "storage", "record store", "keys", "methods", "disk"),
    }
    assert [finding.part for finding in findings if finding.status is Status.WARNING] == [
        *("scheduler", "workers", "runtime"),
    ]
    assert [path for path in (tmp_path / "storage").rglob("doctor/*") if path.is_file()] == []
    assert not (tmp_path / "data" / "worker").exists()


async def test_with_nothing_set_nothing_is_wrong_but_for_a_process_its_parts_are(tmp_path: Path) -> None:
    nothing = {"methods_dir": METHODS, "runtime": "process", "data_dir": tmp_path / "data"}
    assert [finding for finding in await found(nothing) if finding.status is Status.WRONG] == []
    serve = {f.part for f in await found(nothing, Process.SERVE) if f.status is Status.WRONG}
    worker = {f.part for f in await found(nothing, Process.WORKER) if f.status is Status.WRONG}
    assert serve == {"job store", "storage", "keys"}
    assert worker == {"storage"}


async def test_each_part_that_cannot_be_reached_is_named_with_its_setting(
    sound: dict[str, Any], tmp_path: Path
) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    broken = {
        **sound,
        "redis_url": f"redis://{nowhere}/0",
        "storage_directory": None,
        "azure_connection_string": "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=YQ==;"
        f"BlobEndpoint=http://{nowhere}/a;",
        "records_directory": tmp_path / "none",
        "identity_url": f"http://{nowhere}/",
        "methods_dir": tmp_path / "none",
        "runtime": "docker",
        "docker_host": f"unix://{tmp_path}/nothing.sock",
        "server": f"http://{nowhere}",
        "key": "k",
    }
    wrong = {f.part: f for f in await found(broken) if f.status is Status.WRONG}
    assert set(wrong) == {
        *("job store", "storage", "record store", "keys", "methods", "runtime", "service"),
    }
    for part, setting in (
        *(("job store", "REDIS_URL"), ("keys", "IDENTITY_URL")),
        *(("runtime", "DOCKER_HOST"), ("service", "SERVER")),
    ):
        assert PREFIX + setting in str(wrong[part].mend)
    assert f"{PREFIX}RECORDS_DIRECTORY" in wrong["record store"].text
    assert f"{PREFIX}METHODS_DIR" in wrong["methods"].text
    assert wrong["storage"].mend == "can this host reach the account, and is the address right?"


async def test_a_job_store_that_may_lose_jobs_is_told_with_what_to_set(
    sound: dict[str, Any], redis: RedisServer
) -> None:
    client = redis_library.Redis.from_url(redis.url)
    client.config_set("maxmemory-policy", "allkeys-lru")
    client.config_set("appendonly", "no")
    try:
        warnings = of(await found(sound), "job store", Status.WARNING)
    finally:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("appendonly", "yes")
        client.close()
    assert {str(finding.mend) for finding in warnings} == {
        "set noeviction in the server's configuration",
        "set appendonly yes in the server's configuration",
    }


async def test_a_secret_that_does_not_open_waiting_jobs_is_wrong(sound: dict[str, Any]) -> None:
    former = Fernet.generate_key().decode()
    url, prefix = sound["redis_url"], sound["redis_prefix"]
    async with open_job_store(url, secret=former, prefix=prefix) as parts:
        job = await parts.store.create(make_job(), "the submitter's own key")
    [wrong] = of(await found(sound), "job store", Status.WRONG)
    assert job.id in wrong.text
    assert f"{PREFIX}JOB_KEY_SECRET" in str(wrong.mend)
    both = {**sound, "job_key_secret": f"{sound['job_key_secret']},{former}"}
    assert of(await found(both), "job store", Status.WRONG) == []


async def test_missing_containers_are_told_and_made_by_the_command_it_names(
    azurite: Azurite, unique: str, sound: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {
        **sound,
        "storage_directory": None,
        "azure_connection_string": azurite.connection_string,
        "queue_container": f"{unique}-queue",
        "results_container": f"{unique}-results",
    }
    [wrong] = of(await found(settings), "storage", Status.WRONG)
    assert wrong.mend == "`aioanalysis storage create` makes the containers"
    made = await create_containers(Settings(**settings))
    assert made == [f"{unique}-queue", f"{unique}-results"]
    assert await create_containers(Settings(**settings)) == []
    assert of(await found(settings), "storage", Status.WRONG) == []
    with BlobServiceClient.from_connection_string(azurite.connection_string) as service:
        for name in made:
            assert list(service.get_container_client(name).list_blob_names()) == []


async def test_workers_are_told_by_their_signs_of_life(sound: dict[str, Any], tmp_path: Path) -> None:
    now = datetime.now(UTC)
    async with open_storage(Settings(**sound)) as storage:
        for worker, state, at, version in (
            ("w1", "running", now, "0.0.9"),
            ("w2", "low_disk", now + timedelta(minutes=2), None),
            ("w3", "stopped", now, None),
        ):
            body = {"worker": worker, "state": state, "at": at.isoformat(), "service_version": version}
            await storage.write(Container.RESULTS, worker_name(worker), json.dumps(body).encode())
        findings = [finding async for finding in _workers(storage)]
    texts = [finding.text for finding in findings]
    assert "2 seen in the last 5 minutes" in texts
    assert any("w1 is of version 0.0.9" in text for text in texts)
    assert any("w2 claims nothing" in text for text in texts)
    assert any("worker w2's clock is 1" in text and "ahead of ours" in text for text in texts)
    assert not any("w3" in text for text in texts)


def test_a_clock_is_told_only_when_it_is_off() -> None:
    assert list(skew("the storage's", timedelta(seconds=4))) == []
    [behind] = skew("the storage's", timedelta(seconds=-90))
    assert behind.text == "the storage's clock is 90 s behind ours"
    assert behind.status is Status.WARNING


async def test_keys_that_are_none_or_weak_are_warned_of(sound: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    weak = {**sound, "keys_file": tmp_path / "empty", "system_token": "secret"}
    warnings = of(await found(weak), "keys", Status.WARNING)
    assert [finding.text for finding in warnings] == [
        f"{tmp_path / 'empty'} holds no keys",
        "the system token is short and may be guessed",
    ]


async def test_a_disk_below_the_reserve_is_wrong(sound: dict[str, Any]) -> None:
    full = {**sound, "disk_reserve_bytes": 1 << 60}
    assert len(of(await found(full), "disk", Status.WRONG)) == 2


async def test_a_storage_folder_that_cannot_be_made_is_told_with_its_setting(
    sound: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    [wrong] = of(await found({**sound, "storage_directory": tmp_path / "file"}), "storage", Status.WRONG)
    assert wrong.text.startswith(f"{PREFIX}STORAGE_DIRECTORY: {tmp_path}/file/queue cannot be made")


async def test_a_broken_method_is_named(sound: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "methods" / "broken").mkdir(parents=True)
    [wrong] = of(await found({**sound, "methods_dir": tmp_path / "methods"}), "methods", Status.WRONG)
    assert "'broken'" in wrong.text


async def test_a_check_that_fails_by_itself_stops_no_other(
    sound: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> int:
        raise RuntimeError("no such call here")

    monkeypatch.setattr("shutil.disk_usage", crash)
    findings = await found({**sound, "server": "http://127.0.0.1:9", "key": "k"})
    assert "RuntimeError" in of(findings, "disk", Status.WRONG)[0].text
    assert of(findings, "service", Status.WRONG)


# --- the command ---


@pytest.fixture
def command(sound: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[CliRunner]:
    for name, value in sound.items():
        monkeypatch.setenv(PREFIX + name.upper(), str(value))
    return CliRunner()


def test_the_command_exits_0_when_all_is_well_and_prints_json(command: CliRunner) -> None:
    done = command.invoke(app, ["doctor", "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["well"] is True
    assert {"part", "status", "text", "mend"} == set(told["findings"][0])


def test_the_command_exits_1_and_says_how_to_mend(
    command: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{PREFIX}KEYS_FILE", "/none/keys")
    monkeypatch.setenv(f"{PREFIX}REDIS_ULR", "redis://")
    done = command.invoke(app, ["doctor", "serve"])
    assert done.exit_code == 1
    assert "not well: 1 wrong" in done.stdout
    assert f"is {PREFIX}REDIS_URL meant?" in done.stdout
    assert "`aioanalysis keys add`" in done.stdout


def test_settings_that_cannot_be_read_are_findings_too(
    command: CliRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{PREFIX}PORT", "99999")
    monkeypatch.setenv(f"{PREFIX}JOB_KEY_SECRET", "x")
    done = command.invoke(app, ["doctor", "--json"])
    assert done.exit_code == 1
    texts = [finding["text"] for finding in json.loads(done.stdout)["findings"]]
    assert len(texts) == 2
    assert all(text.startswith(PREFIX) for text in texts)


def test_no_secret_is_told(command: CliRunner, sound: dict[str, Any]) -> None:
    done = command.invoke(app, ["doctor"])
    assert sound["job_key_secret"] not in done.output
    assert sound["system_token"] not in done.output
