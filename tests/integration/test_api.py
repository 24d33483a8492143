"""The API over a real Redis and a directory as storage: jobs, methods, health, and every bad input."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
from aiohttp import ClientSession, web
from yarl import URL

from aioanalysis.api.app import ENDPOINTS, LINGERING_SECONDS, create_app
from aioanalysis.api.context import STORE_SECONDS
from aioanalysis.domain.exchange import Container, Ending, package_name, sidecar_name
from aioanalysis.domain.job import Source
from aioanalysis.domain.outcomes import JobError, Reason
from aioanalysis.domain.states import State
from aioanalysis.storage.directory import DirectoryStorage
from tests.support.apiserver import Api, address, make_zip, open_api, stem_of
from tests.support.faultproxy import FaultProxy
from tests.support.jobs import make_job
from tests.support.packages import names_in
from tests.support.servers import RedisServer

GOOD = {"title": "slow", "recordset": "DS-ONE", "params": {"seconds": 1}}


@pytest.fixture
async def storage(tmp_path: Path) -> DirectoryStorage:
    storage = DirectoryStorage(tmp_path / "blobs")
    await storage.prepare()
    return storage


@pytest.fixture
async def api(storage: DirectoryStorage, redis_url: str, unique: str, tmp_path: Path) -> AsyncIterator[Api]:
    async with open_api(storage, redis_url=redis_url, prefix=unique, folder=tmp_path) as api:
        yield api


def is_problem(reply: Any, status: int) -> dict[str, Any]:
    assert reply.status == status, reply
    assert reply.headers["Content-Type"] == "application/problem+json"
    body: dict[str, Any] = reply.json()
    assert body["status"] == status
    assert {"type", "title", "detail"} <= body.keys()
    return body


# --- submission


async def test_a_submitted_job_is_recorded_and_shown(api: Api) -> None:
    wanted = {**GOOD, "selection": {"include": ["P1", "P2"]}, "record_count": 2, "tags": ["trial"]}
    reply = await api.call("POST", "/v1/jobs", json=wanted)
    assert reply.status == 201
    job = reply.json()
    assert reply.headers["Location"] == f"/v1/jobs/{job['id']}"
    assert job["state"] == "waiting"
    assert job["submitter"] == "ann"
    assert job["selection"] == {"include": ["P1", "P2"], "exclude": None}
    assert job["why"]["code"] == "room"
    again = await api.get(reply.headers["Location"])
    assert again.json() == job
    assert await api.parts.store.key(job["id"]) == api.keys["ann"]
    assert api.keys["ann"] not in reply.body.decode() + again.body.decode()


async def test_a_key_is_taken_from_either_header_but_not_two(api: Api) -> None:
    for headers in (
        {"X-API-Key": api.keys["ann"]},
        {"Authorization": f"bearer {api.keys['ann']}"},
        {"Authorization": f"Bearer {api.keys['ann']}", "X-API-Key": api.keys["ann"]},
    ):
        assert (await api.get("/v1/jobs", by=None, headers=headers)).status == 200
    is_problem(await api.get("/v1/jobs", headers={"X-API-Key": api.keys["ben"]}), 401)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer nobody"},
        {"Authorization": "Basic YTpi"},
        {"X-API-Key": ""},
        {"X-API-Key": "x" * 5000},
        {"X-API-Key": "k\xe9y"},
    ],
)
async def test_nobody_gets_in_without_a_key(api: Api, headers: dict[str, str]) -> None:
    for endpoint in ENDPOINTS:
        if endpoint.path.startswith("/v1"):
            path = address(endpoint, "00000000")
            reply = await api.call(endpoint.method, path, by=None, headers=headers)
            is_problem(reply, 401)
            assert reply.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"title": "nothing_like_it"}, "/title"),
        ({"title": "../noop"}, "/title"),
        ({"params": {"seconds": -1}}, "/params/seconds"),
        ({"params": {"seconds": "x"}}, "/params/seconds"),
        ({"params": {"other": 1}}, "/params"),
        ({"recordset": None}, ""),
    ],
)
async def test_a_submission_is_checked_before_anything_is_stored(
    api: Api, change: dict[str, Any], pointer: str
) -> None:
    problem = is_problem(await api.call("POST", "/v1/jobs", json={**GOOD, **change}), 422)
    assert pointer in [error["pointer"] for error in problem["errors"]]
    assert (await api.get("/v1/jobs?state=all")).json()["jobs"] == []


async def test_without_a_methods_directory_any_title_is_taken(
    storage: DirectoryStorage, redis_url: str, unique: str, tmp_path: Path
) -> None:
    async with open_api(
        storage, redis_url=redis_url, prefix=unique, folder=tmp_path, methods_dir=None
    ) as api:
        reply = await api.call("POST", "/v1/jobs", json={**GOOD, "title": "elsewhere"})
        assert reply.status == 201
        assert (await api.get("/v1/methods")).json() == {"methods": [], "unusable": {}}
        is_problem(await api.get("/v1/methods/elsewhere"), 404)


async def test_a_repeat_with_the_same_idempotency_key_gives_the_same_job(api: Api) -> None:
    async def submit(by: str = "ann", key: str = "once", **changes: Any) -> Any:
        headers = {"Idempotency-Key": key}
        return await api.call("POST", "/v1/jobs", by=by, json={**GOOD, **changes}, headers=headers)

    replies = await asyncio.gather(*(submit() for _ in range(10)))
    assert {reply.status for reply in replies} == {201}
    [job_id] = {reply.json()["id"] for reply in replies}
    assert [job["id"] for job in (await api.get("/v1/jobs")).json()["jobs"]] == [job_id]
    is_problem(await submit(tags=["other"]), 422)
    others = [await submit("ben"), await submit(key="twice"), await api.call("POST", "/v1/jobs", json=GOOD)]
    assert len({job_id, *(reply.json()["id"] for reply in others)}) == 4
    for wrong in ("", "x" * 256, "k\xe9y"):
        is_problem(await submit(key=wrong), 400)


async def test_an_idempotency_key_counts_for_a_day(api: Api, unique: str) -> None:
    async def submit() -> Any:
        return await api.call("POST", "/v1/jobs", json=GOOD, headers={"Idempotency-Key": "daily"})

    first = (await submit()).json()["id"]
    [token] = [key async for key in api.parts.client.scan_iter(f"{unique}:token:*")]
    assert 86_390 <= await api.parts.client.ttl(token) <= 86_400
    assert (await submit()).json()["id"] == first
    assert await api.parts.client.ttl(token) <= 86_400
    await api.parts.client.delete(token)  # as after a day
    assert (await submit()).json()["id"] != first


async def test_the_repeat_of_a_removed_submission_is_refused(api: Api) -> None:
    async def submit() -> Any:
        return await api.call("POST", "/v1/jobs", json=GOOD, headers={"Idempotency-Key": "k"})

    await api.call("DELETE", f"/v1/jobs/{(await submit()).json()['id']}")
    is_problem(await submit(), 409)


async def test_a_lost_reply_of_redis_makes_no_second_job(
    redis: RedisServer, storage: DirectoryStorage, unique: str, tmp_path: Path
) -> None:
    async with FaultProxy(("127.0.0.1", redis.port), "redis") as proxy:
        url = redis.through(proxy.port)
        async with open_api(storage, redis_url=url, prefix=unique, folder=tmp_path) as api:
            for pattern in ("^SET ", "^EVALSHA "):
                with proxy.drop_reply(pattern) as fault:
                    headers = {"Idempotency-Key": pattern}
                    reply = await api.call("POST", "/v1/jobs", json=GOOD, headers=headers)
                    again = await api.call("POST", "/v1/jobs", json=GOOD, headers=headers)
                assert fault.hits == 1
                assert reply.status == again.status == 201
                assert reply.json()["id"] == again.json()["id"]
            assert len((await api.get("/v1/jobs")).json()["jobs"]) == 2


async def test_a_submission_rings_the_scheduler(api: Api) -> None:
    await api.parts.bell.wait(0)
    await api.call("POST", "/v1/jobs", json=GOOD)
    assert await api.parts.bell.wait(5)


async def test_a_body_over_the_limit_is_refused_before_it_is_read(api: Api) -> None:
    limit = api.context.settings.body_max_bytes
    head = api.head("POST", "/v1/jobs", "Content-Type: application/json", f"Content-Length: {limit + 1}")
    answered = await first_line(api, head)
    assert b" 413 " in answered


async def test_an_endless_chunked_body_is_refused_at_the_limit(
    storage: DirectoryStorage, redis_url: str, unique: str, tmp_path: Path
) -> None:
    async with open_api(
        storage, redis_url=redis_url, prefix=unique, folder=tmp_path, body_max_bytes=100_000
    ) as api:
        head = api.head("POST", "/v1/jobs", "Content-Type: application/json", "Transfer-Encoding: chunked")
        piece = b"%x\r\n%s\r\n" % (10_000, b" " * 10_000)
        assert b" 413 " in await first_line(api, head + piece * 11)


async def first_line(api: Api, request: bytes) -> bytes:
    """The first line of the answer to a request that is never finished, once the server has given it up."""
    reader, writer = await asyncio.open_connection(api.host, api.port)
    try:
        writer.write(request)
        async with asyncio.timeout(LINGERING_SECONDS + 3):
            line = await reader.readline()
            await reader.read()
        return line
    finally:
        writer.close()


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
        {"Content-Type": "application/json", "Content-Encoding": "br"},
    ],
)
async def test_a_body_of_another_kind_is_a_415(api: Api, headers: dict[str, str]) -> None:
    is_problem(await api.call("POST", "/v1/jobs", data=b"{}", headers=headers), 415)


async def test_a_compressed_bomb_is_not_inflated(api: Api) -> None:
    import gzip

    bomb = gzip.compress(b" " * 50_000_000)
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    is_problem(await api.call("POST", "/v1/jobs", data=bomb, headers=headers), 415)


# --- listing


async def test_pages_follow_one_another_under_new_submissions(api: Api) -> None:
    jobs = [await api.add_job(submitted_at=make_job().submitted_at - timedelta(minutes=n)) for n in range(7)]
    seen = []
    path = "/v1/jobs?limit=3"
    while path:
        page = (await api.get(path)).json()
        seen += [job["id"] for job in page["jobs"]]
        path = page["links"]["next"]
        assert (page["cursor"] is None) == (path is None)
        await api.add_job()
    assert seen == [job.id for job in jobs]


async def test_lists_are_filtered(api: Api) -> None:
    waiting = await api.add_job(title="noop")
    failed = await api.add_job(title="slow", state=State.FAILED)
    complete = await api.add_job(state=State.COMPLETE, source=Source(kind="recordset", value="DS-OTHER"))

    async def listed(query: str) -> set[str]:
        return {job["id"] for job in (await api.get(f"/v1/jobs?{query}")).json()["jobs"]}

    assert await listed("") == await listed("state=all") == {waiting.id, failed.id, complete.id}
    assert await listed("state=waiting&state=failed") == {waiting.id, failed.id}
    assert await listed("title=slow") == {failed.id}
    assert await listed("recordset=DS-OTHER") == {complete.id}
    assert await listed("since=2099-01-01T00:00:00Z") == set()
    assert await listed("limit=500") == {waiting.id, failed.id, complete.id}


@pytest.mark.parametrize(
    "query", ["limit=501", "state=done", "cursor=x", "x=1", "since=1", "limit=1&limit=2"]
)
async def test_a_wrong_query_is_a_422_that_names_the_parameter(api: Api, query: str) -> None:
    problem = is_problem(await api.get(f"/v1/jobs?{query}"), 422)
    assert [error["parameter"] for error in problem["errors"]] == [query.partition("=")[0]]


async def test_users_see_their_own_jobs_and_administrators_all(api: Api) -> None:
    anns, bens = await api.add_job(), await api.add_job(submitter="ben")

    async def listed(by: str, query: str = "") -> set[str]:
        return {job["id"] for job in (await api.get(f"/v1/jobs{query}", by=by)).json()["jobs"]}

    assert await listed("ann") == {anns.id}
    assert await listed("ben") == await listed("ben", "?submitter=ben") == {bens.id}
    assert await listed("root") == await listed("system") == {anns.id, bens.id}
    assert await listed("root", "?submitter=ben") == {bens.id}
    is_problem(await api.get("/v1/jobs?submitter=ann", by="ben"), 403)


async def test_another_s_job_is_absent_on_every_route(api: Api) -> None:
    job = await api.complete_job(b"a package")
    for endpoint in ENDPOINTS:
        if "{id}" not in endpoint.path or endpoint.path.endswith("/state"):
            continue
        path = address(endpoint, job.id)
        theirs = await api.call(endpoint.method, path, by="ben")
        absent = await api.call(endpoint.method, address(endpoint, "zzzzzzzz"), by="ben")
        assert is_problem(theirs, 404) == is_problem(absent, 404)
    assert (await api.get(f"/v1/jobs/{job.id}", by="root")).status == 200


# --- removal and override


@pytest.mark.parametrize("state", State)
async def test_a_job_is_removed_where_the_table_allows_it(api: Api, state: State) -> None:
    job = await api.add_job(state=state)
    reply = await api.call("DELETE", f"/v1/jobs/{job.id}")
    if state in {State.WAITING, State.COMPLETE, State.FAILED, State.BLOCKED, State.KILLED}:
        assert (reply.status, reply.body) == (204, b"")
        is_problem(await api.get(f"/v1/jobs/{job.id}"), 404)
    else:
        problem = is_problem(reply, 409)
        assert problem["state"] == state
        assert "remove" not in problem["allowed"]
        assert "force" in problem["allowed"]
        assert (await api.get(f"/v1/jobs/{job.id}")).status == 200


@pytest.mark.parametrize("by", ["root", "system"])
async def test_force_removes_in_any_state_with_the_queued_package(
    api: Api, storage: DirectoryStorage, by: str
) -> None:
    job = await api.add_job(state=State.QUEUED)
    await storage.write(Container.QUEUE, package_name(stem_of(job)), b"tar", metadata={"uid": job.uid})
    is_problem(await api.call("DELETE", f"/v1/jobs/{job.id}?force=true"), 403)
    assert (await api.call("DELETE", f"/v1/jobs/{job.id}?force=true", by=by)).status == 204
    assert await names_in(storage, Container.QUEUE) == []


async def test_removal_takes_the_result_along(api: Api, storage: DirectoryStorage) -> None:
    job = await api.complete_job(b"a package")
    assert (await api.call("DELETE", f"/v1/jobs/{job.id}")).status == 204
    assert await names_in(storage, Container.RESULTS) == []


@pytest.mark.parametrize("state", State)
async def test_the_system_token_sets_any_state(api: Api, state: State) -> None:
    job = await api.add_job()
    path, body = f"/v1/jobs/{job.id}/state", {"state": state}
    is_problem(await api.call("PUT", path, json=body), 403)
    is_problem(await api.call("PUT", path, json=body, by="root"), 403)
    changed = await api.call("PUT", path, json=body, by="system")
    assert changed.status == 200
    assert changed.json()["state"] == state
    assert changed.json()["history"][-1]["by"] == "system"


# --- methods, health


async def test_methods_are_listed_and_shown(api: Api) -> None:
    listed = (await api.get("/v1/methods")).json()
    titles = [method["title"] for method in listed["methods"]]
    assert {"noop", "slow"} <= set(titles)
    one = (await api.get("/v1/methods/noop")).json()
    assert one == listed["methods"][titles.index("noop")]
    assert one["parameters"]["type"] == "object"
    for title in ("nothing", "..", "%2e%2e%2fetc", "a.b", "x" * 300):
        is_problem(await api.get(f"/v1/methods/{title}"), 404)


async def test_the_process_says_that_it_lives_and_what_it_lacks(api: Api) -> None:
    assert (await api.get("/healthz", by=None)).json() == {"status": "ok"}
    ready = await api.get("/readyz", by=None)
    assert ready.json() == {"status": "ok", "checks": {"job store": "ok", "storage": "ok"}}
    api.ready["storage"] = "account secretname is away"
    reply = await api.get("/readyz", by=None)
    problem = is_problem(reply, 503)
    assert problem["checks"] == {"job store": "ok", "storage": "failing"}
    assert "secretname" not in reply.body.decode()
    assert reply.headers["Retry-After"]


# --- what belongs to every answer


async def test_unknown_addresses_and_methods_are_problems_too(api: Api) -> None:
    for path in (
        "/page",
        "/page/",
        "/v1",
        "/v1/",
        "/v1/jobs/",
        "/v2/jobs",
        "/v1/jobs/00000000/other",
        "/" + "x" * 7000,
    ):
        is_problem(await api.get(path), 404)
    reply = await api.call("PATCH", "/v1/jobs/00000000")
    is_problem(reply, 405)
    assert reply.headers["Allow"] == "DELETE, GET, HEAD"
    is_problem(await api.call("POST", "/healthz"), 405)


async def test_a_request_has_an_id_and_one_line_in_the_log(api: Api) -> None:
    with structlog.testing.capture_logs() as lines:
        reply = await api.get("/v1/jobs?title=noop", headers={"X-Request-ID": "abc-1.2_3"})
        unfit = await api.get("/v1/jobs/nothing", headers={"X-Request-ID": "a b<script>"})
    assert reply.headers["X-Request-ID"] == "abc-1.2_3"
    assert len(unfit.headers["X-Request-ID"]) == 32
    lines = [line for line in lines if line["event"] == "request"]
    assert [(line["status"], line["user"], line["path"]) for line in lines] == [
        (200, "ann", "/v1/jobs"),
        (404, "ann", "/v1/jobs/nothing"),
    ]
    assert api.keys["ann"] not in json.dumps(lines)


async def test_a_fault_of_ours_is_a_500_that_tells_nothing_and_is_logged(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(job_id: str) -> None:
        raise ValueError("sk-internal")

    monkeypatch.setattr(api.parts.glances, "glance", broken)
    with structlog.testing.capture_logs() as lines:
        reply = await api.get("/v1/jobs/00000000")
    is_problem(reply, 500)
    assert b"sk-internal" not in reply.body
    assert [line["event"] for line in lines] == ["request_failed", "request"]
    assert lines[0]["exc_info"]


ENDING = [endpoint for endpoint in ENDPOINTS if endpoint.path != "/v1/events"]
"""Whose answers end by themselves; the stream of events has its tests in test_api_live.py."""


async def test_every_get_answers_head_without_a_body(api: Api) -> None:
    package = make_zip({"analysis_report.html": b"<p>", "job.log": b"done"})
    job = await api.complete_job(package, title="noop")
    await api.storage.write(Container.RESULTS, sidecar_name(stem_of(job), Ending.COMPLETE), b"{}")
    failed = await api.add_job(state=State.FAILED, error=JobError(reason=Reason.STAGE, message="m"))
    await api.add_result(failed, package, Ending.FAILED)
    for endpoint in ENDING:
        if endpoint.method != "GET":
            continue
        used = failed if "failed" in endpoint.path else job
        path = address(endpoint, used.id)
        if endpoint.path == "/v1/packages":
            continue  # for administrators
        both = api.head("HEAD", path, close=False) + api.head("GET", "/healthz")
        answered = await api.raw(both)
        head, _, rest = answered.partition(b"\r\n\r\n")
        assert b"content-length:" in head.lower(), path
        assert rest.startswith(b"HTTP/1.1 200 OK\r\n"), (path, rest[:200])
        assert rest.endswith(b'{"status":"ok"}')


# --- hostile input (HAZARDS H25)

IDS = [
    *("..%2F..%2Fetc", "x%2Fresult", "%00", "%0A", "%0d%0aX-Evil:%201", "..", "%2e%2e", "....", "a\\b"),
    *("%5c..%5c", "ABCDEFGH", "iiiiiiii", "0000000", "000000000", "0000000%00", "%F0%9F%98%80", "%ff%fe"),
    *("%ed%a0%80", "%25%32%46", "'\"<>", "%7B%7D", "x" * 7000, "00000000%0a", "*", "00000000.zip", "%20"),
]
BODIES = [
    *(b"", b"{", b"null", b"[]", b'"x"', b"5", b"\xff\xfe", b'{"a": NaN}', b'{"title": Infinity}', b"1e999"),
    *(b'{"title": "\\ud800"}', b'{"params": {"\\udfff": 1}}', b'{"a": 1, "a": 2}', b"9" * 5000),
    *(
        b"[" * 100_000,
        b'{"params":' * 5000,
        b'{"title": "\\u0000"}',
        b'{"state": "\\u0000"}',
        b'{"state": {}}',
    ),
    b'{"title": "noop", "recordset": "D", "params": {"a": 123456789012345678901234567890}}',
    b'{"title": "noop", "recordset": "D", "selection": {"include": ["\\u0000", "\\n"]}, "x": {}}',
]
QUERIES = [
    "%00",
    "a=%ff",
    "limit=%00",
    "cursor=%F0%9F%98%80",
    "state=%0a",
    "since=%2B",
    "&&&",
    "=",
    "a" * 6000,
]


def spied(api: Api, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is asked of job store and storage from now on."""
    calls: list[str] = []
    for part in (api.parts.store, api.storage):
        for name in ("get", "replace", "remove", "create", "stat", "open", "write", "delete"):
            if hasattr(part, name):

                def refuse(*_: Any, what: str = name, **__: Any) -> Any:
                    calls.append(what)
                    raise AssertionError(f"{what} was called")

                monkeypatch.setattr(part, name, refuse)
    return calls


@pytest.mark.parametrize("job_id", IDS)
async def test_a_malformed_id_is_a_404_that_touches_no_store(
    api: Api, monkeypatch: pytest.MonkeyPatch, job_id: str
) -> None:
    calls = spied(api, monkeypatch)
    for endpoint in ENDPOINTS:
        if "{id}" in endpoint.path:
            path = endpoint.path.replace("{id}", job_id)
            target = api.head(endpoint.method, path, "Content-Length: 0", by="system")
            status = (await api.raw(target)).split(b" ", 2)[1]
            assert status in {b"404", b"405", b"400", b"414"}, (path, status)
    assert calls == []


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
async def test_a_hostile_body_is_a_4xx_that_stores_nothing(
    api: Api, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    job = await api.add_job()
    get = api.parts.store.get
    calls = spied(api, monkeypatch)
    monkeypatch.setattr(api.parts.store, "get", get)
    for endpoint in ENDPOINTS:
        if endpoint.body is None:
            continue
        path = address(endpoint, job.id)
        headers = {"Content-Type": "application/json"}
        reply = await api.call(endpoint.method, path, data=body, headers=headers, by="system")
        assert 400 <= reply.status < 500, reply
        is_problem(reply, reply.status)
    assert calls == []


@pytest.mark.parametrize("query", QUERIES, ids=range(len(QUERIES)))
async def test_a_hostile_query_is_never_a_fault_of_ours(api: Api, query: str) -> None:
    job = await api.add_job()
    for endpoint in ENDING:
        if endpoint.method == "GET":
            path = address(endpoint, job.id)
            assert (await api.get(f"{path}?{query}")).status < 500
    key = {"Authorization": f"Bearer {api.keys['ann']}"}
    events = URL(f"{api.url}/v1/events?{query}", encoded=True)
    async with api.session.get(events, headers=key) as stream:
        assert stream.status < 500


@pytest.mark.parametrize(
    "line",
    [
        *(
            "X-Request-ID: \x80\xff",
            "Authorization: \xe9\xff",
            "Range: bytes=\xff",
            "Content-Type: \xff/\xff",
        ),
        *("If-None-Match: \xff", "If-Range: \xff", "Content-Type: application/json; charset=\xff"),
        *("Content-Encoding: \xff", "Accept: \xff", "Range: bytes=" + "0-1," * 1500),
    ],
)
async def test_hostile_headers_are_never_a_fault_of_ours(api: Api, line: str) -> None:
    job = await api.complete_job(make_zip({"analysis_report.html": b"<p>"}), title="noop")
    for endpoint in ENDING:
        path = address(endpoint, job.id)
        method = "GET" if endpoint.method == "DELETE" else endpoint.method
        request = api.head(method, path, line, "Content-Length: 2", by="system") + b"{}"
        status = int((await api.raw(request)).split(b" ", 2)[1])
        assert status < 500, (path, status)


@pytest.mark.parametrize("value", [b"a\r\nSet-Cookie: x=1", b"a\nX-Evil: 1", b"a\x00b"])
async def test_a_request_id_adds_no_header_line(api: Api, value: bytes) -> None:
    request = api.head("GET", "/healthz").removesuffix(b"\r\n") + b"X-Request-ID: " + value + b"\r\n\r\n"
    head = (await api.raw(request)).partition(b"\r\n\r\n")[0].lower()
    assert b"\r\nset-cookie" not in head
    assert b"\r\nx-evil" not in head


# --- the job store away (H3)


async def test_a_job_store_that_does_not_answer_is_a_503_within_5_s_and_comes_back(
    redis: RedisServer, storage: DirectoryStorage, unique: str, tmp_path: Path
) -> None:
    async with FaultProxy(("127.0.0.1", redis.port)) as proxy:
        url = redis.through(proxy.port)
        async with open_api(storage, redis_url=url, prefix=unique, folder=tmp_path) as api:
            job = await api.add_job()
            ways = [("GET", f"/v1/jobs/{job.id}"), ("GET", "/v1/jobs"), ("DELETE", f"/v1/jobs/{job.id}")]
            for silent in (True, False):
                if silent:
                    proxy.pause()
                else:
                    await proxy.refuse()
                async with asyncio.timeout(STORE_SECONDS + 2):
                    calls = [api.call(method, path) for method, path in ways]
                    replies = await asyncio.gather(*calls, api.call("POST", "/v1/jobs", json=GOOD))
                for reply in replies:
                    is_problem(reply, 503)
                    assert int(reply.headers["Retry-After"]) >= 1
                assert (await api.get("/healthz")).status == 200
                await proxy.heal()
                assert (await api.get(f"/v1/jobs/{job.id}")).status == 200


# --- aiohttp's own ways (H5, H34)


async def test_an_error_after_the_answer_began_cuts_it_and_adds_nothing(api: Api) -> None:
    async def begun(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_length = 100_000
        await response.prepare(request)
        await response.write(b"z" * 50_000)
        raise errors[request.query["kind"]]

    errors: dict[str, Exception] = {
        "http": web.HTTPBadGateway(),
        "plain": ValueError("bug"),
        "time": TimeoutError(),
    }
    app = create_app(api.context)
    app.router.add_get("/begun", begun)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        for kind in errors:
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(f"GET /begun?kind={kind} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            received = bytearray()
            async with asyncio.timeout(5):
                try:
                    while piece := await reader.read(65536):
                        received += piece
                except ConnectionResetError:
                    pass
            writer.close()
            body = bytes(received).partition(b"\r\n\r\n")[2]
            assert len(body) <= 50_000
            assert set(body) <= {ord("z")}
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    "line", ["Authorization: Bearer the-secret\x01", "Authorization: Bearer the-secret" * 900]
)
async def test_what_is_no_http_is_refused_and_not_quoted_in_the_log(
    api: Api, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await api.raw(f"GET /v1/jobs HTTP/1.1\r\nHost: x\r\n{line}\r\n\r\n".encode())
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 "))
    [record] = [record for record in caplog.records if record.name == "aioanalysis.http"]
    assert record.levelname == "WARNING"
    assert record.getMessage() == "Error handling request from 127.0.0.1"
    assert record.exc_info is None
    assert "the-secret" not in caplog.text


async def test_requests_of_one_connection_keep_their_ids_apart(api: Api) -> None:
    async with ClientSession() as session:

        async def one(number: int) -> None:
            headers = {"X-Request-ID": f"id-{number}"}
            async with session.get(f"{api.url}/healthz", headers=headers) as reply:
                assert reply.headers["X-Request-ID"] == f"id-{number}"

        await asyncio.gather(*(one(number) for number in range(50)))
