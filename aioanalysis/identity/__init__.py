"""Who is behind a key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aioanalysis.errors import Misconfigured
from aioanalysis.identity.http import open_http_identity
from aioanalysis.identity.keyfile import KeyFileIdentity
from aioanalysis.interfaces import Identity, User
from aioanalysis.settings import Settings


@asynccontextmanager
async def open_identity(settings: Settings) -> AsyncIterator[Identity]:
    """What `settings` name: key file and system token, then the identity service. Raises `Misconfigured`."""
    token = settings.system_token.get_secret_value() if settings.system_token else None
    if settings.keys_file is None and settings.identity_url is None and not token:
        raise Misconfigured(
            "nobody could sign in: set AIOANALYSIS_KEYS_FILE, AIOANALYSIS_IDENTITY_URL"
            " or AIOANALYSIS_SYSTEM_TOKEN"
        )
    identity = KeyFileIdentity(settings.keys_file, token)
    await identity.load()
    if settings.identity_url is None:
        yield identity
        return
    async with open_http_identity(
        settings.identity_url,
        header=settings.identity_auth,
        good_seconds=settings.identity_cache_seconds,
        bad_seconds=settings.identity_negative_seconds,
    ) as service:
        yield InTurn(identity, service)


class InTurn:
    """`Identity`: who one does not know, the next is asked for."""

    def __init__(self, *identities: Identity) -> None:
        self._identities = identities

    async def identify(self, key: str) -> User | None:
        for identity in self._identities:
            user = await identity.identify(key)
            if user is not None:
                return user
        return None
