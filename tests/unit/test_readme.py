"""README.md against the code: what it says of settings, commands, calls, states and reasons is so."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup

from aioanalysis.api.app import ENDPOINTS
from aioanalysis.domain.outcomes import UNMENDABLE, Reason
from aioanalysis.domain.states import Action, State
from aioanalysis.settings import PREFIX, Settings
from tests.support import readme

ROOT = readme.README.parent
TEXT = readme.README.read_text()
SHELL = re.findall(r"^```sh\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("name", readme.GENERATED)
def test_the_tables_made_of_the_code_are_up_to_date(name: str) -> None:
    assert readme.part(TEXT, name) == readme.GENERATED[name](), "run scripts/readme"


def test_every_setting_that_the_text_names_exists() -> None:
    named = set(re.findall(rf"{PREFIX}([A-Z0-9_]+)", TEXT))
    assert named - {name.upper() for name in Settings.model_fields} == set()


@pytest.mark.parametrize(("heading", "names"), [("## States", State), ("### What fails, and how", Reason)])
def test_every_state_and_reason_is_explained_and_no_other(heading: str, names: Any) -> None:
    section = TEXT.split(f"{heading}\n")[1].split("\n#")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == [name.value for name in names]


def test_it_says_rightly_what_is_tried_again() -> None:
    again = dict(re.findall(r"^\| `(\w+)` \| .* \| (yes|no) \|$", TEXT, re.MULTILINE))
    assert {reason: again[reason] for reason in Reason} == {
        reason: "no" if reason in UNMENDABLE else "yes" for reason in Reason
    }


def test_every_action_of_a_user_is_explained() -> None:
    section = TEXT.split("## Control\n")[1].split("\n## ")[0]
    named = {word for row in re.findall(r"^\| (`.*?`) \|", section, re.MULTILINE) for word in row.split("`")}
    wanted = set(Action) - {Action.BLOCK_NOW, Action.REMOVE, Action.FORCE, Action.OVERRIDE}
    assert wanted <= named


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    section = TEXT.split("## Dependencies\n")[1].split("\n## ")[0]
    listed = re.findall(r"^\| `([a-z-]+)` \| \S", section, re.MULTILINE)
    assert listed == [re.split(r"[\[<>=]", line)[0] for line in project["dependencies"]]
    for extra in project["optional-dependencies"]:
        assert f"`{extra}`" in section


@pytest.mark.parametrize("block", SHELL, ids=[block.split("\n", 1)[0][:20] for block in SHELL])
def test_a_shell_block_is_shell_and_its_commands_exist(block: str) -> None:
    subprocess.run(["bash", "-n"], input=block, text=True, check=True)
    for line in _commands(block):
        if line[0] == "aioanalysis":
            _parse(line[1:])
        elif line[0].startswith("scripts/"):
            assert (ROOT / line[0]).exists(), line


@pytest.mark.parametrize("quoted", sorted(set(re.findall(r"`(aioanalysis [^`|]+)`", TEXT))))
def test_a_command_in_the_text_exists(quoted: str) -> None:
    words = shlex.split(quoted)[1:]
    if all(re.fullmatch(r"[a-z]+", word) for word in words):
        _find(words)
    else:
        _parse(words)


def test_every_script_path_and_link_in_the_text_exists() -> None:
    paths = re.findall(r"`(scripts/[\w-]+|tests/[\w./-]+|methods/[\w./-]*)", TEXT)
    links = [link for link in re.findall(r"\]\(([^)]+)\)", TEXT) if "://" not in link]
    headings = {
        re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)
    }
    assert [path for path in paths if not (ROOT / path).exists()] == []
    for link in links:
        assert link[1:] in headings if link.startswith("#") else (ROOT / link).exists(), link


def test_every_call_in_the_text_exists() -> None:
    served = {f"{e.method} {re.sub(r'{.*?}', '{}', e.path)}" for e in ENDPOINTS}
    for method, path in re.findall(r"`(GET|POST|PUT|DELETE) (/[^` ]*)`", TEXT):
        shape = re.sub(r"\{.*?\}|NAME", "{}", path)
        assert f"{method} {shape}" in served, path
    for path in re.findall(r"`(/(?:healthz|readyz|metrics|docs|openapi\.json))`", TEXT):
        assert f"GET {path}" in served


def _commands(block: str) -> list[list[str]]:
    """The simple commands of a block, those within `$(...)` too."""
    lines = [line for line in block.splitlines() if line and not line.startswith("#")]
    inner = [command for line in lines for command in re.findall(r"\$\(([^)]+)\)", line)]
    plain = [line for line in lines if not re.match(r"(export )?\w+=", line)]
    return [command for line in (*plain, *inner) for command in _simple(line)]


def _simple(line: str) -> Iterator[list[str]]:
    """The commands between a line's `;`, `||` and `&&`, without the words of its loops and `>FILE`."""
    words = shlex.shlex(line, posix=True, punctuation_chars=";|&")
    words.whitespace_split = True
    command: list[str] = []
    for word in [*words, ";"]:
        if set(word) <= set(";|&"):
            if command:
                yield command
            command = []
        elif not word.startswith(">") and (command or word not in {"until", "do", "done"}):
            command.append(word)


def _find(words: list[str]) -> tuple[Any, list[str]]:
    command: Any = readme.command_line()
    rest = list(words)
    while isinstance(command, TyperGroup) and rest:
        assert rest[0] in command.commands, f"aioanalysis {' '.join(words)}: there is no {rest[0]}"
        found = command.commands[rest.pop(0)]
        command = getattr(found, "real", found)
    return command, rest


def _parse(words: list[str]) -> None:
    """Parse a command line with its options, as typer would, and run nothing."""
    command, rest = _find(words)
    command.make_context("aioanalysis", rest)


def test_the_readme_names_no_folder_of_this_machine() -> None:
    assert str(Path.home()) not in TEXT
