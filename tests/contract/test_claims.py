"""Claim, commit and recovery keep PROTOCOL.md section 2 on every storage, wherever a worker dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aioanalysis.domain.exchange import (
    Container,
    Ending,
    PackageMeta,
    ResultPackage,
    claim_name,
    package_name,
    result_name,
    sidecar_name,
)
from aioanalysis.errors import AnalysisError, Unavailable
from aioanalysis.interfaces import BlobInfo, ExchangeStorage, LeaseState
from aioanalysis.worker import claims as module
from aioanalysis.worker.archive import Archive
from aioanalysis.worker.claims import Claim, Claims
from aioanalysis.worker.commit import Commit, Overtaken
from tests.support.exchange import (
    LEASE_SECONDS,
    Crash,
    CrashingStorage,
    Exchange,
    azurite_exchange,
    directory_exchange,
    recover,
)
from tests.support.faultproxy import FaultProxy
from tests.support.packages import (
    claim_info,
    enqueue,
    make_tar,
    names_in,
    new_stem,
    package_meta,
    read_blob,
    sidecar_of,
)
from tests.support.servers import Azurite
from tests.support.waiting import eventually

QUEUE, RESULTS = Container.QUEUE, Container.RESULTS


@pytest.fixture(params=["directory", "azurite"])
async def exchange(request: pytest.FixtureRequest, tmp_path: Path, unique: str) -> AsyncIterator[Exchange]:
    if request.param == "directory":
        async with directory_exchange(tmp_path / "blobs") as opened:
            yield opened
    else:
        async with azurite_exchange(request.getfixturevalue("azurite"), unique) as opened:
            yield opened


@pytest.fixture
def storage(exchange: Exchange) -> ExchangeStorage:
    return exchange.storage


@pytest.fixture
async def claims(storage: ExchangeStorage) -> AsyncIterator[Callable[..., Claims]]:
    """Makes claimers; what they hold in the end is let go."""
    made: list[Claim] = []

    class Kept(Claims):
        def _started(self, *args: Any) -> Claim:
            claim = super()._started(*args)
            made.append(claim)
            return claim

    yield lambda worker="w", over=None: Kept(over or storage, worker, LEASE_SECONDS)
    for claim in made:
        with suppress(AnalysisError, Crash):
            await claim.release()
        await claim.stop()


def archive(tmp_path: Path, text: str = "result") -> Callable[[], Archive]:
    job = tmp_path / f"job-{text}"
    job.mkdir(exist_ok=True)
    (job / "result.txt").write_text(text)
    return lambda: Archive(job, extra={}, about={}, max_bytes=1 << 30)


async def committed(commit: Commit, stem: str, make: Callable[[], Archive]) -> ResultPackage:
    """Zip and sidecar, as a run's end commits them."""
    package = await commit.put_zip(result_name(stem, Ending.COMPLETE), make)
    mark = commit._mark  # the sidecar's body needs no more here
    body = f'{{"version": 1, "attempt": {mark.attempt}, "nonce": "{mark.nonce}", "result": '.encode()
    body += f'{{"sha256": "{package.sha256}", "etag": "unknown"}}}}'.encode()
    await commit.put_sidecar(sidecar_name(stem, Ending.COMPLETE), body)
    return package


# --- claim ---


async def test_a_claim_takes_the_package_out_of_the_queue_with_all_that_is_said_of_it(
    storage: ExchangeStorage, claims: Callable[..., Claims]
) -> None:
    stem = new_stem()
    data = make_tar(stem)
    meta = package_meta(data, owner="Zoë", attempt=2)
    await enqueue(storage, stem, data=data, meta=meta)
    claim = await claims("host.example").take()
    assert claim is not None
    assert (claim.stem, claim.size, claim.lost) == (stem, len(data), False)
    info = await claim_info(storage, stem)
    assert info is not None
    assert info.lease is LeaseState.HELD
    said = PackageMeta.from_metadata(info.metadata)
    assert said == replace(meta, worker="host.example", nonce=claim.nonce)
    assert await names_in(storage, QUEUE) == []
    assert await read_blob(storage, claim_name(stem)) == data


async def test_the_oldest_package_goes_first_and_other_names_are_left_alone(
    storage: ExchangeStorage, claims: Callable[..., Claims]
) -> None:
    await storage.write(QUEUE, "readme.tar", b"not a package")
    stems = []
    for _ in range(3):
        stem = await enqueue(storage)
        stems.append(stem)
        info = await storage.stat(QUEUE, package_name(stem))
        assert info is not None
        if len(stems) < 3:  # Azure's times are whole seconds
            await asyncio.sleep(1.05)
    taken = [await claims().take() for _ in range(4)]
    assert [claim.stem if claim else None for claim in taken] == [*stems, None]
    assert await names_in(storage, QUEUE) == ["readme.tar"]


async def test_of_many_workers_each_package_gets_exactly_one(
    storage: ExchangeStorage, claims: Callable[..., Claims]
) -> None:
    stems = {await enqueue(storage) for _ in range(6)}
    claimers = [claims(f"w{number}") for number in range(4)]
    taken: list[str] = []

    async def work(claimer: Claims) -> None:
        while await names_in(storage, QUEUE):
            claim = await claimer.take()
            if claim is not None:
                taken.append(claim.stem)

    async with asyncio.timeout(60):
        await asyncio.gather(*(work(claimer) for claimer in claimers))
    assert sorted(taken) == sorted(stems)


async def test_a_package_whose_root_another_holds_is_passed_over(
    storage: ExchangeStorage, claims: Callable[..., Claims]
) -> None:
    stem = await enqueue(storage)
    lease = "11111111-1111-4111-8111-111111111111"
    await storage.acquire_lease(QUEUE, package_name(stem), lease, LEASE_SECONDS)
    assert await claims().take() is None
    await storage.release_lease(QUEUE, package_name(stem), lease)
    assert await claims().take() is not None


async def test_a_stale_claim_is_written_over_and_a_held_one_is_not(
    storage: ExchangeStorage, claims: Callable[..., Claims]
) -> None:
    stem = await enqueue(storage)
    await storage.write(
        RESULTS, claim_name(stem), b"older attempt", metadata={"nonce": "old", "attempt": "1"}
    )
    lease = "11111111-1111-4111-8111-111111111111"
    await storage.acquire_lease(RESULTS, claim_name(stem), lease, LEASE_SECONDS)
    assert await claims().take() is None
    root = await storage.stat(QUEUE, package_name(stem))
    assert root is not None
    assert root.lease is LeaseState.FREE
    await storage.release_lease(RESULTS, claim_name(stem), lease)
    claim = await claims().take()
    assert claim is not None
    assert await read_blob(storage, claim_name(stem)) == make_tar(stem)


# --- keeping, losing, giving up ---


async def test_a_claim_is_renewed_and_the_job_gets_its_sign_of_life(
    storage: ExchangeStorage,
    claims: Callable[..., Claims],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "RENEWALS", 50)
    await enqueue(storage)
    claim = await claims().take()
    assert claim is not None
    alive = tmp_path / ".alive"
    claim.alive = alive
    await eventually(alive.exists)
    first = alive.stat().st_mtime_ns
    await eventually(lambda: alive.stat().st_mtime_ns > first)
    assert not claim.lost


async def test_the_sign_of_life_follows_no_link(
    storage: ExchangeStorage, claims: Callable[..., Claims], tmp_path: Path
) -> None:
    await enqueue(storage)
    claim = await claims().take()
    assert claim is not None
    (tmp_path / "target").touch()
    before = (tmp_path / "target").stat().st_mtime_ns
    claim.alive = tmp_path / ".alive"
    claim.alive.symlink_to(tmp_path / "target")
    claim.touch()
    assert (tmp_path / "target").stat().st_mtime_ns == before


async def test_a_claim_that_somebody_deleted_is_lost(
    storage: ExchangeStorage, claims: Callable[..., Claims], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RENEWALS", 50)
    await enqueue(storage)
    claim = await claims().take()
    assert claim is not None
    await storage.delete(RESULTS, claim.name, lease=claim.lease)
    async with asyncio.timeout(10):
        await claim.wait_lost()
    assert claim.lost
    assert not await claim.give_back()


async def test_a_claim_that_could_not_be_renewed_in_time_is_lost_for_good(
    storage: ExchangeStorage, claims: Callable[..., Claims], monkeypatch: pytest.MonkeyPatch
) -> None:
    await enqueue(storage)
    claim = await claims().take()
    assert claim is not None
    now = module.clock()
    monkeypatch.setattr(module, "clock", lambda: now + LEASE_SECONDS * 0.9)
    assert claim.lost
    monkeypatch.setattr(module, "clock", lambda: now)
    assert claim.lost
    async with asyncio.timeout(1):
        await claim.wait_lost()


async def test_a_released_claim_stays_for_the_scheduler_without_a_lease(
    storage: ExchangeStorage, claims: Callable[..., Claims]
) -> None:
    stem = await enqueue(storage)
    claim = await claims().take()
    assert claim is not None
    await claim.release()
    info = await claim_info(storage, stem)
    assert info is not None
    assert info.lease is LeaseState.FREE


async def test_what_is_given_back_is_in_the_queue_as_the_next_attempt(
    storage: ExchangeStorage, claims: Callable[..., Claims]
) -> None:
    stem = await enqueue(storage)
    claim = await claims().take()
    assert claim is not None
    assert await claim.give_back()
    assert await claim_info(storage, stem) is None
    root = await storage.stat(QUEUE, package_name(stem))
    assert root is not None
    said = PackageMeta.from_metadata(root.metadata)
    assert said == replace(claim.package, attempt=2, nonce=None, worker=None)
    again = await claims("other").take()
    assert again is not None
    assert again.package.attempt == 2


async def test_a_newer_package_in_the_queue_is_not_touched_by_giving_back(
    storage: ExchangeStorage, claims: Callable[..., Claims]
) -> None:
    stem = await enqueue(storage)
    claim = await claims().take()
    assert claim is not None
    data = make_tar(stem, {"params.json": b"newer"})
    await enqueue(storage, stem, data=data, meta=package_meta(data, attempt=5))
    await claim.give_back()
    assert await read_blob(storage, package_name(stem), QUEUE) == data
    assert await claim_info(storage, stem) is None


async def test_a_restart_takes_its_own_claim_up_again_and_nobody_elses(
    storage: ExchangeStorage, claims: Callable[..., Claims]
) -> None:
    stem = await enqueue(storage)
    claim = await claims().take()
    assert claim is not None
    await claim.stop()
    other = "11111111-1111-4111-8111-111111111111"
    assert await claims().adopt(stem, claim.nonce, other) is None
    adopted = await claims().adopt(stem, claim.nonce, claim.lease)
    assert adopted is not None
    assert adopted.package == claim.package
    await adopted.release()
    assert await claims().adopt(stem, "another nonce", other) is None
    info = await claim_info(storage, stem)
    assert info is not None
    assert info.lease is LeaseState.FREE
    assert await claims().adopt(new_stem(), claim.nonce, other) is None


# --- crashes ---


async def listed(storage: ExchangeStorage, stem: str) -> BlobInfo:
    [info] = [info async for info in storage.list(QUEUE, root_only=True) if info.name == package_name(stem)]
    return info


async def test_a_package_replaced_since_it_was_listed_is_not_claimed_as_what_it_was(
    exchange: Exchange, claims: Callable[..., Claims]
) -> None:
    storage = exchange.storage
    stem = await enqueue(storage)
    seen = await listed(storage, stem)
    data = make_tar(stem, note="another")
    meta = package_meta(data, attempt=2).to_metadata()
    await storage.write(QUEUE, package_name(stem), data, metadata=meta)
    assert await claims("w")._claim(stem, seen) is None
    assert (await listed(storage, stem)).lease is LeaseState.FREE
    claim = await claims("w").take()
    assert claim is not None
    assert claim.package.attempt == 2
    await claim.stop()


async def one_crash(
    exchange: Exchange, at: int, *, acted: bool, claims: Callable[..., Claims]
) -> tuple[bool, str]:
    """Claim with a worker that dies at its `at`-th call; whether it died, and the stem."""
    storage = exchange.storage
    stem = await enqueue(storage)
    crashing = CrashingStorage(storage, at, acted=acted)
    claimer = claims("dying", crashing)
    try:
        claim = await claimer._claim(stem, await listed(storage, stem))
    except Crash:
        return True, stem
    assert claim is not None
    await claim.stop()
    return False, stem


@pytest.mark.parametrize("acted", [False, True], ids=["before", "after"])
async def test_wherever_a_claiming_worker_dies_the_package_is_claimed_once_more_and_whole(
    exchange: Exchange, claims: Callable[..., Claims], acted: bool
) -> None:
    storage = exchange.storage
    crashed = []
    for at in range(1, 20):
        died, stem = await one_crash(exchange, at, acted=acted, claims=claims)
        crashed.append(stem)
        if not died:
            break
    assert len(crashed) == 5  # lease, copy, lease, delete, and one that lived
    for stem in crashed:
        await exchange.lapse(QUEUE, package_name(stem))
        await exchange.lapse(RESULTS, claim_name(stem))
        await recover(storage, stem)
    assert await names_in(storage, QUEUE) == sorted(package_name(stem) for stem in crashed)
    again = [await claims("healthy").take() for _ in crashed]
    assert sorted(claim.stem for claim in again if claim) == sorted(crashed)
    assert await claims("healthy").take() is None
    for claim in again:
        assert claim is not None
        assert claim.package.uid == "a" * 32
        assert claim.package.worker == "healthy"
        assert await read_blob(storage, claim.name) == make_tar(claim.stem)


@pytest.mark.parametrize("acted", [False, True], ids=["before", "after"])
async def test_wherever_a_worker_dies_giving_back_the_package_is_in_the_queue_once(
    exchange: Exchange, claims: Callable[..., Claims], acted: bool
) -> None:
    storage = exchange.storage
    stems = []
    for at in range(1, 10):
        stem = await enqueue(storage)
        stems.append(stem)
        claim = await claims("dying")._claim(stem, await listed(storage, stem))
        assert claim is not None
        await claim.stop()
        crashing = CrashingStorage(storage, at, acted=acted)
        claim._storage = crashing  # type: ignore[assignment]
        try:
            await claim.give_back()
        except Crash:
            continue
        break
    assert len(stems) > 2
    for stem in stems:
        await exchange.lapse(RESULTS, claim_name(stem))
        await recover(storage, stem)
    again = [await claims("healthy").take() for _ in stems]
    assert {claim.package.attempt for claim in again if claim} == {2}
    assert sorted(claim.stem for claim in again if claim) == sorted(stems)


@pytest.mark.parametrize("acted", [False, True], ids=["before", "after"])
async def test_wherever_a_committing_worker_dies_one_result_counts_and_its_sidecar_vouches_for_it(
    exchange: Exchange, claims: Callable[..., Claims], tmp_path: Path, acted: bool
) -> None:
    storage = exchange.storage
    stems: list[str] = []
    for at in range(1, 12):
        stem = await enqueue(storage)
        stems.append(stem)
        claim = await claims("dying")._claim(stem, await listed(storage, stem))
        assert claim is not None
        await claim.stop()
        crashing = CrashingStorage(storage, at, acted=acted)
        try:
            await committed(Commit(crashing, claim), stem, archive(tmp_path, "first"))  # type: ignore[arg-type]
        except Crash:
            continue
        break
    assert len(stems) > 2
    done = set()
    for stem in stems:
        await exchange.lapse(RESULTS, claim_name(stem))
        if not await recover(storage, stem):
            done.add(stem)
    assert done
    while (claim := await claims("healthy").take()) is not None:
        assert claim.package.attempt == 2
        await committed(Commit(storage, claim), claim.stem, archive(tmp_path, "second"))
    for stem in stems:
        sidecar = await sidecar_of(storage, stem)
        assert sidecar is not None
        assert sidecar.attempt == (1 if stem in done else 2)
        info = await storage.stat(RESULTS, result_name(stem, Ending.COMPLETE))
        assert info is not None
        assert info.metadata["sha256"] == sidecar.result_sha256
        assert info.metadata["nonce"] == sidecar.nonce


# --- conflicts of a commit ---


async def test_a_late_worker_does_not_replace_what_a_later_attempt_has_committed(
    exchange: Exchange, claims: Callable[..., Claims], tmp_path: Path
) -> None:
    storage = exchange.storage
    stem = await enqueue(storage)
    late = await claims("late").take()
    assert late is not None
    await late.stop()
    await exchange.lapse(RESULTS, claim_name(stem))
    await recover(storage, stem)
    prompt = await claims("prompt").take()
    assert prompt is not None
    package = await committed(Commit(storage, prompt), stem, archive(tmp_path, "second"))
    for look_first in (False, True):
        with pytest.raises(Overtaken):
            await committed(Commit(storage, late, look_first=look_first), stem, archive(tmp_path, "late"))
    sidecar = await sidecar_of(storage, stem)
    assert sidecar is not None
    assert (sidecar.attempt, sidecar.nonce) == (2, prompt.nonce)
    info = await storage.stat(RESULTS, package.name)
    assert info is not None
    assert info.etag == package.etag
    assert not await late.give_back()


@pytest.mark.parametrize(
    "mark",
    [{}, {"uid": "b" * 32, "attempt": "9", "nonce": "x"}, {"uid": "a" * 32, "attempt": "1", "nonce": "x"}],
    ids=["unmarked", "another job's", "an earlier attempt's"],
)
async def test_what_does_not_count_is_replaced(
    storage: ExchangeStorage, claims: Callable[..., Claims], tmp_path: Path, mark: dict[str, str]
) -> None:
    stem = new_stem()
    data = make_tar(stem)
    await enqueue(storage, stem, data=data, meta=package_meta(data, attempt=2))
    for name in (result_name(stem, Ending.COMPLETE), sidecar_name(stem, Ending.COMPLETE)):
        await storage.write(RESULTS, name, b"older", metadata=mark)
    claim = await claims().take()
    assert claim is not None
    for look_first in (False, True):
        package = await committed(
            Commit(storage, claim, look_first=look_first), stem, archive(tmp_path, f"new {look_first}")
        )
        info = await storage.stat(RESULTS, package.name)
        assert info is not None
        assert (info.size, info.etag) == (package.size, package.etag)


async def test_another_run_of_the_same_attempt_keeps_its_place(
    storage: ExchangeStorage, claims: Callable[..., Claims], tmp_path: Path
) -> None:
    stem = await enqueue(storage)
    claim = await claims().take()
    assert claim is not None
    mark = {"uid": "a" * 32, "attempt": "1", "nonce": "another"}
    await storage.write(RESULTS, result_name(stem, Ending.COMPLETE), b"theirs", metadata=mark)
    with pytest.raises(Overtaken):
        await committed(Commit(storage, claim), stem, archive(tmp_path))
    assert await read_blob(storage, result_name(stem, Ending.COMPLETE)) == b"theirs"


# --- lost replies and outages (HAZARDS H1), on the one storage that has a network ---


@pytest.mark.parametrize(
    "pattern",
    [
        r"^PUT \S*-queue/\S*comp=lease",
        r"^PUT \S*-results/claimed\S*\.tar HTTP",
        r"^PUT \S*-results/claimed\S*comp=lease",
        r"^HEAD \S*-results/claimed",
        r"^DELETE \S*-queue/",
    ],
)
async def test_a_lost_reply_leaves_one_winner_who_knows_it(
    azurite: Azurite, unique: str, pattern: str
) -> None:
    async with (
        FaultProxy(("127.0.0.1", azurite.port), "http") as proxy,
        azurite_exchange(azurite, unique, port=proxy.port) as exchange,
    ):
        stem = await enqueue(exchange.storage)
        fault = proxy.drop_reply(pattern)
        claim = await Claims(exchange.storage, "w", LEASE_SECONDS).take()
        assert fault.hits == 1
        assert claim is not None
        assert claim.stem == stem
        assert await names_in(exchange.storage, QUEUE) == []
        await claim.release()


@pytest.mark.parametrize("pattern", [r"^PUT \S*\.zip", r"^PUT \S*metadata\.json"])
async def test_a_commit_whose_reply_was_lost_counts_once(
    azurite: Azurite, unique: str, tmp_path: Path, pattern: str
) -> None:
    async with (
        FaultProxy(("127.0.0.1", azurite.port), "http") as proxy,
        azurite_exchange(azurite, unique, port=proxy.port) as exchange,
    ):
        stem = await enqueue(exchange.storage)
        claim = await Claims(exchange.storage, "w", LEASE_SECONDS).take()
        assert claim is not None
        fault = proxy.drop_reply(pattern)
        package = await committed(Commit(exchange.storage, claim), stem, archive(tmp_path))
        assert fault.hits == 1
        info = await exchange.storage.stat(RESULTS, package.name)
        assert info is not None
        assert (info.etag, info.size) == (package.etag, package.size)
        assert await sidecar_of(exchange.storage, stem) is not None
        await claim.release()


async def test_an_outage_during_the_commit_is_waited_out_as_long_as_the_claim_is_held(
    azurite: Azurite, unique: str, tmp_path: Path
) -> None:
    async with (
        FaultProxy(("127.0.0.1", azurite.port), "http") as proxy,
        azurite_exchange(azurite, unique, port=proxy.port) as exchange,
    ):
        stem = await enqueue(exchange.storage)
        claim = await Claims(exchange.storage, "w", LEASE_SECONDS).take()
        assert claim is not None
        await proxy.refuse()
        committing = asyncio.create_task(
            committed(Commit(exchange.storage, claim), stem, archive(tmp_path)), name="commit"
        )
        done, _ = await asyncio.wait({committing}, timeout=2)
        assert not done
        await proxy.accept()
        async with asyncio.timeout(LEASE_SECONDS):
            await committing
        assert not claim.lost
        await claim.release()


async def test_a_worker_cut_off_from_storage_knows_in_time_that_its_claim_is_lost(
    azurite: Azurite, unique: str, tmp_path: Path
) -> None:
    async with (
        FaultProxy(("127.0.0.1", azurite.port), "http") as proxy,
        azurite_exchange(azurite, unique, port=proxy.port) as exchange,
    ):
        stem = await enqueue(exchange.storage)
        claim = await Claims(exchange.storage, "w", LEASE_SECONDS).take()
        assert claim is not None
        began = module.clock()
        await proxy.refuse()
        committing = asyncio.create_task(
            committed(Commit(exchange.storage, claim), stem, archive(tmp_path)), name="commit"
        )
        async with asyncio.timeout(LEASE_SECONDS):
            await claim.wait_lost()
        assert module.clock() - began < LEASE_SECONDS
        await asyncio.wait({committing}, timeout=30)
        with pytest.raises(Unavailable):
            committing.result()
        await claim.stop()
        await proxy.accept()
