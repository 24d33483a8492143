"""Commands that tell which methods there are, and what they take."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from aioanalysis.cli.columns import Column, print_columns
from aioanalysis.cli.completion import complete_method
from aioanalysis.cli.options import Json
from aioanalysis.cli.output import print_json
from aioanalysis.cli.parameters import types
from aioanalysis.cli.session import with_service
from aioanalysis.interfaces import MethodDirectory
from aioanalysis.methods import list_methods
from aioanalysis.settings import load

METHODS: Final = (
    Column("title", keep=9),
    Column("label", keep=6),
    Column("version", keep=4),
    Column("description", keep=5, flexible=True),
)
PARAMETERS: Final = (
    Column("parameter", keep=9),
    Column("type", keep=7, flexible=True),
    Column("default", keep=6),
    Column("meaning", keep=5, flexible=True),
)


def list_(
    local: Annotated[
        bool, typer.Option("--local", help="Those in METHODS_DIR; no service is asked.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the methods that the service offers."""
    if local:
        settings = load()
        directories, _ = asyncio.run(list_methods(settings.methods_dir, base_image=settings.base_image))
        found = [_row(directory) for directory in directories]
    else:
        found = [dict(method) for method in with_service(lambda client: client.methods())]
    if as_json:
        print_json(found)
    else:
        print_columns(METHODS, [[str(method[column.name]) for column in METHODS] for method in found])


def show(
    title: Annotated[str, typer.Argument(help="The method.", autocompletion=complete_method)],
    as_json: Json = False,
) -> None:
    """Show a method of the service, with its parameters as `submit -p` takes them."""
    found = with_service(lambda client: client.method(title))
    if as_json:
        print_json(found)
        return
    print(f"{found['label']} ({found['title']} {found['version']})")
    if found["description"]:
        print(found["description"])
    properties = found["parameters"].get("properties") or {}
    print_columns(PARAMETERS, [_parameter(name, schema) for name, schema in properties.items()])


def _row(directory: MethodDirectory) -> dict[str, Any]:
    method = directory.method
    return {
        "title": method.title,
        "label": method.label,
        "version": method.version,
        "description": method.description,
        "digest": directory.digest,
    }


def _parameter(name: str, schema: Mapping[str, Any]) -> tuple[str, str, str, str]:
    choices = [word if isinstance(word, str) else json.dumps(word) for word in schema.get("enum", ())]
    default = schema.get("default")
    shown = default if isinstance(default, str) else json.dumps(default)
    meaning = str(schema.get("description") or schema.get("title") or "")
    kind = " | ".join(choices) or " or ".join(types(schema))
    return name, kind, shown if "default" in schema else "", meaning
