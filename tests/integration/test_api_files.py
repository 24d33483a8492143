"""Members of packages, sidecars, output, and storage files by their names."""

from __future__ import annotations

import pytest

from aioanalysis.domain.exchange import (
    Container,
    Ending,
    attempt_name,
    claim_name,
    package_name,
    progress_log_name,
    result_name,
    sidecar_name,
)
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
