"""The Identity Protocol over a key file and the system token, and the file's own rules."""

from __future__ import annotations

import asyncio
import hashlib
import json
import multiprocessing
import os
import stat
import threading
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import structlog

from aioanalysis.errors import Invalid, Misconfigured, NotFound
from aioanalysis.identity import keyfile, open_identity
from aioanalysis.identity.keyfile import KeyEntry, KeyFileIdentity
from aioanalysis.interfaces import Identity, User
from aioanalysis.settings import Settings
from tests.support.waiting import eventually

TOKEN = "the-system-token"
HASH = "a" * 64


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.jsonl"


def opened(path: Path | None, token: str | None = TOKEN) -> AbstractAsyncContextManager[Identity]:
    return open_identity(Settings(keys_file=path, system_token=token))


async def fresh(path: Path) -> KeyFileIdentity:
    """One that looks at the file at every call."""
    identity = KeyFileIdentity(path, TOKEN, recheck_seconds=0)
    await identity.load()
    return identity


def given(path: Path, user: str, **more: Any) -> str:
    key, entry = keyfile.new_key(user, **more)
    keyfile.add(path, entry)
    return key


def write(path: Path, text: str) -> None:
    path.write_text(text)


def line(**fields: Any) -> str:
    return json.dumps({"user": "ana", "sha256": HASH, **fields})


# --- who is behind a key ---


async def test_a_key_is_its_users_and_no_other(path: Path):
    ana, ben = given(path, "ana", role="administrator"), given(path, "ben")
    async with opened(path) as identity:
        assert await identity.identify(ana) == User(name="ana", role="administrator")
        assert await identity.identify(ben) == User(name="ben", role="user")
        for nobody in (
            "",
            "x",
            ana[:-1],
            ana + "x",
            ana.upper(),
            f" {ana}",
            hashlib.sha256(ana.encode()).hexdigest(),
        ):
            assert await identity.identify(nobody) is None


@pytest.mark.parametrize("key", ["é", "\0", "\ud800", "x" * 1_000_000])
async def test_any_text_can_be_asked_for(path: Path, key: str):
    given(path, "ana")
    async with opened(path) as identity:
        assert await identity.identify(key) is None


async def test_a_user_may_have_several_keys(path: Path):
    keys = [given(path, "ana", label=label) for label in ("laptop", "pipeline")]
    async with opened(path) as identity:
        assert [await identity.identify(key) for key in keys] == [User(name="ana")] * 2


async def test_the_system_token_is_the_platform_itself():
    async with opened(None) as identity:
        user = await identity.identify(TOKEN)
        assert user == User(name="system", role="system")
        assert user.sees_all
        assert await identity.identify(TOKEN + "x") is None


async def test_without_a_system_token_no_key_is_the_systems(path: Path):
    given(path, "ana")
    async with opened(path, None) as identity:
        assert await identity.identify("") is None
        assert await identity.identify("None") is None


async def test_only_administrators_and_the_system_see_all():
    assert [User(name="x", role=role).sees_all for role in ("user", "administrator", "system")] == [
        False,
        True,
        True,
    ]


async def test_neither_file_nor_token_is_a_wrong_set_up():
    with pytest.raises(Misconfigured, match="AIOANALYSIS_KEYS_FILE, AIOANALYSIS_IDENTITY_URL or"):
        async with opened(None, None):
            pass


# --- the file while running ---


async def test_a_key_added_or_removed_counts_without_a_restart(path: Path):
    given(path, "ana")
    identity = await fresh(path)
    ben = given(path, "ben")
    assert await identity.identify(ben) == User(name="ben")
    keyfile.remove(path, keyfile.entries(path)[1].fingerprint)
    assert await identity.identify(ben) is None


async def test_a_key_added_counts_within_about_a_second(path: Path):
    given(path, "ana")
    async with opened(path) as identity:
        assert await identity.identify("x") is None
        ben = given(path, "ben")
        assert await eventually(lambda: identity.identify(ben), within=5) == User(name="ben")


def harm(path: Path, how: str) -> None:
    if how == "edit":
        path.write_text(path.read_text() + "{broken\n")
    else:
        path.unlink()
    if how == "folder":
        path.mkdir()


@pytest.mark.parametrize("damage", ["edit", "delete", "folder"])
async def test_a_broken_edit_keeps_the_last_good_keys_and_says_so_once(path: Path, damage: str):
    ana = given(path, "ana")
    identity = await fresh(path)
    with structlog.testing.capture_logs() as logged:
        harm(path, damage)
        for _ in range(3):
            assert await identity.identify(ana) == User(name="ana")
    (entry,) = logged
    assert (entry["log_level"], entry["event"], entry["keys_kept"]) == ("error", "key_file_not_read", 1)
    assert entry["reason"].startswith(f"{path}")
    if damage == "edit":
        assert "line 2: not JSON at column 2" in entry["reason"]


async def test_a_mended_file_counts_again(path: Path):
    ana = given(path, "ana")
    identity = await fresh(path)
    harm(path, "edit")
    assert await identity.identify(ana) == User(name="ana")
    write(
        path, keyfile.KeyEntry(user="ana", role="administrator", sha256=keyfile.digest(ana).hex()).to_line()
    )
    with structlog.testing.capture_logs() as logged:
        assert await identity.identify(ana) == User(name="ana", role="administrator")
    assert [(entry["event"], entry["keys"]) for entry in logged] == [("key_file_read", 1)]


async def test_many_may_ask_while_the_file_changes(path: Path):
    ana = given(path, "ana")
    identity = await fresh(path)

    async def ask() -> bool:
        return all([await identity.identify(ana) == User(name="ana") for _ in range(50)])

    async def edit() -> bool:
        for n in range(20):
            await asyncio.to_thread(given, path, f"user{n}")
        return True

    assert all(await asyncio.gather(ask(), ask(), edit(), ask()))


# --- what the file may hold ---


def test_a_file_kept_by_hand_is_read(path: Path):
    path.write_bytes(
        b"\xef\xbb\xbf# the laboratory\r\n\r\n   # indented\n"
        + f'{{"sha256": "{HASH}", "user": "Jos\u00e9 P."}}\r\n'.encode()
        + line(sha256="b" * 64, role="administrator", created="2026-01-01", label="d # e").encode()
    )
    first, second = keyfile.entries(path)
    assert first == KeyEntry(user="José P.", sha256=HASH)
    assert (second.role, second.created, second.fingerprint) == ("administrator", "2026-01-01", "b" * 12)


def test_an_empty_file_has_no_keys(path: Path):
    for text in ("", "\n", "# nobody yet\n"):
        path.write_text(text)
        assert keyfile.entries(path) == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{", "not JSON at column 2"),
        ("[]", "must be a JSON object of strings"),
        ("[" * 100_000, "recursion"),
        (line(user=5), "must be a JSON object of strings"),
        (line(label=None), "must be a JSON object of strings"),
        (line(rol="administrator"), "unknown: rol; known: created, label, role, sha256, user"),
        (line(role="system"), "`role` must be user or administrator"),
        (line(role=""), "`role` must be user or administrator"),
        (line(user=""), "`user` must be 1 to 128 characters"),
        (line(user=" ana"), "`user` must be 1 to 128 characters"),
        (line(user="x" * 129), "`user` must be 1 to 128 characters"),
        (line(user="a\nb"), "must be printable text"),
        (line(label="\ud800"), "must be printable text"),
        (line(user="system"), "`user` must not be system"),
        (line(user="scheduler"), "`user` must not be scheduler"),
        (line(sha256="A" * 64), "`sha256` must be 64 lower-case hexadecimal digits"),
        (line(sha256="a" * 63), "`sha256` must be 64 lower-case hexadecimal digits"),
        ('{"user": "ana"}', "`sha256` must be 64 lower-case hexadecimal digits"),
        (line(sha256="c" * 64), "the same key as in line 2"),
    ],
)
async def test_a_bad_line_is_named_and_nothing_starts(path: Path, text: str, what: str):
    write(path, f"# one\n{line(sha256='c' * 64)}\n{text}\n")
    with pytest.raises(Misconfigured) as error:
        async with opened(path):
            pass
    assert str(error.value).startswith(f"{path}, line 3: ")
    assert what in str(error.value)


def test_bytes_that_are_no_text_are_named_by_their_line(path: Path):
    path.write_bytes(b"# one\n# \xff\n")
    with pytest.raises(Misconfigured, match=r"line 2: not UTF-8"):
        keyfile.entries(path)


async def test_a_file_that_is_not_there_says_what_makes_it(path: Path):
    with pytest.raises(Misconfigured, match="is not there; `aioanalysis keys add` makes it"):
        async with opened(path):
            pass


def test_a_file_that_cannot_be_read_says_why(path: Path):
    path.mkdir()
    with pytest.raises(Misconfigured, match="cannot be read: Is a directory"):
        keyfile.entries(path)


# --- keeping it by command ---


def test_a_new_key_is_long_random_and_nowhere_in_its_entry(path: Path):
    made = [keyfile.new_key("ana") for _ in range(100)]
    assert len({key for key, _ in made}) == 100
    key, entry = made[0]
    assert key.startswith("aioa_")
    assert len(key) == 48
    assert key.isascii()
    keyfile.add(path, entry)
    assert key not in path.read_text()
    assert entry.sha256 == hashlib.sha256(key.encode()).hexdigest()


@pytest.mark.parametrize("user", ["", "system", "a\nb", "x" * 129, "\ud800", " a"])
def test_a_key_for_an_impossible_user_is_refused(user: str):
    with pytest.raises(Invalid, match="no such key can be made"):
        keyfile.new_key(user)


async def test_a_key_that_a_user_has_elsewhere_opens_this_service_too(path: Path):
    """BOLD's is a UUID; the record store then gets that very key."""
    theirs = "3f0c9a52-5d0b-4b43-9c39-1f0f4ac1c7de"
    assert given(path, "ana", key=theirs) == theirs
    async with opened(path) as identity:
        assert await identity.identify(theirs) == User(name="ana", role="user")


@pytest.mark.parametrize("key", ["", "secret", "3f0c9a52 5d0b 4b43 9c39 1f0f4ac1c7de"])
def test_a_short_or_odd_key_from_elsewhere_is_refused(path: Path, key: str):
    with pytest.raises(Invalid, match="a key is 32 to 512"):
        given(path, "ana", key=key)


def test_entries_come_back_as_they_were_added(path: Path):
    added = [keyfile.new_key("ana", "administrator", 'it\'s "mine"')[1], keyfile.new_key("José")[1]]
    for entry in added:
        keyfile.add(path, entry)
    assert keyfile.entries(path) == added


def test_adding_and_removing_leave_the_rest_of_the_file_alone(path: Path):
    before = f"# the laboratory\n\n{line()}\n# the end\n"
    path.write_text(before)
    _, entry = keyfile.new_key("ben")
    keyfile.add(path, entry)
    assert path.read_text() == before + entry.to_line() + "\n"
    assert keyfile.remove(path, entry.fingerprint) == entry
    assert path.read_text() == before


def test_a_last_line_without_newline_is_not_run_into(path: Path):
    path.write_text(line())
    given(path, "ben")
    assert [entry.user for entry in keyfile.entries(path)] == ["ana", "ben"]


def test_a_key_is_not_added_twice(path: Path):
    _, entry = keyfile.new_key("ana")
    keyfile.add(path, entry)
    with pytest.raises(Invalid, match="has this key already"):
        keyfile.add(path, entry)


@pytest.mark.parametrize("fingerprint", ["ffff", "", "aaaa"])
def test_only_one_key_at_a_time_is_removed(path: Path, fingerprint: str):
    text = line() + "\n" + line(sha256="a" * 63 + "b") + "\n"
    path.write_text(text)
    with pytest.raises(NotFound, match="keys begin with"):
        keyfile.remove(path, fingerprint)
    assert path.read_text() == text


def test_a_bad_file_is_not_edited(path: Path):
    path.write_text("broken\n")
    with pytest.raises(Misconfigured, match="line 1"):
        given(path, "ana")
    with pytest.raises(Misconfigured, match="line 1"):
        keyfile.remove(path, "aa")
    assert path.read_text() == "broken\n"


def test_removing_where_there_is_nothing_says_so(tmp_path: Path):
    with pytest.raises(Misconfigured, match="is not there"):
        keyfile.remove(tmp_path / "keys", "aa")
    with pytest.raises(Misconfigured, match=r"the folder of .* cannot be opened"):
        keyfile.remove(tmp_path / "none" / "keys", "aa")


def test_the_file_is_its_owners_alone_and_replaced_whole(path: Path):
    given(path, "ana")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    before = path.stat().st_ino
    given(path, "ben")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_ino != before
    assert [other.name for other in path.parent.iterdir()] == [path.name]


def test_folders_are_made_and_a_link_stays_a_link(tmp_path: Path):
    real = tmp_path / "deep" / "er" / "keys"
    given(real, "ana")
    link = tmp_path / "keys"
    link.symlink_to(real)
    given(link, "ben")
    assert link.is_symlink()
    assert len(keyfile.entries(real)) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_an_edit_by_root_leaves_the_file_to_its_owner(path: Path):
    given(path, "ana")
    os.chown(path, 1000, 1000)
    given(path, "ben")
    assert (path.stat().st_uid, path.stat().st_gid) == (1000, 1000)


def test_a_write_that_fails_leaves_the_file_and_nothing_else(path: Path, monkeypatch: pytest.MonkeyPatch):
    given(path, "ana")
    before = path.read_text()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        given(path, "ben")
    assert path.read_text() == before
    assert [other.name for other in path.parent.iterdir()] == [path.name]


def _add_many(path: Path, user: str) -> None:
    for _ in range(10):
        given(path, user)


def test_keys_added_at_the_same_time_are_all_there(path: Path):
    context = multiprocessing.get_context("spawn")
    editors = [context.Process(target=_add_many, args=(path, f"user{n}")) for n in range(3)]
    for editor in editors:
        editor.start()
    for editor in editors:
        editor.join()
    assert len(keyfile.entries(path)) == 30


async def test_a_key_just_added_counts_at_once(path: Path) -> None:
    first = given(path, "ana")
    identity = KeyFileIdentity(path, recheck_seconds=3600)
    await identity.load()
    assert await identity.identify(first) == User(name="ana")
    second = given(path, "ben")
    assert await identity.identify(second) == User(name="ben")
    assert await identity.identify("nobody's") is None


async def test_a_key_just_added_counts_for_a_request_that_comes_while_the_file_is_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(path, "ana")
    read, reading, go_on = keyfile.entries, threading.Event(), threading.Event()

    def slowly(path: Path) -> list[KeyEntry]:
        reading.set()
        go_on.wait(10)
        return read(path)

    async with opened(path) as identity:
        key = given(path, "ben")
        monkeypatch.setattr(keyfile, "entries", slowly)
        first = asyncio.create_task(identity.identify(key))
        await eventually(reading.is_set)
        second = asyncio.create_task(identity.identify(key))
        await asyncio.wait([second], timeout=0.5)  # it must not have answered yet
        go_on.set()
        assert await asyncio.gather(first, second) == [User(name="ben")] * 2
