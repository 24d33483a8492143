"""What lives on beside single requests: events, a growing log, sessions, signed links, sign-ins."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from aioanalysis.api import following
from aioanalysis.api.events import HUB, QUEUE_LENGTH
from aioanalysis.api.links import LINKS, LinkRequest, signed
from aioanalysis.api.signin import COOKIE, FAILURES, Failures
from aioanalysis.domain.exchange import Container, progress_log_name
from aioanalysis.domain.frames import Frame
from aioanalysis.domain.job import Job
from aioanalysis.domain.outlook import Outlook
from aioanalysis.domain.progress import Progress
from aioanalysis.domain.states import State
from aioanalysis.interfaces import JobEvent, JobProgress
from aioanalysis.storage.directory import DirectoryStorage
from tests.support.apiserver import Api, make_zip, open_api, stem_of
from tests.support.events import Events, listening
from tests.support.jobs import make_tombstone
from tests.support.waiting import eventually


async def finished(api: Api, job: Job, state: State = State.COMPLETE) -> Job:
    return await api.parts.store.replace(replace(job, state=state, frames=(Frame(phase=state),)))


# --- events ---


async def test_listeners_hear_of_the_jobs_that_they_may_see(api: Api) -> None:
    async with listening(api, "ann") as ann, listening(api, "root") as root:
        theirs = await api.add_job(submitter="ben")
        job = await api.add_job()
        await finished(api, job)
        heard = [await ann.next() for _ in range(2)]
        assert [(name, one["kind"], one["job"], one["state"]) for name, one in heard] == [
            ("job", "created", job.id, "waiting"),
            ("job", "changed", job.id, "complete"),
        ]
        assert [(await root.next())[1]["job"] for _ in range(3)] == [theirs.id, job.id, job.id]
        await api.call("DELETE", f"/v1/jobs/{job.id}")
        assert (await ann.next())[1]["kind"] == "removed"


async def test_a_listener_that_comes_back_misses_nothing_and_hears_nothing_twice(api: Api) -> None:
    async with listening(api, "ann") as events:
        await api.add_job()
        await events.next()
    jobs = [await api.add_job() for _ in range(5)]
    async with listening(api, "ann", events.id) as again:
        jobs.append(await api.add_job())
        assert [(await again.next())[1]["job"] for _ in jobs] == [job.id for job in jobs]


async def test_a_silent_stream_gives_signs_of_life(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aioanalysis.api.events.HEARTBEAT_SECONDS", 0.05)
    headers = {"Authorization": f"Bearer {api.keys['ann']}"}
    async with api.session.get(f"{api.url}/v1/events", headers=headers) as response, asyncio.timeout(10):
        beats = 0
        while beats < 3:
            beats += await response.content.readline() == b":\n"


async def test_another_process_tells_the_same_events(
    api: Api, redis_url: str, unique: str, tmp_path: Path
) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    async with (
        open_api(api.storage, redis_url=redis_url, prefix=unique, folder=folder) as other,
        listening(other, "ann") as events,
    ):
        job = await api.add_job()
        assert (await events.next())[1]["job"] == job.id


@pytest.mark.parametrize("since", ["99999999999999-0", "1-1", "rubbish", "99999999999999999999999-0"])
async def test_a_place_that_is_not_kept_is_told_by_a_reset(api: Api, unique: str, since: str) -> None:
    async with listening(api, "ann") as heard:
        first = await api.add_job()
        await api.add_job()
        for _ in range(2):  # the service itself misses none of what is trimmed
            await heard.next()
    await api.parts.client.xtrim(f"{unique}:events", maxlen=1, approximate=False)
    async with listening(api, "ann", since) as events:
        assert (await events.next())[0] == "reset"
        await finished(api, first)
        assert (await events.next())[1]["job"] == first.id


async def test_a_stream_that_was_lost_is_told_by_a_reset_to_who_listens_and_to_who_comes_back(
    api: Api, unique: str
) -> None:
    async with listening(api, "ann") as events:
        await api.add_job()
        await events.next()
        await api.parts.client.delete(f"{unique}:events")  # as by a Redis that came back without its data
        job = await api.add_job()
        assert (await events.next())[0] == "reset"
        await finished(api, job)
        assert (await events.next())[1]["state"] == "complete"
        place = events.id
    await api.parts.client.delete(f"{unique}:events")
    job = await api.add_job()
    async with listening(api, "ann", place) as again:
        assert (await again.next())[0] == "reset"
        await finished(api, job)
        assert (await again.next())[1]["job"] == job.id


async def test_a_listener_too_slow_is_told_to_begin_anew_and_holds_up_nobody(api: Api) -> None:
    hub = api.app[HUB]
    async with listening(api, "ann") as slow, listening(api, "root") as other:
        [one] = [listener for listener in hub._listeners if listener.user.name == "ann"]
        for number in range(QUEUE_LENGTH + 10):  # more than it can take before it runs again
            one.give(
                JobEvent(id=f"1-{number}", kind="changed", job="j", submitter="ann", title="t", state="s")
            )
        assert one.lost
        assert (await slow.next())[0] == "reset"
        job = await api.add_job()
        assert (await slow.next())[1]["job"] == job.id
        assert (await other.next())[1]["job"] == job.id


async def test_many_listeners_share_one_connection(api: Api) -> None:
    async def hear() -> str:
        async with listening(api, "ann") as events:
            waiting.append(1)
            return str((await events.next(30))[1]["job"])

    waiting: list[int] = []
    before = len(await api.parts.client.client_list())
    tasks = [asyncio.create_task(hear()) for _ in range(60)]
    await eventually(lambda: len(waiting) == 60, within=30)
    assert len(await api.parts.client.client_list()) < before + 35
    job = await api.add_job()
    assert set(await asyncio.gather(*tasks)) == {job.id}


def progress_of(job: Job, stage: int, **changes: Any) -> JobProgress:
    at = datetime(2026, 10, 1, 12, tzinfo=UTC)
    told = {"attempt": 1, "name": "2_x.py", "message": "tree 1", "fraction": 0.5, "stages": 5, **changes}
    return JobProgress(
        job=job.id,
        submitter=job.submitter,
        title=job.title,
        frame=None,
        progress=Progress(stage=stage, at=at, **told),
    )


async def test_progress_is_told_to_those_that_may_see_the_job_and_has_no_place(api: Api) -> None:
    async with listening(api, "ann") as ann, listening(api, "root") as root:
        job, theirs = await api.add_job(), await api.add_job(submitter="ben")
        assert (await ann.next())[0] == "job"
        place = ann.id
        await api.parts.progress.post([progress_of(theirs, 1), progress_of(job, 2)])
        name, data = await ann.next()
        assert name == "progress"
        assert data == {
            "id": job.id,
            "title": job.title,
            "frame": None,
            "stage": 2,
            "stages": 5,
            "name": "2_x.py",
            "message": "tree 1",
            "fraction": 0.5,
            "at": "2026-10-01T12:00:00.000Z",
        }
        assert ann.id == place
        heard = [await root.next() for _ in range(4)]
        assert sorted(name for name, _ in heard) == ["job", "job", "progress", "progress"]
        assert {one.get("submitter") for _, one in heard} == {"ann", "ben"}
    more = await api.add_job()
    async with listening(api, "ann", place) as again:
        assert (await again.next())[1]["job"] == more.id


async def test_another_process_tells_the_same_progress(
    api: Api, redis_url: str, unique: str, tmp_path: Path
) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    job = await api.add_job()
    async with (
        open_api(api.storage, redis_url=redis_url, prefix=unique, folder=folder) as other,
        listening(other, "ann") as there,
        listening(api, "ann") as here,
    ):
        await api.parts.progress.post([progress_of(job, 3)])
        assert [(await one.next())[1]["stage"] for one in (here, there)] == [3, 3]


async def test_a_slow_listener_loses_progress_before_it_loses_changes(api: Api) -> None:
    job = await api.add_job()
    async with listening(api, "ann") as events:
        [listener] = api.app[HUB]._listeners
        for stage in range(QUEUE_LENGTH * 2):
            listener.inform(progress_of(job, stage))
        assert not listener.lost
        await finished(api, job)
        stages = [(await events.next())[1]["stage"] for _ in range(QUEUE_LENGTH // 2)]
        assert stages == list(range(QUEUE_LENGTH // 2))
        assert (await events.next())[1]["state"] == "complete"


async def test_a_running_job_tells_its_stage(api: Api) -> None:
    job, waiting = await api.add_job(state=State.RUNNING), await api.add_job()
    await api.parts.progress.post([progress_of(job, 3), progress_of(waiting, 1)])
    text = "Running stage 3 of 5, 50% done: tree 1."
    assert (await api.get(f"/v1/jobs/{job.id}")).json()["why"]["text"] == text
    why = {one["id"]: one["why"]["text"] for one in (await api.get("/v1/jobs")).json()["jobs"]}
    assert why[job.id] == text
    assert "stage" not in why[waiting.id]
    await api.parts.progress.post([progress_of(job, 4, attempt=2)])  # of a run that is not this one
    assert (await api.get(f"/v1/jobs/{job.id}")).json()["why"]["text"] == "A worker has it."


# --- the log ---


async def test_the_log_is_followed_to_the_end_of_the_job(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "POLL_SECONDS", 0.05)
    job = await api.add_job(state=State.RUNNING)
    name = progress_log_name(stem_of(job))

    async def write(text: bytes) -> None:
        await api.storage.write(Container.RESULTS, name, text, metadata={"uid": job.uid})

    await write(b"one\n")
    headers = {"Authorization": f"Bearer {api.keys['ann']}"}
    async with api.session.get(f"{api.url}/v1/jobs/{job.id}/log?follow=true", headers=headers) as response:
        assert await response.content.readline() == b"one\n"
        await write(b"one\ntwo\n")
        assert await response.content.readline() == b"two\n"
        await api.add_result(job, make_zip({"job.log": b"one\ntwo\nthree\n"}))
        await finished(api, job)
        assert await response.content.read() == b"three\n"
    assert (await api.get(f"/v1/jobs/{job.id}/log?follow=perhaps")).status == 422


def test_what_is_new_of_a_text_is_found_when_its_beginning_has_gone() -> None:
    text = b"".join(b"%d\n" % number for number in range(5000))
    assert following.fresh(b"", b"abc") == b"abc"
    assert following.fresh(text[:8000], text[6000:9000]) == text[8000:9000]
    assert following.fresh(text[:2000], text[9000:9100]) == following.GAP + text[9000:9100]


# --- sessions ---


async def test_output_is_followed_no_longer_than_the_session_lasts(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "POLL_SECONDS", 0.05)
    monkeypatch.setattr(following, "CHECK_SECONDS", 0.2)
    job = await api.add_job(state=State.RUNNING)
    await api.storage.write(
        Container.RESULTS, progress_log_name(stem_of(job)), b"line", metadata={"uid": job.uid, "attempt": "1"}
    )
    signed_in = await api.call("POST", "/v1/session")
    session = {"Cookie": signed_in.headers["Set-Cookie"].split(";")[0]}
    path = f"{api.url}/v1/jobs/{job.id}/log?follow=true"
    async with api.session.get(path, headers=session) as response, asyncio.timeout(30):
        assert await response.content.readexactly(4) == b"line"
        token = {"X-CSRF-Token": signed_in.json()["csrf_token"]}
        await api.call("DELETE", "/v1/session", by=None, headers={**session, **token})
        assert await response.content.read() == b""


async def test_a_stream_of_events_ends_with_its_session_however_much_there_is_to_tell(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aioanalysis.api.events.HEARTBEAT_SECONDS", 0.3)
    signed_in = await api.call("POST", "/v1/session")
    session = {"Cookie": signed_in.headers["Set-Cookie"].split(";")[0]}
    async with api.session.get(f"{api.url}/v1/events", headers=session) as response, asyncio.timeout(30):
        events = Events(response.content)
        await events.placed()
        await api.add_job()
        assert (await events.next())[0] == "job"
        token = {"X-CSRF-Token": signed_in.json()["csrf_token"]}
        await api.call("DELETE", "/v1/session", by=None, headers={**session, **token})
        heard = [await events.next()]
        while heard[-1][0] != "end":  # without a pause, so that there is never a heartbeat
            await api.add_job()
            heard.append(await events.next())


async def test_a_browser_signs_in_with_a_key_and_changes_need_its_token(api: Api, unique: str) -> None:
    signed_in = await api.call("POST", "/v1/session")
    cookie = signed_in.headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    session = {"Cookie": cookie.split(";")[0]}
    token = {"X-CSRF-Token": signed_in.json()["csrf_token"]}
    job = await api.add_job(state=State.COMPLETE)
    assert (await api.get(f"/v1/jobs/{job.id}", by=None, headers=session)).status == 200
    assert (await api.get("/v1/session", by=None, headers=session)).json()["user"] == "ann"
    for wrong in ({}, {"X-CSRF-Token": "x"}, {"X-CSRF-Token": ""}):
        reply = await api.call("DELETE", f"/v1/jobs/{job.id}", by=None, headers={**session, **wrong})
        assert reply.status == 403
    reply = await api.call("DELETE", f"/v1/jobs/{job.id}", by=None, headers={**session, **token})
    assert reply.status == 204
    async for key in api.parts.client.scan_iter(match=f"{unique}:session:*"):
        assert await api.parts.client.ttl(key) > 0
        assert api.keys["ann"] not in await api.parts.client.get(key)
    assert (await api.call("DELETE", "/v1/session", by=None, headers={**session, **token})).status == 204
    assert (await api.get("/v1/jobs", by=None, headers=session)).status == 401
    assert (await api.get("/v1/jobs", by=None, headers={"Cookie": f"{COOKIE}=x"})).status == 401


# --- links ---


async def test_a_link_opens_its_one_file_without_a_key_until_it_expires(api: Api) -> None:
    body = make_zip({"analysis_report.html": b"<p>", "tables/a b.csv": b"1,2"})
    job, other = await api.complete_job(body), await api.complete_job(body)

    async def link(**wanted: Any) -> str:
        reply = await api.call("POST", f"/v1/jobs/{job.id}/links", json=wanted)
        assert reply.status == 200, reply.body
        return str(reply.json()["link"])

    report, table = await link(target="report"), await link(target="file", path="tables/a b.csv")
    assert (await api.get(report, by=None)).body == b"<p>"
    assert (await api.get(table, by=None)).body == b"1,2"
    assert (await api.get(await link(target="result"), by=None)).body == body
    query = report.partition("?")[2]
    for wrong in (
        f"/v1/jobs/{other.id}/report?{query}",
        f"/v1/jobs/{job.id}/result?{query}",
        f"/v1/jobs/{job.id}/report?{query}&frame=1",
        f"/v1/jobs/{job.id}/report?{query}x",
        f"/v1/jobs/{job.id}/report?link=99999999999.{query[-43:]}",
        f"/v1/jobs/{job.id}?{query}",
        f"/v1/jobs?{query}",
        f"/v1/jobs/00000000/report?{query}",
    ):
        assert (await api.get(wrong, by=None)).status == 401, wrong
    assert (await api.call("DELETE", f"/v1/jobs/{job.id}?{query}", by=None)).status == 401
    assert (
        await api.call("POST", f"/v1/jobs/{job.id}/links", by="ben", json={"target": "log"})
    ).status == 404
    for body_ in ({"target": "file"}, {"target": "log", "path": "x"}, {"target": "log", "seconds": 10**6}):
        assert (await api.call("POST", f"/v1/jobs/{job.id}/links", json=body_)).status == 422
    old = signed(api.app[LINKS], job, LinkRequest(target="report"), 1_000_000)
    assert (await api.get(old, by=None)).status == 401


# --- sign-ins ---


async def test_an_address_with_too_many_bad_keys_waits_but_known_keys_go_on(api: Api) -> None:
    api.app[FAILURES]._most = 5
    api.app[FAILURES]._failed.clear()
    assert (await api.get("/v1/jobs")).status == 200
    bad = {"Authorization": "Bearer nobody"}
    assert [(await api.get("/v1/jobs", by=None, headers=bad)).status for _ in range(5)] == [401] * 5
    reply = await api.get("/v1/jobs", by=None, headers=bad)
    assert reply.status == 429
    assert 0 < int(reply.headers["Retry-After"]) <= 60
    assert (await api.get("/v1/jobs", by="ben")).status == 429
    assert (await api.get("/v1/jobs")).status == 200


async def test_behind_a_trusted_proxy_each_client_waits_for_its_own_bad_keys(
    redis_url: str, unique: str, tmp_path: Path
) -> None:
    storage = DirectoryStorage(tmp_path / "blobs")
    await storage.prepare()

    async def bad(api: Api, address: str) -> int:
        headers = {"Authorization": "Bearer nobody", "X-Forwarded-For": address}
        return (await api.get("/v1/jobs", by=None, headers=headers)).status

    for trusted, other in (("127.0.0.1", 401), ("", 429)):
        folder = tmp_path / f"of {trusted}"
        folder.mkdir()
        async with open_api(
            storage,
            redis_url=redis_url,
            prefix=unique,
            folder=folder,
            trusted_proxies=trusted,
            failed_signins_per_minute=3,
        ) as api:
            assert [await bad(api, "198.51.100.1") for _ in range(4)] == [401, 401, 401, 429]
            assert await bad(api, "198.51.100.2") == other


def test_failures_are_forgotten_and_bounded() -> None:
    failures = Failures(2)
    for number in range(10_050):
        failures.failed(f"address {number}", "key")
    assert len(failures._failed) == 10_000


async def test_a_stop_ends_the_streams(api: Api) -> None:
    async with listening(api, "ann") as events:
        api.app[HUB].stop()
        assert (await events.next(3))[0] == "end"
    assert (await api.get("/v1/events")).status == 503


async def test_a_removed_job_is_told_once(api: Api) -> None:
    async with listening(api, "ann") as events:
        job = await api.add_job()
        tombstone = make_tombstone(job)
        await api.parts.store.remove(job, tombstone)
        await api.parts.store.remove(job, tombstone)
        await api.add_job()
        assert [(await events.next())[1]["kind"] for _ in range(3)] == ["created", "removed", "created"]


async def test_a_waiting_job_tells_its_place_and_when_it_may_start(api: Api) -> None:
    job, finished_job = await api.add_job(), await api.add_job(state=State.COMPLETE)
    starts = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=5)
    outlook = Outlook(phase=State.WAITING, position=4, starts=starts, workers=2)
    await api.parts.outlooks.foretell({job.id: outlook, finished_job.id: outlook})
    [listed] = [one for one in (await api.get("/v1/jobs")).json()["jobs"] if one["id"] == job.id]
    for shown in ((await api.get(f"/v1/jobs/{job.id}")).json(), listed):
        assert shown["why"]["position"] == 4
        assert "3 ahead of it" in shown["why"]["text"]
        assert datetime.fromisoformat(shown["why"]["expected_start"]) == starts
        assert shown["why"]["expected_finish"] is None
    assert (await api.get(f"/v1/jobs/{finished_job.id}")).json()["why"] is None
