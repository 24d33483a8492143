"""Commands that keep the user's profiles: services and the keys to them."""

from __future__ import annotations

import sys
from getpass import getpass
from typing import Annotated
from urllib.parse import urlsplit

import typer

from aioanalysis.cli.columns import Column, print_columns
from aioanalysis.cli.options import CHOSEN, Json
from aioanalysis.cli.output import print_json
from aioanalysis.cli.session import connection, run
from aioanalysis.client import SessionJson, open_client
from aioanalysis.client.connection import checked_server
from aioanalysis.client.profiles import Profile, Profiles
from aioanalysis.errors import Misconfigured

DEFAULT = "default"


def login(
    server: Annotated[str, typer.Argument(help="Address of the service: https://host or http://host:port.")],
    name: Annotated[
        str | None, typer.Option("--name", help="The profile's name; `default` if not given.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Sign in to a service: its address and your key are kept as a profile.

    The key is asked for, or read from standard input where that is no terminal, or from --key-file. It is
    tried before it is kept, in a file that nobody else can read, and it is never printed.
    """
    server = checked_server(server)
    name = name or CHOSEN.get().profile or DEFAULT
    if server.startswith("http://") and not _is_local(server):
        print(f"aioanalysis: {server} has no TLS: the key travels where others can read it", file=sys.stderr)
    key = _key()
    profiles = Profiles.load()

    async def who() -> SessionJson:
        async with open_client(server, key, patience=0) as client:
            return await client.who()

    session = run(who())
    profiles.with_profile(name, Profile(server=server, key=key)).save()
    if as_json:
        print_json({"server": server, "profile": name, "user": session["user"], "role": session["role"]})
    else:
        print(f"signed in to {server} as {session['user']} ({session['role']}); profile {name}")


def logout(
    name: Annotated[
        str | None, typer.Option("--name", help="A profile; the current one if not given.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Forget a profile and its key."""
    profiles = Profiles.load()
    name = name or CHOSEN.get().profile or profiles.current
    if name is None:
        raise Misconfigured("there is no current profile: name one with --name")
    server = profiles.get(name).server
    profiles.without(name).save()
    if as_json:
        print_json({"server": server, "profile": name})
    else:
        print(f"profile {name} of {server} is forgotten")


def profiles(
    use: Annotated[str | None, typer.Option(help="Make this profile the current one.")] = None,
    as_json: Json = False,
) -> None:
    """List the profiles, and say which service is spoken to."""
    stored = Profiles.load()
    if use is not None:
        stored = stored.with_profile(use, stored.get(use))
        stored.save()
    try:
        found = connection()
        spoken_to = {"server": found.server, "by": found.source}
    except Misconfigured:
        spoken_to = None
    if as_json:
        listed = {name: profile.server for name, profile in stored.profiles.items()}
        print_json({"current": stored.current, "profiles": listed, "in_use": spoken_to})
        return
    rows = [
        ("*" if name == stored.current else "", name, profile.server)
        for name, profile in sorted(stored.profiles.items())
    ]
    print_columns((Column("", keep=8), Column("profile", keep=9), Column("server", flexible=True)), rows)
    if spoken_to:
        print(f"commands speak to {spoken_to['server']}, by {spoken_to['by']}")


def _key() -> str:
    """Raises `Misconfigured`, `BadParameter`."""
    try:
        key = CHOSEN.get().key()
    except OSError as error:
        raise Misconfigured(f"--key-file cannot be read: {error.strerror}") from None
    if key is None:
        key = getpass("key: ") if sys.stdin.isatty() else sys.stdin.read()
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise typer.BadParameter("a key is one word of ASCII characters")
    return key


def _is_local(server: str) -> bool:
    return urlsplit(server).hostname in {"localhost", "127.0.0.1", "::1"}
