"""What a worker does first: clean up after earlier processes, its own instance's and those that are gone."""

from __future__ import annotations

from dataclasses import replace

from aioanalysis import logs
from aioanalysis.aio import in_thread
from aioanalysis.domain.exchange import Container, claim_name
from aioanalysis.errors import AnalysisError
from aioanalysis.interfaces import LeaseState
from aioanalysis.worker.claims import Claim, Claims
from aioanalysis.worker.handling import Handling
from aioanalysis.worker.run import LABEL, Host
from aioanalysis.worker.workspace import Instance, RunFolder

log = logs.get()


async def clean_up(host: Host) -> None:
    """End containers left over; commit runs that had ended, give back those that had not.

    The same for instances of this host that nobody has locked: whatever is there is of a process that has
    gone. One of another name may come back to its claims: it is left alone until they have lapsed, and
    altogether if they are in another storage. Raises `Unavailable` when engine or storage cannot be asked.
    """
    await _clean_up(host)
    for instance in host.instance.abandoned():
        if host.instance.is_of_our_name(instance) or (
            host.instance.shares_storage(instance) and not await _holds_claims(host, instance)
        ):
            await _clean_up(replace(host, instance=instance))


async def _holds_claims(host: Host, instance: Instance) -> bool:
    """Whether the lease of a claim of that instance's still runs."""
    for folder in await in_thread(instance.left_runs):
        state = await in_thread(folder.read, folder.claim)
        if state is None:
            continue
        info = await host.storage.stat(Container.RESULTS, claim_name(str(state.get("stem"))))
        if info and info.lease is LeaseState.HELD and info.metadata.get("nonce") == state.get("nonce"):
            return True
    return False


async def _clean_up(host: Host) -> None:
    claims = Claims(host.storage, host.instance.name, host.settings.lease_seconds)
    for run in await host.runtime.leftovers(LABEL, host.instance.key):
        log.warning("container_found", run=run)
        await host.runtime.kill(run)
        await host.runtime.remove(run)
    for folder in await in_thread(host.instance.left_runs):
        await _finish(host, claims, folder)


async def _finish(host: Host, claims: Claims, folder: RunFolder) -> None:
    claim = await _still_ours(claims, folder)
    if claim is None:
        await host.discard(folder)
        return
    body = await in_thread(folder.read, folder.outcome)
    log.warning("run_found", stem=claim.stem, attempt=claim.package.attempt, ended=body is not None)
    if body is not None and body.get("nonce") == claim.nonce and folder.job.is_dir():
        await Handling(host, claim, folder, body=body).handle()
        return
    try:
        await claim.give_back()
    except AnalysisError as error:
        log.warning("claim_left", stem=claim.stem, cause=str(error))
    await host.discard(folder)


async def _still_ours(claims: Claims, folder: RunFolder) -> Claim | None:
    state = await in_thread(folder.read, folder.claim)
    match state:
        case {"stem": str(stem), "nonce": str(nonce), "lease": str(lease)}:
            return await claims.adopt(stem, nonce, lease)
    return None
