"""Control over HTTP, with a real Redis and a directory as storage: submission, actions, frames, their zip."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import shutil
import zipfile
import zlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from aioanalysis.domain.exchange import Container, Ending, RunMark, result_name, sidecar_name
from aioanalysis.domain.frames import Attempt, Frame, Hold, Part, aggregate
from aioanalysis.domain.job import FRAMES_MAX, Job, Source, Split
from aioanalysis.domain.outcomes import JobError, Reason
from aioanalysis.domain.states import Action, State, answer
from aioanalysis.domain.usage import Usage
from aioanalysis.interfaces import ExchangeStorage
from aioanalysis.storage.directory import DirectoryStorage
from tests.support.apiserver import Api, make_zip, open_api
from tests.support.storages import AzureBackend

GOOD = {"title": "slow", "recordset": "DS-ONE"}
FAILURE = JobError(reason=Reason.STAGE, message="container exited with code 3", script="3_x.py", error="no")
CONTROL = ("block", "unblock", "interrupt", "suspend", "kill", "retry")


@pytest.fixture
async def storage(
    request: pytest.FixtureRequest, tmp_path: Path, unique: str
) -> AsyncIterator[ExchangeStorage]:
    """A directory; Azurite for a test that asks for it."""
    if getattr(request, "param", "directory") == "directory":
        directory = DirectoryStorage(tmp_path / "blobs")
        await directory.prepare()
        yield directory
        return
    backend = AzureBackend(request.getfixturevalue("azurite"), unique)
    await backend.create()
    async with backend.connect() as azure:
        yield azure


@pytest.fixture
async def api(storage: ExchangeStorage, redis_url: str, unique: str, tmp_path: Path) -> AsyncIterator[Api]:
    async with open_api(storage, redis_url=redis_url, prefix=unique, folder=tmp_path) as api:
        yield api


async def post(api: Api, path: str, body: Any = None, *, by: str = "ann", **more: Any) -> Any:
    return await api.call("POST", path, by=by, **({} if body is None else {"json": body}), **more)


async def submitted(api: Api, by: str = "ann", **fields: Any) -> Any:
    reply = await post(api, "/v1/jobs", {**GOOD, **fields}, by=by)
    assert reply.status == 201, reply.body
    return reply.json()


def pointers(reply: Any) -> list[str]:
    assert reply.status == 422, reply
    return [error.get("pointer", error.get("parameter")) for error in reply.json()["errors"]]


def framed(*phases: State, **changes: Any) -> dict[str, Any]:
    """The fields of a job with frames in these phases."""
    frames = tuple(
        Frame(
            number=number,
            params={"seconds": number},
            phase=phase,
            error=FAILURE if phase is State.FAILED else None,
            holds=frozenset({Hold.USER}) if phase is State.BLOCKED else frozenset(),
        )
        for number, phase in enumerate(phases, start=1)
    )
    return {"title": "slow", "params": {}, "frames": frames, "state": aggregate(frames), **changes}


# --- submission ---


async def test_a_job_with_frames_retries_and_a_hold_is_shown_as_asked_for(api: Api) -> None:
    frames = [{"seconds": 1}, {}, {"seconds": 3}]
    job = await submitted(api, params={"seconds": 2}, frames=frames, retries=10, hold=True)
    assert job["state"] == "blocked"
    assert job["frames"] == {"total": 3, "by_state": {"blocked": 3}}
    assert (job["retries"], job["holds"], job["after"], job["split"]) == (10, ["user"], [], None)
    assert job["attempts"] == []
    assert job["why"]["code"] == "held"
    assert job["actions"] == ["block", "block_now", "unblock", "kill", "resubmit", "remove"]
    listed = (await api.get(f"/v1/jobs/{job['id']}/frames")).json()
    assert [frame["params"] for frame in listed["frames"]] == frames
    assert listed["total"] == 3


@pytest.mark.parametrize("split", [{"records": 100}, {"by": "species"}])
async def test_a_job_that_is_to_be_split_has_no_frames_yet(api: Api, split: dict[str, Any]) -> None:
    job = await submitted(api, split=split)
    assert job["split"] == {"records": None, "by": None} | split
    assert job["frames"] is None
    assert (await api.get(f"/v1/jobs/{job['id']}/frames")).json() == {
        "total": 0,
        "frames": [],
        "cursor": None,
    }


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"frames": []}, "/frames"),
        ({"frames": [{}] * (FRAMES_MAX + 1)}, "/frames"),
        ({"frames": [{}, {"seconds": -1}]}, "/frames/1/seconds"),
        ({"frames": [{}, {"other": 1}]}, "/frames/1"),
        ({"params": {"seconds": -1}, "frames": [{}, {"seconds": 1}]}, "/params/seconds"),
        ({"frames": [1]}, "/frames/0"),
        ({"frames": [{}], "split": {"records": 1}}, ""),
        ({"split": {}}, "/split"),
        ({"split": {"records": 0}}, "/split/records"),
        ({"split": {"records": 1, "by": "x"}}, "/split"),
        ({"retries": 11}, "/retries"),
        ({"retries": True}, "/retries"),
        ({"hold": 1}, "/hold"),
        ({"after": ["00000000"]}, "/after/0"),
        ({"after": ["../../x"]}, "/after/0/job"),
        ({"after": [{"job": "00000000", "when": "soon"}]}, "/after/0/when"),
        ({"after": [{}]}, "/after/0/job"),
        ({"after": ["00000000"] * 101}, "/after"),
    ],
)
async def test_what_cannot_be_is_refused_where_it_stands(
    api: Api, fields: dict[str, Any], pointer: str
) -> None:
    assert pointer in pointers(await post(api, "/v1/jobs", {**GOOD, **fields}))
    assert (await api.get("/v1/jobs")).json()["jobs"] == []


async def test_a_job_waits_for_jobs_that_its_submitter_may_see(api: Api) -> None:
    first = await submitted(api)
    wanted = [first["id"], {"job": first["id"], "when": "failed", "each": True}]
    job = await submitted(api, after=wanted)
    assert job["state"] == "blocked"
    assert job["why"]["code"] == "dependency"
    assert job["after"] == [
        {"job": first["id"], "when": "complete", "each": False, "seen": None},
        {"job": first["id"], "when": "failed", "each": True, "seen": None},
    ]
    foreign = await post(api, "/v1/jobs", {**GOOD, "after": wanted}, by="ben")
    assert pointers(foreign) == ["/after/0", "/after/1"]
    assert (await submitted(api, by="root", after=wanted))["submitter"] == "root"


async def test_ended_runs_are_told_with_all_that_is_known(api: Api) -> None:
    usage = Usage.from_json({"samples": 2, "wall_seconds": 1.5})
    over = Attempt(
        number=1,
        ending="failed",
        started_at="2026-01-01T00:00:00+00:00",
        finished_at="2026-01-01T00:00:02+00:00",
        host="lab",
        exit_code=3,
        error=FAILURE,
        usage=usage,
    )
    job = await api.add_job(attempts=(over,), attempt=2, retried=1, retries=3)
    [told] = (await api.get(f"/v1/jobs/{job.id}")).json()["attempts"]
    assert (told["attempt"], told["ending"], told["host"], told["exit_code"]) == (1, "failed", "lab", 3)
    assert (told["started_at"], told["finished_at"]) == ("2026-01-01T00:00:00Z", "2026-01-01T00:00:02Z")
    assert told["error"]["script"] == "3_x.py"
    assert told["usage"]["wall_seconds"] == 1.5


# --- actions ---


def in_state(state: State) -> dict[str, Any]:
    """Fields of a job of one package that is shown in this state; failing needs frames."""
    plain: dict[str, Any] = {"title": "slow", "params": {}}
    if state is State.FAILING:
        return framed(State.FAILED, State.RUNNING, State.BLOCKED, State.WAITING)
    if state is State.RETRYING:
        return {**plain, "state": state, "retried": 1}
    held = {"holds": frozenset({Hold.USER})} if state is State.BLOCKED else {}
    return {**plain, "state": state, "error": FAILURE if state is State.FAILED else None, **held}


@pytest.mark.parametrize("state", list(State))
async def test_every_action_in_every_state_is_answered_as_the_table_says(api: Api, state: State) -> None:
    for action in (*CONTROL, "block?when=now"):
        job = await api.add_job(**in_state(state))
        row = Action.BLOCK_NOW if "?" in action else Action(action)
        reply = await post(api, f"/v1/jobs/{job.id}/actions/{action}")
        cell = answer(state, row)
        if cell == "phase":
            cell = answer(State.RUNNING, row)
        if cell == "409":
            problem = reply.json()
            assert (reply.status, problem["state"]) == (409, state.value)
            assert action not in problem["allowed"]
            assert set((await api.get(f"/v1/jobs/{job.id}")).json()["actions"]) <= set(problem["allowed"])
            continue
        assert reply.status == 200, (state, action, reply.body)
        shown = reply.json()
        assert shown == (await api.get(f"/v1/jobs/{job.id}")).json()
        assert (shown["history"][-1]["event"], shown["history"][-1]["by"]) == (row.value, "ann")
        if cell not in {"agg", "held", "."}:
            again = state is State.RETRYING and cell == "waiting"  # as it was retried before
            assert shown["state"] == ("retrying" if again else cell)
        elif state is not State.FAILING:
            assert shown["state"] == state.value


async def test_what_is_allowed_is_what_works(api: Api) -> None:
    for state in State:
        job = await api.add_job(**in_state(state))
        for action in (await api.get(f"/v1/jobs/{job.id}")).json()["actions"]:
            twin = await api.add_job(**in_state(state))
            path = f"/v1/jobs/{twin.id}"
            if action == "remove":
                reply = await api.call("DELETE", path)
            else:
                reply = await post(api, f"{path}/actions/{action.replace('block_now', 'block?when=now')}")
            assert reply.status in {200, 201, 204}, (state, action, reply.body)


async def test_of_a_job_with_frames_those_that_failed_are_retried_or_all(api: Api) -> None:
    job = await api.add_job(**framed(State.COMPLETE, State.FAILED))
    again = (await post(api, f"/v1/jobs/{job.id}/actions/retry")).json()
    assert again["frames"]["by_state"] == {"complete": 1, "waiting": 1}
    job = await api.add_job(**framed(State.COMPLETE, State.FAILED))
    every = (await post(api, f"/v1/jobs/{job.id}/actions/retry?all=true")).json()
    assert every["frames"]["by_state"] == {"waiting": 2}


async def test_an_action_is_the_owners_or_an_administrators(api: Api) -> None:
    job = await api.add_job()
    for action in (*CONTROL, "resubmit"):
        assert (await post(api, f"/v1/jobs/{job.id}/actions/{action}", by="ben")).status == 404
    for path in ("frames", "frames/1"):
        assert (await api.get(f"/v1/jobs/{job.id}/{path}", by="ben")).status == 404
    assert (await post(api, f"/v1/jobs/{job.id}/actions/kill", by="root")).json()["state"] == "killed"


async def test_an_action_that_there_is_not_or_that_is_meant_otherwise_is_refused(api: Api) -> None:
    job = await api.add_job()
    for action in ("remove", "force", "override", "block_now", "dance", "Block"):
        assert (await post(api, f"/v1/jobs/{job.id}/actions/{action}")).status == 404
        assert (await post(api, f"/v1/actions/{action}", {"ids": [job.id]})).status == 404
    assert pointers(await post(api, f"/v1/jobs/{job.id}/actions/kill?when=now")) == ["when"]
    assert pointers(await post(api, f"/v1/jobs/{job.id}/actions/block?when=later")) == ["when"]
    assert pointers(await post(api, f"/v1/jobs/{job.id}/actions/block?all=true")) == ["all"]
    assert (await post(api, "/v1/jobs/00000000/actions/kill")).status == 404


# --- resubmission ---


async def test_a_resubmitted_job_is_the_callers_with_the_changes_asked_for(api: Api) -> None:
    old = await submitted(
        api, params={"seconds": 1}, frames=[{}, {"seconds": 2}], tags=["a"], retries=2, hold=True,
        selection={"exclude": ["P1"]}, record_count=7,
    )  # fmt: skip
    reply = await post(api, f"/v1/jobs/{old['id']}/actions/resubmit", by="root")
    assert reply.status == 201
    new = reply.json()
    assert reply.headers["Location"] == f"/v1/jobs/{new['id']}"
    assert (new["resubmitted_from"], new["submitter"], new["state"]) == (old["id"], "root", "waiting")
    assert await api.parts.store.key(new["id"]) == api.keys["root"]
    for field in ("title", "params", "recordset", "tags", "retries", "selection", "record_count"):
        assert new[field] == old[field]
    assert new["frames"]["total"] == 2
    changes = {"set_token": "tok", "split": {"records": 5}, "params": {}, "selection": None, "retries": 0}
    other = (await post(api, f"/v1/jobs/{old['id']}/actions/resubmit", changes)).json()
    assert (other["recordset"], other["set_token"], other["record_count"]) == (None, "tok", None)
    assert (other["split"], other["frames"], other["params"]) == ({"records": 5, "by": None}, None, {})
    assert (other["selection"], other["retries"], other["tags"]) == (None, 0, ["a"])


async def test_a_repeated_resubmission_gives_the_same_job_though_the_old_one_has_changed(api: Api) -> None:
    first = await submitted(api)
    old = await submitted(api, after=[first["id"]])
    path, key = f"/v1/jobs/{old['id']}/actions/resubmit", {"Idempotency-Key": "again"}
    changes = {"tags": ["b"]}
    new = (await post(api, path, changes, headers=key)).json()
    assert [one["job"] for one in new["after"]] == [first["id"]]
    await post(api, f"/v1/jobs/{old['id']}/actions/unblock")
    repeated = await post(api, path, changes, headers=key)
    assert (repeated.status, repeated.json()["id"]) == (201, new["id"])
    assert (await post(api, path, {"tags": ["c"]}, headers=key)).status == 422
    assert (await post(api, f"/v1/jobs/{first['id']}/actions/resubmit", changes, headers=key)).status == 422
    assert (await post(api, path, changes, headers={"Idempotency-Key": "other"})).json()["id"] != new["id"]
    assert (await post(api, path, changes, headers=key, by="root")).json()["id"] != new["id"]
    await api.call("DELETE", f"/v1/jobs/{new['id']}")
    gone = await post(api, path, changes, headers=key)
    assert (gone.status, "has been removed" in gone.json()["detail"]) == (409, True)


async def test_a_change_that_cannot_be_makes_no_job(api: Api) -> None:
    old = await submitted(api, params={"seconds": 1})
    path = f"/v1/jobs/{old['id']}/actions/resubmit"
    assert pointers(await post(api, path, {"params": {"seconds": -1}})) == ["/params/seconds"]
    assert pointers(await post(api, path, {"title": "nothing_like_it"})) == ["/title"]
    assert pointers(await post(api, path, {"owner": "ben"})) == ["/owner"]
    assert pointers(await post(api, path, {"recordset": None})) == [""]
    assert len((await api.get("/v1/jobs")).json()["jobs"]) == 1


async def test_what_a_job_still_waits_for_its_twin_waits_for_as_well(api: Api) -> None:
    parent = await submitted(api)
    old = await submitted(api, after=[{"job": parent["id"], "when": "finished"}])
    path = f"/v1/jobs/{old['id']}/actions/resubmit"
    assert (await post(api, path)).json()["after"] == old["after"]
    await post(api, f"/v1/jobs/{old['id']}/actions/unblock")
    assert (await post(api, path)).json()["after"] == []


# --- many jobs ---


async def test_an_action_on_many_tells_the_outcome_of_each(api: Api) -> None:
    mine, done = await api.add_job(), await api.add_job(state=State.COMPLETE)
    foreign = await api.add_job(submitter="ben")
    ids = [mine.id, done.id, foreign.id, "00000000"]
    reply = await post(api, "/v1/actions/kill", {"ids": [*ids, mine.id]})
    assert reply.status == 200
    outcomes = reply.json()["outcomes"]
    assert [(one["id"], one["status"], one["state"]) for one in outcomes] == [
        (mine.id, 200, "killed"),
        (done.id, 409, "complete"),
        (foreign.id, 404, None),
        ("00000000", 404, None),
    ]
    assert "resubmit" in outcomes[1]["allowed"]
    assert (await api.parts.store.get(foreign.id)).state is State.WAITING  # type: ignore[union-attr]


async def test_an_action_finds_jobs_as_the_list_does_page_by_page(api: Api) -> None:
    jobs = [await api.add_job() for _ in range(5)]
    await api.add_job(title="other")
    foreign = await api.add_job(submitter="ben")
    wanted: dict[str, Any] = {"state": ["waiting"], "title": jobs[0].title, "limit": 2}
    done: list[str] = []
    while True:
        page = (await post(api, "/v1/actions/kill", wanted)).json()
        assert len(page["outcomes"]) <= 2
        done += [one["id"] for one in page["outcomes"]]
        if page["cursor"] is None:
            break
        wanted["cursor"] = page["cursor"]
    assert sorted(done) == sorted(job.id for job in jobs)
    every = (await post(api, "/v1/actions/block", {"submitter": "ben"}, by="root")).json()
    assert [one["id"] for one in every["outcomes"]] == [foreign.id]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"ids": []}, 422),
        ({"ids": ["00000000"], "state": ["all"]}, 422),
        ({"ids": ["00000000"] * 501}, 422),
        ({"state": ["odd"]}, 422),
        ({"state": ["all"], "limit": 501}, 422),
        ({"state": ["all"], "cursor": "x"}, 422),
        ({"state": ["all"], "since": "yesterday"}, 422),
        ({"state": ["all"], "all": True}, 422),
        ({"submitter": "ben"}, 403),
    ],
)
async def test_an_action_on_many_says_which(api: Api, body: dict[str, Any], status: int) -> None:
    assert (await post(api, "/v1/actions/kill", body)).status == status


# --- frames ---


async def test_frames_are_listed_by_state_and_page(api: Api) -> None:
    phases = [State.COMPLETE, State.FAILED, State.RUNNING, State.FAILED, State.WAITING]
    job = await api.add_job(**framed(*phases))
    path = f"/v1/jobs/{job.id}/frames"
    first = (await api.get(f"{path}?limit=3")).json()
    rest = (await api.get(f"{path}?limit=3&cursor={first['cursor']}")).json()
    assert [frame["state"] for frame in first["frames"] + rest["frames"]] == phases
    assert (first["cursor"], rest["cursor"], first["total"]) == (3, None, 5)
    failed = (await api.get(f"{path}?state=failed&limit=1")).json()
    assert ([frame["number"] for frame in failed["frames"]], failed["cursor"]) == ([2], 2)
    assert failed["frames"][0]["error"]["reason"] == "stage"
    one = (await api.get(f"{path}/1")).json()
    assert (one["params"], one["attempts"]) == ({"seconds": 1}, [])
    assert one["links"]["result"] == f"/v1/jobs/{job.id}/result?frame=1"
    for wrong in ("0", "6", "01x", "9" * 30, "-1", "%D9%A1"):
        assert (await api.get(f"{path}/{wrong}")).status == 404
    for query in ("limit=0", "limit=1001", "cursor=-1", "state=odd", "x=1"):
        assert (await api.get(f"{path}?{query}")).status == 422


async def test_a_thousand_frames_are_told_at_once(api: Api) -> None:
    frames = tuple(
        Frame(number=n, part=Part(start=0, end=1, records=3, value=f"v{n}")) for n in range(1, FRAMES_MAX + 1)
    )
    job = await api.add_job(title="slow", frames=frames, split=Split(by="x"))
    listed = (await api.get(f"/v1/jobs/{job.id}/frames")).json()
    assert [frame["value"] for frame in listed["frames"]] == [f"v{n}" for n in range(1, FRAMES_MAX + 1)]
    assert (listed["cursor"], listed["frames"][0]["records"]) == (None, 3)


# --- results of frames ---


async def add_frame_result(
    api: Api, job: Job, number: int, body: bytes, ending: Ending = Ending.COMPLETE, *, old: bool = False
) -> None:
    """A frame's package and sidecar; `old`: the checksum is in the sidecar only."""
    stem, crc, digest = f"{job.name}-{number}", f"{zlib.crc32(body):08x}", hashlib.sha256(body).hexdigest()
    mark = RunMark(uid=job.uid, attempt=1, nonce="n", sha256=digest, crc32=crc)
    zipped = replace(mark, crc32=None) if old else mark
    for name, data, metadata in (
        (result_name(stem, ending), body, zipped),
        (
            sidecar_name(stem, ending),
            json.dumps({"result": {"size": len(body), "crc32": crc}}).encode(),
            mark,
        ),
    ):
        await api.storage.write(Container.RESULTS, name, data, metadata=metadata.to_metadata())


@cache  # a zip tells the time when it was made
def package_of(number: int) -> bytes:
    members = {"analysis_report.html": f"<p>{number}</p>".encode(), "job.log": b"x" * number * 50}
    return make_zip(members)


async def add_framed_results(api: Api, phases: Sequence[State], *, old: bool = False) -> Job:
    job = await api.add_job(**framed(*phases))
    for number, phase in enumerate(phases, start=1):
        if phase in {State.COMPLETE, State.FAILED}:
            ending = Ending.COMPLETE if phase is State.COMPLETE else Ending.FAILED
            await add_frame_result(api, job, number, package_of(number), ending, old=old)
    return job


@pytest.mark.parametrize("storage", ["directory", "azure"], indirect=True)
@pytest.mark.parametrize("old", [False, True])
async def test_the_result_of_a_job_with_frames_is_one_zip_of_theirs(
    api: Api, tmp_path: Path, old: bool
) -> None:
    job = await add_framed_results(api, [State.COMPLETE] * 12, old=old)
    path = f"/v1/jobs/{job.id}/result"
    whole = await api.get(path)
    assert whole.status == 200
    assert whole.headers["Content-Type"] == "application/zip"
    assert int(whole.headers["Content-Length"]) == len(whole.body)
    assert f"{job.name}.zip" in whole.headers["Content-Disposition"]
    with zipfile.ZipFile(io.BytesIO(whole.body)) as package:
        assert package.testzip() is None
        assert package.namelist() == [f"{job.name}-{n}.zip" for n in range(1, 13)]
        assert [package.read(name) for name in package.namelist()] == [package_of(n) for n in range(1, 13)]
    if shutil.which("unzip"):
        (tmp_path / "all.zip").write_bytes(whole.body)
        unzip = await asyncio.create_subprocess_exec("unzip", "-tqq", tmp_path / "all.zip")
        assert await unzip.wait() == 0
    head = await api.call("HEAD", path)
    assert (head.headers["Content-Length"], head.headers["ETag"]) == (
        whole.headers["Content-Length"],
        whole.headers["ETag"],
    )
    size = len(whole.body)
    for start, end in ((0, 10), (size - 30, size), (100, 101), (37, size - 5), (len(package_of(1)), 900)):
        part = await api.get(path, headers={"Range": f"bytes={start}-{end - 1}"})
        assert part.status == 206
        assert part.body == whole.body[start:end]
        assert part.headers["Content-Range"] == f"bytes {start}-{end - 1}/{size}"
    same = {"If-None-Match": whole.headers["ETag"]}
    assert (await api.get(path, headers=same)).status == 304
    assert (await api.get(path, headers={"Range": f"bytes={size}-"})).status == 416
    assert (await api.get(path, by="ben")).status == 404


async def test_a_range_reads_no_package_that_it_does_not_touch(
    api: Api, storage: DirectoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await add_framed_results(api, [State.COMPLETE] * 5)
    opened: list[tuple[str, int, int | None]] = []
    whole = storage.open

    def watched(container: Container, name: str, **more: Any) -> Any:
        opened.append((name, more.get("start", 0), more.get("end")))
        return whole(container, name, **more)

    monkeypatch.setattr(storage, "open", watched)
    header = 30 + len(f"{job.name}-1.zip")
    await api.get(f"/v1/jobs/{job.id}/result", headers={"Range": f"bytes={header + 5}-{header + 14}"})
    assert opened == [(f"{job.name}-1.zip", 5, 15)]
    await api.call("HEAD", f"/v1/jobs/{job.id}/result")
    assert len(opened) == 1


async def test_the_etag_changes_with_any_package(api: Api) -> None:
    job = await add_framed_results(api, [State.COMPLETE] * 2)
    before = (await api.call("HEAD", f"/v1/jobs/{job.id}/result")).headers["ETag"]
    await add_frame_result(api, job, 2, package_of(9))
    assert (await api.call("HEAD", f"/v1/jobs/{job.id}/result")).headers["ETag"] != before


async def test_a_download_of_all_frames_is_never_put_together_of_two_runs(api: Api) -> None:
    job = await add_framed_results(api, [State.COMPLETE, State.FAILED])
    await add_frame_result(api, job, 2, package_of(2), Ending.FAILED)
    path = f"/v1/jobs/{job.id}/result"
    whole = await api.get(path)
    resume = {"Range": f"bytes={len(whole.body) // 2}-", "If-Range": whole.headers["ETag"]}
    assert (await api.get(path, headers=resume)).status == 206
    assert (await post(api, f"/v1/jobs/{job.id}/actions/retry")).status == 200  # its failed frame
    retried = await api.get(path, headers=resume)
    assert (retried.status, retried.json()["state"]) == (409, "running")
    stored = await api.parts.store.get(job.id)
    assert stored is not None
    both = tuple(replace(frame, phase=State.COMPLETE) for frame in stored.frames)
    await api.parts.store.replace(replace(stored, state=State.COMPLETE, frames=both))
    await add_frame_result(api, job, 2, package_of(7))
    anew = await api.get(path, headers=resume)
    assert anew.status == 200
    with zipfile.ZipFile(io.BytesIO(anew.body)) as package:
        assert [package.read(name) for name in package.namelist()] == [package_of(1), package_of(7)]


async def test_each_frame_has_a_result_report_files_and_log_of_its_own(api: Api) -> None:
    job = await add_framed_results(api, [State.COMPLETE, State.FAILED])
    path = f"/v1/jobs/{job.id}"
    assert (await api.get(f"{path}/result?frame=1")).body == package_of(1)
    assert (await api.get(f"{path}/failed-result?frame=2")).body == package_of(2)
    assert (await api.get(f"{path}/report?frame=1")).body == b"<p>1</p>"
    assert (await api.get(f"{path}/log?frame=2")).body == b"x" * 100
    assert (await api.get(f"{path}/metadata?frame=1")).json()["result"]["size"] == len(package_of(1))
    files = (await api.get(f"{path}/files?frame=1")).json()["files"]
    assert [(await api.get(one["link"])).body for one in files] == [b"<p>1</p>", b"x" * 50]
    assert (await api.get(f"{path}/result?frame=2")).status == 409
    assert (await api.get(f"{path}/result?frame=3")).status == 404
    for name in ("report", "files", "files/job.log", "metadata", "log"):
        assert pointers(await api.get(f"{path}/{name}")) == ["frame"]
    for frame in ("0", "x", "1&frame=2", "01"):
        assert pointers(await api.get(f"{path}/result?frame={frame}")) == ["frame"]
    single = await api.complete_job(package_of(1))
    assert (await api.get(f"/v1/jobs/{single.id}/result?frame=1")).status == 404


async def test_of_a_job_that_failed_the_complete_frames_can_be_had_and_the_others(api: Api) -> None:
    job = await add_framed_results(api, [State.COMPLETE, State.FAILED, State.COMPLETE])
    for name, numbers, suffix in (("result", (1, 3), ".zip"), ("failed-result", (2,), ".failed.zip")):
        reply = await api.get(f"/v1/jobs/{job.id}/{name}")
        with zipfile.ZipFile(io.BytesIO(reply.body)) as package:
            assert package.namelist() == [f"{job.name}-{n}{suffix}" for n in numbers]


async def test_there_is_no_result_before_the_end_nor_without_all_packages(api: Api) -> None:
    failing = await add_framed_results(api, [State.COMPLETE, State.FAILED, State.RUNNING])
    reply = await api.get(f"/v1/jobs/{failing.id}/result")
    assert (reply.status, reply.json()["state"]) == (409, "failing")
    lost = await add_framed_results(api, [State.COMPLETE, State.COMPLETE])
    await api.storage.delete(Container.RESULTS, f"{lost.name}-2.zip")
    assert (await api.get(f"/v1/jobs/{lost.id}/result")).status == 404
    killed = await api.add_job(**framed(State.KILLED))
    assert (await api.get(f"/v1/jobs/{killed.id}/result")).status == 409


async def test_attached_records_are_taken_along(api: Api) -> None:
    operations = api.context.operations
    await operations.attached.add("a" * 32, 0, b"data", size=4)
    source = Source(kind="attached", value="a" * 32)
    old = await api.add_job(title="slow", params={}, source=source, record_count=3)
    path = f"/v1/jobs/{old.id}/actions/resubmit"
    await operations.attached.keep("a" * 32, old.expires_at)
    new = (await post(api, path, {"params": {"seconds": 1}})).json()
    assert (new["attached"], new["record_count"], new["resubmitted_from"]) == (True, 3, old.id)
    once = {"Idempotency-Key": "once"}
    twins = [(await post(api, path, headers=once)).json()["id"] for _ in range(2)]
    assert len(set(twins)) == 1
    kept = await api.parts.store.get(new["id"])
    assert kept is not None
    assert kept.source.value not in {None, source.value}
    assert [chunk async for chunk in operations.attached.chunks(kept.source.value or "")] == [b"data"]
    assert (await post(api, path, {"recordset": "DS-TWO"})).json()["attached"] is False
    await operations.attached.drop("a" * 32)
    assert (await post(api, path)).status == 409
