"""Commands that are imported when they are used: a list of them needs their names and their help only."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


class Stopped(Exception):
    """By Ctrl-C; the text says what a person should know then."""


class LazyCommand(TyperCommand):
    """Stands for the function or the `typer.Typer` that is `attribute` of a module of this package."""

    def __init__(self, name: str, place: str, help_: str, panel: str) -> None:
        super().__init__(name, help=help_, rich_help_panel=panel)
        self._place = place

    @cached_property
    def real(self) -> Any:
        """The command itself."""
        module, _, attribute = self._place.partition(":")
        found = getattr(import_module(f"aioanalysis.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            group = typer.main.get_group(found)
            group.name = self.name
            return group
        alone = typer.Typer(add_completion=False)
        alone.command(self.name)(found)
        return typer.main.get_command(alone)

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """The context is the real command's, and what is done with it is what that does."""
        return self.real.make_context(*args, **kwargs)


class LazyGroup(TyperGroup):
    """A group of such commands, in the order in which they were added."""

    def add_all(self, commands: tuple[LazyCommand, ...]) -> None:
        for command in commands:
            self.add_command(command)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)
