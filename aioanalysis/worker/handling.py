"""Sees one claimed package through: run, commit, or whatever comes between (PROTOCOL.md 2)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog

from aioanalysis import logs
from aioanalysis.aio import finish, in_thread
from aioanalysis.domain.exchange import Ending, ResultPackage, attempt_name, result_name, sidecar_name
from aioanalysis.domain.outcomes import Reason
from aioanalysis.errors import AnalysisError, Missing, Unavailable
from aioanalysis.worker.archive import Archive
from aioanalysis.worker.claims import Claim, cancel
from aioanalysis.worker.commit import Commit, Overtaken, while_held
from aioanalysis.worker.crate import CRATE_MEMBER, crate
from aioanalysis.worker.hostlog import LOG_TAIL_BYTES, HostLog
from aioanalysis.worker.jobtree import tail
from aioanalysis.worker.orders import Orders
from aioanalysis.worker.outcome import added_members, killed, sidecar
from aioanalysis.worker.progress import Progress, now
from aioanalysis.worker.run import Host, Run
from aioanalysis.worker.slots import Slot
from aioanalysis.worker.workspace import RunFolder

KILLED_ZIP: Final = ".killed.zip"
KILLED_SIDECAR: Final = ".killed.metadata.json"
SEAL_SECONDS: Final = 10.0

log = logs.get()


class End(StrEnum):
    """How the handling of a package ended."""

    COMPLETE = "complete"
    FAILED = "failed"
    KILLED = "killed"
    STOPPED = "stopped"  # interrupt or discard: nothing is left
    OVERTAKEN = "overtaken"
    LOST = "lost"
    GIVEN_BACK = "given_back"
    BROKEN = "broken"  # our own fault: the lease is let go, the scheduler recovers it


class Ordered(Exception):
    """An action came for this attempt."""

    def __init__(self, action: str) -> None:
        super().__init__(action)
        self.action = action


class Handling:
    """One claimed package; `abort` makes it give the package back."""

    def __init__(
        self,
        host: Host,
        claim: Claim,
        folder: RunFolder,
        *,
        body: Mapping[str, Any] | None = None,
        slot: Slot | None = None,
        committed: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`body` is the outcome of a run that ended before its worker did: only the commit is left.

        `slot` is left when the run has ended, for the commit; not when the engine is in doubt, which is to
        be asked before the next run. `committed` is awaited after each outcome.
        """
        self.claim = claim
        self._host = host
        self._folder = folder
        self._body = dict(body) if body is not None else None
        self._slot = slot
        self._committed = committed
        self._log = HostLog(now())
        self._progress = Progress(host.storage, claim, host.worker)
        self._orders = Orders(host.storage, claim.stem, claim.package.attempt, host.settings.sample_interval)
        self._commit = Commit(host.storage, claim, look_first=True if body is not None else None)
        self._run = Run(host, claim, folder, self._progress, self._enter, self._ran)
        self._abort = asyncio.Event()
        self._sealed = False  # the sidecar is being written: too late for anything but a lost claim
        self._zip: ResultPackage | None = None
        self._end = End.GIVEN_BACK

    @property
    def engine_failed(self) -> bool:
        """Whether the run came to grief in a way that puts the engine in doubt."""
        error = (self._body or {}).get("error")
        return error is not None and error["reason"] == Reason.CONTAINER

    def abort(self) -> None:
        """Stop now, whatever is being done, and put the package back."""
        self._abort.set()

    async def handle(self) -> End:
        """See it through to its end; afterwards nothing of it is left here. Cancelled, it gives back."""
        parsed = {"stem": self.claim.stem, "attempt": self.claim.package.attempt}
        with structlog.contextvars.bound_contextvars(**parsed):
            try:
                self._end = await self._supervised()
            finally:
                await finish(self._close(), name=f"close {self.claim.stem}")
            return self._end

    # --- supervision ---

    async def _supervised(self) -> End:
        stem = self.claim.stem
        work = asyncio.create_task(self._work(), name=f"run {stem}")
        orders = asyncio.create_task(self._orders.wait(), name=f"orders {stem}")
        lost = asyncio.create_task(self.claim.wait_lost(), name=f"lost {stem}")
        aborted = asyncio.create_task(self._abort.wait(), name=f"abort {stem}")
        tasks: set[asyncio.Task[Any]] = {work, orders, lost, aborted}
        try:
            waiting = set(tasks)
            while True:
                done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if work in done:
                    return await self._worked(work, {lost, aborted})
                waiting -= done
                if lost in done:
                    return End.LOST
                if self._sealed:
                    continue
                if aborted in done:
                    return End.GIVEN_BACK
                await cancel({work})
                return await self._obey(orders.result(), {lost, aborted})
        finally:
            await finish(self._halt(work, tasks), name=f"halt {stem}")

    async def _halt(self, work: asyncio.Task[End], tasks: set[asyncio.Task[Any]]) -> None:
        """Cancel all; a sidecar on its way is let arrive, or nobody could say whether it has."""
        if self._sealed and not work.done() and not self.claim.lost:
            await asyncio.wait({work}, timeout=SEAL_SECONDS)
            if work.done() and not work.cancelled() and work.exception() is None:
                self._end = work.result()
        await cancel(tasks)

    async def _worked(self, work: asyncio.Task[End], enders: set[asyncio.Task[Any]]) -> End:
        try:
            return work.result()
        except Ordered as order:
            return await self._obey(order.action, enders)
        except Overtaken as error:
            log.warning("run_overtaken", cause=str(error))
            return End.OVERTAKEN
        except (Missing, Unavailable) as error:
            log.warning("claim_gone", cause=str(error))
            return End.LOST
        except Exception:
            log.exception("commit_failed")
            return End.BROKEN

    async def _work(self) -> End:
        body = self._body
        if body is None:
            await self._put_down(self._folder.claim, self._state())
            body = self._body = await self._run.perform()
            await self._put_down(self._folder.outcome, body)
            if self._slot is not None and not self.engine_failed:
                await self._slot.leave()
        self._enter("upload")
        ending = Ending.COMPLETE if body["error"] is None else Ending.FAILED
        stem = self.claim.stem
        self._zip = await self._put_zip(result_name(stem, ending), body)
        await self._seal()
        await self._commit.put_sidecar(sidecar_name(stem, ending), sidecar(body, self._zip))
        return End.COMPLETE if ending is Ending.COMPLETE else End.FAILED

    async def _ran(self) -> None:
        if self._slot is not None:
            await self._slot.ended()

    async def _put_down(self, path: Path, body: Mapping[str, Any]) -> None:
        """For a restart: without it, as on a full disk, a crash from now on makes the job run again."""
        try:
            await in_thread(self._folder.write, path, body)
        except OSError as error:
            log.warning("not_put_down", file=path.name, cause=str(error))

    def _state(self) -> dict[str, Any]:
        return {"stem": self.claim.stem, "nonce": self.claim.nonce, "lease": self.claim.lease}

    async def _seal(self) -> None:
        """The last look before the commit point."""
        self._sealed = True
        action: str | None = None
        async for attempt in while_held(self.claim):
            with attempt:
                action = await self._orders.read()
        if action is not None:
            raise Ordered(action)
        if self.claim.lost:
            raise Missing("the lease was lost")

    async def _put_zip(self, name: str, body: Mapping[str, Any]) -> ResultPackage:
        job_dir = self._folder.job
        extra = await in_thread(added_members, body, job_dir)
        about = {key: body[key] for key in ("stem", "uid", "attempt")}
        most = self._host.settings.output_max_bytes + self._host.settings.package_max_bytes
        described = {CRATE_MEMBER: partial(crate, body, submitter=self.claim.package.owner)}

        def make() -> Archive:
            return Archive(job_dir, extra=extra, about=about, max_bytes=most, described=described)

        return await self._commit.put_zip(name, make)

    def _enter(self, phase: str) -> None:
        self._log.enter(phase)
        self._orders.look_now()
        log.debug("phase", phase=phase)

    # --- endings ---

    async def _obey(self, action: str, enders: set[asyncio.Task[Any]]) -> End:
        """kill keeps what there is under `attempts/`; interrupt and discard leave nothing."""
        log.info("run_ordered", action=action)
        self._end = End.KILLED if action == "kill" else End.STOPPED
        await self._run.end()
        keeping = asyncio.create_task(self._clear(keep=action == "kill"), name=f"obey {self.claim.stem}")
        try:
            await asyncio.wait({keeping, *enders}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel({keeping})
        return self._end

    async def _clear(self, *, keep: bool) -> None:
        """Take away a zip that shall have no sidecar; `keep` the run so far."""
        try:
            if self._zip is not None:
                await self._commit.withdraw(self._zip)
            if keep:
                await self._keep_killed()
        except (AnalysisError, OSError) as error:
            log.error("order_half_done", cause=str(error))

    async def _keep_killed(self) -> None:
        body = killed(self._body or self._run.draft())
        stem, attempt = self.claim.stem, self.claim.package.attempt
        package = await self._put_zip(attempt_name(stem, attempt, KILLED_ZIP), body)
        name = attempt_name(stem, attempt, KILLED_SIDECAR)
        await self._commit.put_sidecar(name, sidecar(body, package))

    async def _close(self) -> None:
        """Leave nothing: container, lease or claim, progress, folder; in the order of who waits for it."""
        await self._run.end()
        await self._settle_claim()
        if self._committed is not None:
            await self._committed()
        await self._progress.drop()
        summary = self._summary()
        output = await in_thread(tail, self._folder.job, "job.log", LOG_TAIL_BYTES)
        await self._host.discard(self._folder)  # before the log is written: the disk may be full of it
        await in_thread(self._leave, summary, output)
        log.info("run_finished", **{k: v for k, v in summary.items() if k not in {"stem", "attempt"}})

    async def _settle_claim(self) -> None:
        try:
            if self._end is End.LOST:
                await self.claim.stop()
            elif self._end is not End.GIVEN_BACK:
                await self.claim.release()
            elif not await self.claim.give_back():
                self._end = End.LOST
        except AnalysisError as error:
            log.warning("claim_left", cause=str(error))

    def _summary(self) -> dict[str, Any]:
        body = self._body or self._run.draft()
        error = body["error"] or {}
        return {
            "stem": self.claim.stem,
            "attempt": self.claim.package.attempt,
            "end": self._end.value,
            "reason": error.get("reason"),
            "message": error.get("message"),
            "exit_code": body["exit_code"],
            "records": body["records"],
            "result_bytes": self._zip.size if self._zip else None,
            "seconds": self._log.seconds,
            "phases": self._log.phases(),
            "started_at": body["started_at"],
            "finished_at": body["finished_at"],
            "worker": self._host.instance.name,
        }

    def _leave(self, summary: Mapping[str, Any], output: bytes) -> None:
        try:
            name = f"{self.claim.stem}.{self.claim.package.attempt}"
            self._log.write(
                self._host.instance.logs, name, summary, output, self._host.settings.run_logs_kept
            )
        except OSError as error:
            log.warning("host_log_not_written", cause=str(error))
