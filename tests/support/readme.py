"""The parts of README.md that are made of the code: `python -m tests.support.readme` writes them anew."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer
from pydantic import SecretStr
from typer.core import TyperGroup

from aioanalysis.api.app import ENDPOINTS
from aioanalysis.cli import app
from aioanalysis.settings import PREFIX, Settings

README: Final = Path(__file__).parents[2] / "README.md"
UNITS: Final = ((1024**3, "GiB"), (1024**2, "MiB"))


def command_line() -> TyperGroup:
    found = typer.main.get_command(app)
    assert isinstance(found, TyperGroup)
    return found


def settings_table() -> str:
    """Every setting, in the order of the class."""
    lines = ["| variable | default | meaning |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        lines.append(f"| `{PREFIX}{name.upper()}` | {_default(name, field.default)} | {field.description} |")
    return "\n".join(lines)


def _default(name: str, value: Any) -> str:
    if value is None or isinstance(value, SecretStr):
        return ""
    if name.endswith("_bytes"):
        for size, unit in UNITS:
            if value % size == 0:
                return f"`{value}` ({value // size} {unit})"
    return f"`{value}`"


def commands_table() -> str:
    """Every command with the first sentence of its help."""
    lines = ["| command | does |", "|---|---|"]
    lines += [f"| `aioanalysis {path}` | {_cell(command)} |" for path, command in walk(command_line())]
    return "\n".join(lines)


def walk(group: TyperGroup, before: str = "") -> Iterator[tuple[str, Any]]:
    """Every command by its words."""
    for name, lazy in group.commands.items():
        command = getattr(lazy, "real", lazy)
        if isinstance(command, TyperGroup):
            yield from walk(command, f"{before}{name} ")
        else:
            yield before + name, command


def _cell(command: Any) -> str:
    text = " ".join((command.help or "").split("\n\n")[0].split())
    return text.replace("|", "\\|")


def calls_table() -> str:
    """Every call of the API."""
    lines = ["| call | does |", "|---|---|"]
    lines += [f"| `{endpoint.method} {endpoint.path}` | {endpoint.summary} |" for endpoint in ENDPOINTS]
    return "\n".join(lines)


GENERATED: Final = {"settings": settings_table, "commands": commands_table, "calls": calls_table}


def part(text: str, name: str) -> str:
    """What stands between the marks of a generated part."""
    found = _marked(name).search(text)
    assert found is not None, f"README.md has no part {name}"
    return found[1]


def _marked(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<=<!-- {name} -->\n)(.*?)(?=\n<!-- /{name} -->)", re.DOTALL)


def blocks(text: str, heading: str, language: str = "sh") -> list[str]:
    """The blocks of code under a heading, up to the next of its level or above."""
    level = len(heading.split(" ")[0])
    found: list[str] = []
    inside = seen = False
    for piece in re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE):  # text, fence, text, ...
        if piece.startswith("```"):
            if inside and piece.startswith(f"```{language}\n"):
                found.append(piece.removeprefix(f"```{language}\n").removesuffix("```"))
            continue
        for line in re.findall(r"^#+ .*$", piece, re.MULTILINE):
            if line == heading:
                inside = seen = True
            elif len(line.split(" ")[0]) <= level:
                inside = False
    assert seen, f"README.md has no heading {heading!r}"
    return found


def main() -> None:
    text = README.read_text()
    for name, make in GENERATED.items():
        text = text.replace(f"<!-- {name} -->\n{part(text, name)}", f"<!-- {name} -->\n{make()}")
    README.write_text(text)


if __name__ == "__main__":
    main()
