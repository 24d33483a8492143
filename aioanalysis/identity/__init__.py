"""Who is behind a key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aioanalysis.errors import Misconfigured
from aioanalysis.identity.keyfile import KeyFileIdentity
from aioanalysis.interfaces import Identity
from aioanalysis.settings import Settings


@asynccontextmanager
async def open_identity(settings: Settings) -> AsyncIterator[Identity]:
    """The key file and system token that `settings` name; raises `Misconfigured` without either."""
    token = settings.system_token.get_secret_value() if settings.system_token else None
    if settings.keys_file is None and not token:
        raise Misconfigured("nobody could sign in: set AIOANALYSIS_KEYS_FILE or AIOANALYSIS_SYSTEM_TOKEN")
    identity = KeyFileIdentity(settings.keys_file, token)
    await identity.load()
    yield identity
