"""Which service to speak to, and with which key: by option, by the environment, or as it is stored."""

from __future__ import annotations

import json
import re
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from aioanalysis.client.profiles import Profile, Profiles
from aioanalysis.errors import Misconfigured

SERVER: Final = re.compile(r"https?://[^\s/?#]+(/[^\s?#]*)?")
DEV_FILE: Final = "dev.json"
DEV_SECONDS: Final = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Connection:
    """A service and the key to it; `source` says where the service's address is from."""

    server: str
    key: str | None = field(repr=False)
    source: str


def find_connection(
    *, server: str | None = None, key: str | None = None, profile: str | None = None
) -> Connection:
    """What is given wins; then the profile that is given, AIOANALYSIS_SERVER and AIOANALYSIS_KEY (also of
    .env), AIOANALYSIS_PROFILE, the `aioanalysis dev` that runs in this folder, and the current profile.

    A stored key goes to no other server than its own. Raises `Misconfigured`.
    """
    from aioanalysis.settings import load  # a fifth of the client's import, for who asks for a connection

    settings = load()
    named = Profiles.load().get(profile) if profile else None
    its_key = settings.key.get_secret_value() if settings.key else None
    addresses = (
        (server, "the option --server"),
        (named and named.server, f"the profile {profile}"),
        (settings.server, "AIOANALYSIS_SERVER"),
    )
    address, source = next((found for found in addresses if found[0]), (None, ""))
    stored = named
    if not address:
        stored, source = _stored(settings.profile, settings.data_dir)
        if stored is None:
            raise Misconfigured(
                "which service? `aioanalysis login SERVER` once, set AIOANALYSIS_SERVER and AIOANALYSIS_KEY,"
                " or start `aioanalysis dev` in this folder"
            )
        address = stored.server
    address = checked_server(address)
    if stored is None and key is None and its_key is None:
        stored = Profiles.load().of_server(address)
    ours = stored.key if stored is not None and checked_server(stored.server) == address else None
    found = (key, ours, its_key) if named is not None else (key, its_key, ours)
    return Connection(server=address, key=next(filter(None, found), None), source=source)


def checked_server(address: str) -> str:
    """The address without a slash at its end; raises `Misconfigured`."""
    if not SERVER.fullmatch(address):
        raise Misconfigured(
            f"{address} is no address of a service: write it as https://host or http://host:port"
        )
    return address.rstrip("/")


def _stored(profile: str | None, data_dir: Path) -> tuple[Profile | None, str]:
    """What nobody has asked for on this call, and where it is from."""
    if profile is not None:
        return Profiles.load().get(profile), "AIOANALYSIS_PROFILE"
    dev = running_dev(data_dir)
    if dev is not None:
        return dev, "the `aioanalysis dev` of this folder"
    profiles = Profiles.load()
    if profiles.current is None:
        return None, ""
    return profiles.get(profiles.current), f"the profile {profiles.current}"


def running_dev(data_dir: Path) -> Profile | None:
    """The `dev` of this data folder, if there is somebody at its address."""
    try:
        dev = json.loads((data_dir / DEV_FILE).read_text(encoding="utf-8"))
        found = Profile(server=dev["server"], key=dev["key"])
        place = urlsplit(found.server)
        with socket.create_connection((place.hostname, place.port or 80), DEV_SECONDS):
            return found
    except (OSError, ValueError, KeyError, TypeError):
        return None
