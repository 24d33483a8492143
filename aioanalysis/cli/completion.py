"""Words that a shell offers: methods, jobs, actions, states. Silent when the service cannot be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from aioanalysis.cli.options import CHOSEN
from aioanalysis.client import AnalysisClient, find_connection, open_client
from aioanalysis.errors import AnalysisError

SECONDS: Final = 2.0
JOBS: Final = 50
ACTIONS: Final = ("block", "unblock", "interrupt", "suspend", "kill", "retry", "resubmit")


def complete_method(incomplete: str) -> list[tuple[str, str]]:
    async def ask(client: AnalysisClient) -> list[tuple[str, str]]:
        return [(method["title"], method["label"]) for method in await client.methods()]

    return _matching(incomplete, _ask(ask))


def complete_job(incomplete: str) -> list[tuple[str, str]]:
    async def ask(client: AnalysisClient) -> list[tuple[str, str]]:
        return [(job["id"], f"{job['title']}, {job['state']}") for job in await client.jobs(limit=JOBS)]

    return _matching(incomplete, _ask(ask))


def complete_action(incomplete: str) -> list[tuple[str, str]]:
    return _matching(incomplete, [(action, "") for action in ACTIONS])


def _matching(incomplete: str, words: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [word for word in words if word[0].startswith(incomplete)]


def _ask(
    question: Callable[[AnalysisClient], Awaitable[list[tuple[str, str]]]],
) -> list[tuple[str, str]]:
    async def main() -> list[tuple[str, str]]:
        chosen = CHOSEN.get()
        found = find_connection(server=chosen.server, key=chosen.key(), profile=chosen.profile)
        async with asyncio.timeout(SECONDS), open_client(found.server, found.key, patience=0) as client:
            return await question(client)

    try:
        return asyncio.run(main())
    except (AnalysisError, OSError):
        return []
