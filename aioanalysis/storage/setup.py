"""Makes the two containers of package storage where they are not there yet."""

from __future__ import annotations

from aioanalysis.errors import Contested
from aioanalysis.settings import Settings
from aioanalysis.storage.azure_account import open_account
from aioanalysis.storage.azure_faults import faults


async def create_containers(settings: Settings) -> list[str]:
    """Make them in the Azure account that `settings` name; the names of those made now. Repeatable.

    A storage directory makes its own when it is opened. Raises `Misconfigured`, `Unavailable`.
    """
    connection, url = settings.azure_connection_string, settings.azure_account_url
    made = []
    async with open_account(
        connection_string=connection.get_secret_value() if connection else None,
        account_url=url.get_secret_value() if url else None,
    ) as account:
        for name in (settings.queue_container, settings.results_container):
            try:
                with faults(f"Azure Blob {account.label}, making container {name}"):
                    await account.container(name).create_container()
            except Contested:
                continue  # it is there
            made.append(name)
    return made
