"""Members of packages, sidecars, output, and storage files by their names."""

from __future__ import annotations

import json
import random
import zipfile

import pytest

from aioanalysis.domain.exchange import (
    Container,
    Ending,
    attempt_name,
    claim_name,
    package_name,
    progress_log_name,
    progress_name,
    result_name,
    sidecar_name,
)
from aioanalysis.domain.frames import Frame
from aioanalysis.domain.job import Job
from aioanalysis.domain.outcomes import JobError, Reason
from aioanalysis.domain.states import State
from tests.support.apiserver import Api, make_zip, stem_of
from tests.support.jobs import make_job

MEMBERS = {
    "analysis_report.html": b"<p>report</p>",
    "job.log": b"stage 1\nstage 5\n",
    "results/table.csv": b"a,b\n1,2\n",
    "results/Münster 1.tsv": b"x\ty\n",
    "results/plot.svg": b"<svg onload='alert(1)'/>",
    "data.bin": bytes(range(256)) * 500,
    "empty.txt": b"",
    "folder/": b"",
}
EVIL = {
    "../outside.txt": b"evil",
    "/etc/passwd": b"evil",
    "a/../../b": b"evil",
    "a\\b.txt": b"evil",
    "a//b": b"evil",
    "./a": b"evil",
    "line\nbreak": b"evil",
    "n" * 10_000: b"evil",
}


async def put(api: Api, name: str, body: bytes, job: Job, container: Container = Container.RESULTS) -> None:
    await api.storage.write(container, name, body, metadata={"uid": job.uid, "attempt": "1"})


@pytest.mark.parametrize("ending", Ending)
async def test_the_files_of_an_ended_job_are_listed_and_each_can_be_had(api: Api, ending: Ending) -> None:
    state = State.COMPLETE if ending is Ending.COMPLETE else State.FAILED
    job = await api.add_job(state=state)
    await api.add_result(job, make_zip(MEMBERS), ending)
    listed = (await api.get(f"/v1/jobs/{job.id}/files")).json()
    assert listed["package"] == result_name(stem_of(job), ending)
    assert [file["path"] for file in listed["files"]] == [name for name in MEMBERS if name != "folder/"]
    for file in listed["files"]:
        reply = await api.get(file["link"])
        assert (reply.status, reply.body) == (200, MEMBERS[file["path"]])
        assert reply.headers["Content-Length"] == str(file["size"])
        assert reply.headers["Content-Type"] == file["media_type"]
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert reply.headers["Content-Security-Policy"].startswith("sandbox;")
        etag = {"If-None-Match": reply.headers["ETag"]}
        assert (await api.get(file["link"], headers=etag)).status == 304


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
async def test_a_range_of_a_member_is_that_part_and_is_resumed_only_where_it_is_the_same(
    api: Api, method: int
) -> None:
    noise = random.Random(1).randbytes(1_000_000)
    job = await api.complete_job(make_zip({"noise.bin": noise, "analysis_report.html": noise}, method=method))
    for path in (f"/v1/jobs/{job.id}/files/noise.bin", f"/v1/jobs/{job.id}/report"):
        etag = (await api.call("HEAD", path)).headers["ETag"]
        for wanted, start, end in (
            ("0-0", 0, 1),
            ("700000-", 700_000, 1_000_000),
            ("300000-700000", 300_000, 700_001),
        ):
            reply = await api.get(path, headers={"Range": f"bytes={wanted}", "If-Range": etag})
            assert (reply.status, reply.body) == (206, noise[start:end])
            assert reply.headers["Content-Range"] == f"bytes {start}-{end - 1}/1000000"
        beyond = await api.get(path, headers={"Range": "bytes=1000000-"})
        assert (beyond.status, beyond.headers["Content-Range"]) == (416, "bytes */1000000")
    await api.add_result(job, make_zip({"noise.bin": noise[::-1], "analysis_report.html": noise[::-1]}))
    changed = await api.get(path, headers={"Range": "bytes=700000-", "If-Range": etag})
    assert (changed.status, changed.body) == (200, noise[::-1])


async def test_the_packages_of_earlier_attempts_are_listed_and_can_be_had_by_their_owner(api: Api) -> None:
    job = await api.add_job(state=State.RUNNING, attempt=4)
    path, stem = f"/v1/jobs/{job.id}/attempts", stem_of(job)
    assert (await api.get(path)).json() == {"packages": []}
    for attempt, suffix in (
        (10, ".zip"),
        (1, ".failed.zip"),
        (2, ".killed.zip"),
        (1, ".failed.metadata.json"),
    ):
        await put(api, attempt_name(stem, attempt, suffix), suffix.encode(), job)
    other = attempt_name(stem, 3, ".failed.zip")
    await api.storage.write(Container.RESULTS, other, b"x", metadata={"uid": "another", "attempt": "3"})
    kept = (await api.get(path)).json()["packages"]
    assert [(one["attempt"], one["ending"]) for one in kept] == [
        (1, "failed"),
        (2, "killed"),
        (10, "complete"),
    ]
    assert (await api.get(kept[1]["link"])).body == b".killed.zip"
    assert kept[1]["size"] == len(b".killed.zip")
    assert (await api.get(path, by="ben")).status == 404
    frames = tuple(Frame(number=n, phase=State.RUNNING) for n in (1, 12))
    many = await api.add_job(frames=frames, state=State.RUNNING)
    await put(api, attempt_name(f"{stem_of(many)}-12", 1, ".failed.zip"), b"x", many)
    assert (await api.get(f"/v1/jobs/{many.id}/attempts")).status == 422
    for frame, count in ((1, 0), (12, 1)):
        assert len((await api.get(f"/v1/jobs/{many.id}/attempts?frame={frame}")).json()["packages"]) == count


async def test_what_a_run_uses_is_told_while_it_lasts_and_then_by_its_sidecar(api: Api) -> None:
    job = await api.add_job(state=State.RUNNING)
    path = f"/v1/jobs/{job.id}/usage"
    assert (await api.get(path)).status == 404
    series = [{"at": "2026-01-01T00:00:00Z", "cpu_percent": None, "memory_bytes": 7}]
    told = {"usage": {"samples": 1, "series": series, "memory_bytes": {"max": 7}}, "limits": {"cpus": 2}}
    await put(api, progress_name(stem_of(job)), json.dumps(told).encode(), job)
    found = (await api.get(path)).json()
    assert (found["usage"]["series"], found["usage"]["wall_seconds"]) == (series, None)
    assert (found["limits"]["cpus"], found["limits"]["memory_bytes"]) == (2, None)
    assert (await api.get(path, by="ben")).status == 404
    older = {"uid": job.uid, "attempt": "7"}
    await api.storage.write(Container.RESULTS, progress_name(stem_of(job)), b"{}", metadata=older)
    assert (await api.get(path)).status == 404
    for body in (b"[]", b'{"usage": 5, "limits": []}', b"{}"):
        ended = await api.add_job(state=State.COMPLETE)
        await put(api, sidecar_name(stem_of(ended), Ending.COMPLETE), body, ended)
        none = (await api.get(f"/v1/jobs/{ended.id}/usage")).json()
        assert (none["usage"], set(none["limits"].values())) == (None, {None})
    await put(api, sidecar_name(stem_of(ended), Ending.COMPLETE), b"no json", ended)
    assert (await api.get(f"/v1/jobs/{ended.id}/usage")).status == 500
    await put(api, sidecar_name(stem_of(ended), Ending.COMPLETE), json.dumps(told).encode(), ended)
    assert (await api.get(f"/v1/jobs/{ended.id}/usage")).json()["usage"]["series"] == series


async def test_only_known_kinds_are_shown_in_the_browser(api: Api) -> None:
    job = await api.complete_job(make_zip(MEMBERS))
    for name, shown in (("data.bin", "attachment"), ("results/table.csv", "inline")):
        reply = await api.get(f"/v1/jobs/{job.id}/files/{name}")
        assert reply.headers["Content-Disposition"].startswith(shown)
    wide = (await api.get(f"/v1/jobs/{job.id}/files/results/M%C3%BCnster%201.tsv")).headers
    assert wide["Content-Disposition"] == (
        "inline; filename=\"M_nster_1.tsv\"; filename*=UTF-8''M%C3%BCnster%201.tsv"
    )


async def test_members_with_names_that_lead_elsewhere_are_neither_listed_nor_served(api: Api) -> None:
    job = await api.complete_job(make_zip({**EVIL, "good.txt": b"good"}))
    listed = (await api.get(f"/v1/jobs/{job.id}/files")).json()
    assert [file["path"] for file in listed["files"]] == ["good.txt"]
    from urllib.parse import quote

    for name in EVIL:
        if len(name) < 5000:
            reply = await api.get(f"/v1/jobs/{job.id}/files/{quote(name, safe='')}")
            assert reply.status == 404
            assert b"evil" not in reply.body


@pytest.mark.parametrize(
    "path",
    [
        *("../report", "%2e%2e/%2e%2e/etc/passwd", "..%2f..%2fresult", "%00", "%2Fetc%2Fpasswd", "results"),
        *("results/", "Job.log", "job.log%00", "job.log/", "a" * 6000, "%ff", "*", "results%5ctable.csv"),
    ],
)
async def test_a_path_is_only_the_name_of_a_member(api: Api, path: str) -> None:
    job = await api.complete_job(make_zip(MEMBERS))
    reply = await api.raw(api.head("GET", f"/v1/jobs/{job.id}/files/{path}"))
    assert reply.split(b" ", 2)[1] == b"404"


async def test_the_sidecar_of_an_ended_job_is_its_metadata(api: Api) -> None:
    job = await api.add_job(state=State.FAILED)
    assert (await api.get(f"/v1/jobs/{job.id}/metadata")).status == 404
    await put(api, sidecar_name(stem_of(job), Ending.FAILED), b'{"error": null}', job)
    reply = await api.get(f"/v1/jobs/{job.id}/metadata")
    assert reply.json() == {"error": None}
    assert reply.headers["Content-Type"] == "application/json"
    running = await api.add_job(state=State.RUNNING)
    assert (await api.get(f"/v1/jobs/{running.id}/metadata")).status == 409


async def test_output_comes_from_the_run_while_it_lasts_and_then_from_the_package(api: Api) -> None:
    running = await api.add_job(state=State.RUNNING)
    assert (await api.get(f"/v1/jobs/{running.id}/log")).status == 404
    await put(api, progress_log_name(stem_of(running)), b"so far", running)
    reply = await api.get(f"/v1/jobs/{running.id}/log")
    assert (reply.status, reply.body) == (200, b"so far")
    assert reply.headers["Content-Type"] == "text/plain; charset=utf-8"
    part = await api.get(f"/v1/jobs/{running.id}/log", headers={"Range": "bytes=3-"})
    assert (part.status, part.body) == (206, b"far")
    complete = await api.complete_job(make_zip(MEMBERS))
    assert (await api.get(f"/v1/jobs/{complete.id}/log")).body == MEMBERS["job.log"]


async def test_a_job_that_failed_by_its_time_limit_and_runs_on_shows_its_output(api: Api) -> None:
    error = JobError(reason=Reason.TIME_LIMIT, message="too late")
    job = await api.add_job(state=State.FAILED, error=error)
    await put(api, progress_log_name(stem_of(job)), b"still going", job)
    assert (await api.get(f"/v1/jobs/{job.id}/log")).body == b"still going"


# --- by storage name ---


async def test_administrators_see_what_is_in_both_containers(api: Api) -> None:
    job = await api.add_job(state=State.QUEUED, submitter="Zoë")
    meta = {"uid": job.uid, "attempt": "2", "owner": "Zo%C3%AB", "sha256": "0" * 64, "nonce": "secret"}
    await api.storage.write(Container.QUEUE, package_name(stem_of(job)), b"tar", metadata=meta)
    for by in ("root", "system"):
        reply = await api.get("/v1/packages?container=queue", by=by)
        [file] = reply.json()["files"]
        assert file["name"] == package_name(stem_of(job))
        assert (file["size"], file["job"], file["attempt"], file["owner"]) == (3, job.id, 2, "Zoë")
        assert not file["held"]
        assert file["modified_at"].endswith("Z")
        assert "secret" not in reply.body.decode()
        assert (await api.get(file["link"], by=by)).body == b"tar"
    assert (await api.get("/v1/packages?container=results", by="root")).json()["files"] == []
    assert (await api.get("/v1/packages")).status == 403
    for query in ("container=other", "prefix=%00", "limit=0", "limit=5001", "nothing=1"):
        assert (await api.get(f"/v1/packages?{query}", by="root")).status == 422


async def test_long_lists_of_files_come_in_pages(api: Api) -> None:
    names = sorted(f"noop.{make_job().id}.zip" for _ in range(7))
    for name in names:
        await api.storage.write(Container.RESULTS, name, b"x")
    await api.storage.write(Container.RESULTS, "workers/w1.json", b"{}")
    seen = []
    path = "/v1/packages?container=results&limit=3&prefix=noop."
    while path:
        page = (await api.get(path, by="root")).json()
        seen += [file["name"] for file in page["files"]]
        path = page["links"]["next"]
        assert len(page["files"]) <= 3
    assert seen == names


async def test_an_owner_gets_the_files_of_the_own_job_and_of_no_other(api: Api) -> None:
    job = await api.add_job(title="noop")
    stem = stem_of(job)
    names = [
        (Container.QUEUE, package_name(stem)),
        (Container.RESULTS, claim_name(stem)),
        (Container.RESULTS, result_name(stem, Ending.COMPLETE)),
        (Container.RESULTS, sidecar_name(stem, Ending.FAILED)),
        (Container.RESULTS, attempt_name(stem, 1, ".failed.zip")),
    ]
    for container, name in names:
        await put(api, name, name.encode(), job, container)
        path = f"/v1/packages/{container}/{name}"
        assert (await api.get(path)).body == name.encode()
        assert (await api.get(path, by="root")).body == name.encode()
        assert (await api.get(path, by="ben")).status == 404
    await api.storage.write(Container.RESULTS, f"{stem}.zip", b"older", metadata={"uid": "another"})
    assert (await api.get(f"/v1/packages/results/{stem}.zip")).status == 404
    await api.storage.write(Container.RESULTS, "workers/w1.json", b"{}")
    assert (await api.get("/v1/packages/results/workers/w1.json")).status == 404
    assert (await api.get("/v1/packages/results/workers/w1.json", by="root")).status == 200


@pytest.mark.parametrize(
    "name",
    [
        *(
            "../queue/x",
            "..%2f..%2fkeys.jsonl",
            "%2fetc%2fpasswd",
            "a/../b",
            "a//b",
            ".hidden",
            "a/.b",
            "%00",
        ),
        *("a%5cb", "a%0ab", "a%20b", "%ff", "x" * 600, "noop.00000000.zip%0d%0aX:%20y", "a/", "~root"),
    ],
)
async def test_a_name_that_is_none_of_ours_touches_no_storage(
    api: Api, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async def stat(*_: object) -> None:
        raise AssertionError("storage was asked")

    monkeypatch.setattr(api.storage, "stat", stat)
    for container in ("queue", "results", "other", "..", "%2e%2e"):
        for by in ("root", "ann"):
            answered = await api.raw(api.head("GET", f"/v1/packages/{container}/{name}", by=by))
            assert answered.split(b" ", 2)[1] == b"404"
