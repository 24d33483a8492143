"""Settings: from the environment and `.env`, every wrong value named at once, secrets hidden."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from pydantic import ValidationError

from aioanalysis import settings
from aioanalysis.domain.method import Limits
from aioanalysis.errors import Misconfigured
from aioanalysis.settings import PREFIX, Settings, load, unknown_variables

SECRETS = {
    "redis_url": "rediss://user:hidden-1@host/0",
    "job_key_secret": Fernet.generate_key().decode(),
    "azure_connection_string": "AccountName=x;AccountKey=hidden-2",
    "system_token": "hidden-3",
    "key": "hidden-4",
}


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable and no `.env` of whoever runs the tests."""
    import os

    for name in os.environ:
        if name.upper().startswith(settings.PREFIX):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def test_everything_has_a_default_or_may_be_missing():
    found = load()
    assert (found.port, found.queue_limit, found.time_limit, found.job_expiry) == (8080, 10, 21_600, 604_800)
    assert (found.pass_interval, found.watch_interval, found.sample_interval) == (30, 2, 10)
    assert (found.max_recoveries, found.attached_max_bytes) == (3, 64 * 1024 * 1024)
    assert (found.redis_url, found.storage_directory, found.records_url, found.keys_file) == (None,) * 4


def test_every_setting_is_described():
    for name, field in Settings.model_fields.items():
        assert field.description, name


def test_a_variable_wins_over_dotenv_and_an_argument_over_both(monkeypatch: pytest.MonkeyPatch):
    Path(".env").write_text("AIOANALYSIS_PORT=1\nAIOANALYSIS_HOST=a\nAIOANALYSIS_QUEUE_LIMIT=3\nOTHER=x\n")
    monkeypatch.setenv("AIOANALYSIS_PORT", "2")
    monkeypatch.setenv("AIOANALYSIS_HOST", "b")
    found = load(host="c")
    assert (found.queue_limit, found.port, found.host) == (3, 2, "c")


def test_an_empty_variable_is_one_that_is_not_set(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AIOANALYSIS_REDIS_URL", "")
    monkeypatch.setenv("AIOANALYSIS_PORT", "")
    assert (load().redis_url, load().port) == (None, 8080)


def test_a_dotenv_that_is_no_text_is_named():
    Path(".env").write_bytes(b"AIOANALYSIS_HOST=\xff\n")
    with pytest.raises(Misconfigured, match=r"the file \.env is not UTF-8"):
        load()


def test_all_wrong_values_are_named_in_one_line(monkeypatch: pytest.MonkeyPatch):
    for name, value in {
        "PORT": "70000",
        "QUEUE_LIMIT": "many",
        "LEASE_SECONDS": "5",
        "RUNTIME": "podman",
        "WORKER_ID": "a b",
        "QUEUE_CONTAINER": "Queue_1",
        "JOB_KEY_SECRET": "hidden-5",
        "TRUSTED_PROXIES": "10.0.0.0/8,proxy",
        "PASS_INTERVAL": "nan",
        "TIME_LIMIT": "inf",
    }.items():
        monkeypatch.setenv(f"AIOANALYSIS_{name}", value)
    with pytest.raises(Misconfigured) as wrong:
        load()
    text = str(wrong.value)
    assert "\n" not in text
    for name in (
        *("PORT", "QUEUE_LIMIT", "LEASE_SECONDS", "RUNTIME", "WORKER_ID", "QUEUE_CONTAINER"),
        *("JOB_KEY_SECRET", "PASS_INTERVAL", "TIME_LIMIT", "TRUSTED_PROXIES"),
    ):
        assert f"AIOANALYSIS_{name}: " in text
    assert len(text.split("; AIOANALYSIS_")) == 10
    assert "hidden" not in "".join(traceback.format_exception(wrong.value))


def test_settings_that_do_not_agree_are_all_named():
    with pytest.raises(Misconfigured) as wrong:
        load(
            storage_directory=Path("x"),
            azure_account_url="https://hidden-6",
            records_url="http://store",
            records_directory=Path("y"),
            queue_container="same",
            results_container="same",
        )
    text = str(wrong.value)
    for name in ("STORAGE_DIRECTORY", "AZURE_ACCOUNT_URL", "RECORDS_URL", "RECORDS_DIRECTORY"):
        assert f"AIOANALYSIS_{name}" in text
    assert "the queue and results containers must differ" in text
    assert "hidden" not in text


@pytest.mark.parametrize("name", ["ab", "a" * 64, "-ab", "ab-", "a--b", "Abc", "a_b", "a.b", "é-ab", "abc\n"])
def test_a_container_name_that_storage_refuses_is_refused_here(name: str):
    with pytest.raises(Misconfigured, match="AIOANALYSIS_RESULTS_CONTAINER: "):
        load(results_container=name)


@pytest.mark.parametrize("name", ["abc", "a-1", "123", "a" * 63])
def test_other_container_names_pass(name: str):
    assert load(results_container=name).results_container == name


def test_several_sealing_keys_may_be_given_newest_first():
    keys = ", ".join(Fernet.generate_key().decode() for _ in range(2))
    secret = load(job_key_secret=keys).job_key_secret
    assert secret is not None
    assert secret.get_secret_value() == keys


def test_secrets_are_hidden_wherever_settings_are_shown():
    found = load(**SECRETS)
    for shown in (repr(found), str(found), str(found.model_dump()), found.model_dump_json()):
        for secret in SECRETS.values():
            assert secret not in shown
    assert found.system_token is not None
    assert found.system_token.get_secret_value() == "hidden-3"


def test_what_can_hold_a_secret_is_one():
    names = {name for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation)}
    assert names == set(SECRETS) | {"azure_account_url"}


def test_settings_do_not_change():
    found = load()
    with pytest.raises(ValidationError):
        found.port = 1  # type: ignore[misc]


def test_the_hosts_caps_are_limits():
    found = load(run_seconds=60, silence_seconds=5, run_memory_bytes=1, run_cpus=0.5, output_max_bytes=2)
    assert found.host_limits == Limits(
        run_seconds=60, silence_seconds=5, memory_bytes=1, cpus=0.5, output_bytes=2
    )


def test_variables_that_are_no_settings_are_told_with_what_may_be_meant(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(f"{PREFIX}WORKER_JOB", "2")
    monkeypatch.setenv(f"{PREFIX}XYZZY", "2")
    monkeypatch.setenv(f"{PREFIX}WORKER_JOBS", "2")
    told = unknown_variables()
    assert told[f"{PREFIX}WORKER_JOB"] == f"{PREFIX}WORKER_JOBS"
    assert f"{PREFIX}XYZZY" in told
    assert f"{PREFIX}WORKER_JOBS" not in told
