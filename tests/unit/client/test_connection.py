"""Which service a command speaks to: options before the environment before what is stored."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from aioanalysis.client.connection import find_connection
from aioanalysis.client.profiles import Profile, Profiles
from aioanalysis.errors import Misconfigured


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user of nothing yet, in an empty folder."""
    for name in ("SERVER", "KEY", "PROFILE", "DATA_DIR"):
        monkeypatch.delenv(f"AIOANALYSIS_{name}", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def lab() -> Profiles:
    profiles = Profiles().with_profile("lab", Profile(server="https://lab.example", key="k-lab"))
    profiles.save()
    return profiles


@pytest.fixture
def dev(folder: Path) -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        (folder / ".aioanalysis").mkdir()
        address = {"server": f"http://127.0.0.1:{server.getsockname()[1]}", "key": "k-dev"}
        (folder / ".aioanalysis" / "dev.json").write_text(json.dumps(address))
        yield server


def found(**options: str) -> tuple[str, str | None]:
    connection = find_connection(**options)
    return connection.server, connection.key


def test_nothing_known_says_what_to_do() -> None:
    with pytest.raises(Misconfigured, match="aioanalysis login"):
        find_connection()


def test_options_win_over_the_environment_over_profiles(
    lab: Profiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found() == ("https://lab.example", "k-lab")
    monkeypatch.setenv("AIOANALYSIS_SERVER", "http://env.example/")
    monkeypatch.setenv("AIOANALYSIS_KEY", "k-env")
    assert found() == ("http://env.example", "k-env")
    assert found(profile="lab") == ("https://lab.example", "k-lab")
    assert found(server="http://given.example") == ("http://given.example", "k-env")
    assert found(server="http://given.example", key="k", profile="lab") == ("http://given.example", "k")


def test_a_stored_key_goes_to_no_other_server(lab: Profiles, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(server="https://lab.example/") == ("https://lab.example", "k-lab")
    assert found(server="https://lab.example.evil") == ("https://lab.example.evil", None)
    monkeypatch.setenv("AIOANALYSIS_SERVER", "http://env.example")
    assert found() == ("http://env.example", None)


def test_the_dev_of_the_folder_counts_while_it_runs(lab: Profiles, dev: socket.socket) -> None:
    assert found()[1] == "k-dev"
    assert found(profile="lab")[1] == "k-lab"
    dev.close()
    assert found()[1] == "k-lab"


def test_a_profile_can_be_named_by_the_environment(lab: Profiles, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.with_profile("other", Profile(server="http://other.example", key="k-other")).save()
    assert found() == ("http://other.example", "k-other")
    monkeypatch.setenv("AIOANALYSIS_PROFILE", "lab")
    assert found() == ("https://lab.example", "k-lab")
    monkeypatch.setenv("AIOANALYSIS_PROFILE", "none")
    with pytest.raises(Misconfigured, match="there are: lab, other"):
        find_connection()


@pytest.mark.parametrize("address", ["lab.example", "ftp://lab.example", "http://", "http://a b"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(Misconfigured, match="no address of a service"):
        find_connection(server=address)


def test_the_file_of_profiles_is_its_owners_alone(lab: Profiles) -> None:
    path = Profiles.path()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o077 == 0
    assert Profiles.load() == lab
    assert "k-lab" not in repr(lab)
    assert "k-lab" not in repr(find_connection())
    path.chmod(0o644)
    with pytest.raises(Misconfigured, match="chmod 600"):
        Profiles.load()


@pytest.mark.parametrize("text", ["", "[]", '{"current": null}', '{"current": "a", "profiles": {"a": 1}}'])
def test_a_damaged_file_of_profiles_is_named(lab: Profiles, text: str) -> None:
    Profiles.path().write_text(text)
    with pytest.raises(Misconfigured, match=r"profiles\.json is damaged"):
        Profiles.load()


def test_a_profile_that_is_removed_is_not_current_any_more(lab: Profiles) -> None:
    lab.with_profile("other", Profile(server="http://other.example", key="k")).without("other").save()
    assert Profiles.load().current is None
    assert list(Profiles.load().profiles) == ["lab"]
