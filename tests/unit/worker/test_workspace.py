"""A worker's folder belongs to one process at a time, and can always be emptied."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aioanalysis.errors import Misconfigured
from aioanalysis.settings import Settings, load
from aioanalysis.worker.hostlog import HostLog
from aioanalysis.worker.workspace import Instance, remove_tree


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return load(data_dir=tmp_path / "data", worker_id="w")


def test_a_second_worker_of_the_same_name_gets_a_number_and_its_own_key(settings: Settings) -> None:
    with Instance.open(settings) as first, Instance.open(settings) as second:
        assert (first.name, second.name) == ("w", "w-2")
        assert first.key != second.key
        assert list(first.abandoned()) == []


def test_a_restart_finds_its_folder_its_key_and_what_it_left(settings: Settings) -> None:
    with Instance.open(settings) as before:
        key = before.key
        run = before.new_run("noop.0123abcd", 1)
        run.write(run.claim, {"stem": "noop.0123abcd"})
    with Instance.open(settings) as after:
        assert after.key == key
        [left] = after.left_runs()
        assert left.read(left.claim) == {"stem": "noop.0123abcd"}
        assert left.read(left.outcome) is None


def test_an_instance_whose_process_has_gone_is_seen_by_all_on_this_host(settings: Settings) -> None:
    with Instance.open(settings) as first, Instance.open(settings):
        first.works_on("here")
    with Instance.open(settings.model_copy(update={"worker_id": "w2"})) as other:
        assert not any(other.is_of_our_name(instance) for instance in other.abandoned())
        other.works_on("here")
        shared = {instance.name: other.shares_storage(instance) for instance in other.abandoned()}
        assert shared == {"w": True, "w-2": False}
        with Instance.open(settings) as first:
            assert [instance.name for instance in first.abandoned()] == ["w-2"]
            assert all(first.is_of_our_name(instance) for instance in first.abandoned())


def test_two_data_folders_on_one_host_are_two_workers(tmp_path: Path) -> None:
    names = set()
    for folder in ("a", "b", "a"):
        with Instance.open(load(data_dir=tmp_path / folder)) as instance:
            names.add(instance.name)
    assert len(names) == 2


def test_a_folder_that_cannot_be_made_is_a_set_up_fault(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(Misconfigured, match="DATA_DIR"), Instance.open(load(data_dir=tmp_path / "data")):
        pass


def test_modes_taken_away_do_not_keep_a_folder_from_being_removed(tmp_path: Path) -> None:
    inner = tmp_path / "run" / "job" / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "file").touch()
    (tmp_path / "run" / "link").symlink_to(tmp_path)
    for folder in (inner, inner.parent, inner.parent.parent):
        folder.chmod(0)
    assert remove_tree(tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert tmp_path.exists()
    assert remove_tree(tmp_path / "run")


@pytest.mark.skipif(os.getuid() == 0, reason="root may remove anything")
def test_what_cannot_be_removed_is_told(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    tmp_path.chmod(0o500)
    assert not remove_tree(tmp_path / "run")
    tmp_path.chmod(0o700)


def test_a_run_leaves_a_log_and_a_summary_and_only_so_many_are_kept(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(3):
        log = HostLog(begin + timedelta(seconds=number))
        log.enter("download")
        log.enter("run")
        assert set(log.phases()) == {"download", "run"}
        log.write(logs, f"noop.0123abcd.{number}", {"end": "complete"}, b"what it printed\n", 2)
    assert sorted(path.name for path in logs.iterdir()) == [
        "20260101T000001_noop.0123abcd.1.log",
        "20260101T000002_noop.0123abcd.2.log",
        "last_run_summary.json",
    ]
    assert "what it printed" in (logs / "20260101T000002_noop.0123abcd.2.log").read_text()
