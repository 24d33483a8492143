"""Commands that set the service up: its settings and its keys."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import SecretStr

from aioanalysis.cli.output import print_json, print_table
from aioanalysis.errors import Misconfigured
from aioanalysis.settings import PREFIX, Settings, load

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
keys = typer.Typer(help="Keys of users, and the secret that seals them.", no_args_is_help=True)


def config(as_json: Json = False) -> None:
    """Print the settings in force, secrets hidden."""
    settings = load()
    values = {PREFIX + name.upper(): _shown(getattr(settings, name)) for name in Settings.model_fields}
    if as_json:
        print_json(values)
    else:
        rows = [
            (variable, "" if value is None else str(value), field.description or "")
            for (variable, value), field in zip(values.items(), Settings.model_fields.values(), strict=True)
        ]
        print_table(("variable", "value", "meaning"), rows)


def openapi() -> None:
    """Print the API's OpenAPI 3.1 document."""
    from aioanalysis.api.app import SERVED
    from aioanalysis.api.openapi import document

    print_json(document(SERVED))


def _shown(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return "(hidden)"
    return str(value) if isinstance(value, Path) else value


@keys.command()
def add(
    name: str,
    administrator: Annotated[bool, typer.Option(help="May see and act on every job.")] = False,
    label: Annotated[str, typer.Option(help="What the key is for.")] = "",
    existing: Annotated[
        bool,
        typer.Option("--existing", help="Read a key that the user has, such as BOLD's, from standard input."),
    ] = False,
) -> None:
    """Make a key for a user; it is printed once and stored as a hash only."""
    from aioanalysis.identity import keyfile

    role: Literal["user", "administrator"] = "administrator" if administrator else "user"
    given = sys.stdin.readline().strip() if existing else None
    key, entry = keyfile.new_key(name, role, label=label, key=given)
    keyfile.add(_keys_file(), entry)
    if not existing:
        print(key)


@keys.command("list")
def list_(as_json: Json = False) -> None:
    """List the keys by fingerprint."""
    from aioanalysis.identity import keyfile

    entries = [json.loads(entry.to_line()) for entry in keyfile.entries(_keys_file())]
    shown = [{**entry, "sha256": str(entry["sha256"])[:12]} for entry in entries]
    if as_json:
        print_json(shown)
    else:
        columns = ("sha256", "user", "role", "created", "label")
        print_table(columns, [[str(entry.get(column) or "") for column in columns] for entry in shown])


@keys.command()
def remove(fingerprint: str) -> None:
    """Take a key back, named by the beginning of its hash."""
    from aioanalysis.identity import keyfile

    entry = keyfile.remove(_keys_file(), fingerprint)
    print(f"removed a key of {entry.user}")


@keys.command()
def secret() -> None:
    """Print a new secret for AIOANALYSIS_JOB_KEY_SECRET."""
    from cryptography.fernet import Fernet

    print(Fernet.generate_key().decode())


def _keys_file() -> Path:
    path = load().keys_file
    if path is None:
        raise Misconfigured(f"set {PREFIX}KEYS_FILE to the file that holds (or shall hold) the keys")
    return path
