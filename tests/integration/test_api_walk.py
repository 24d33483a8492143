"""Every route of the OpenAPI document, walked by somebody whose job it is not."""

from __future__ import annotations

from typing import Any

import pytest

from aioanalysis.api import openapi
from aioanalysis.api.app import ENDPOINTS
from aioanalysis.domain.exchange import Container
from aioanalysis.domain.job import Job
from tests.support.apiserver import Api, Reply, make_zip

DOCUMENT = openapi.document(ENDPOINTS)
NOWHERE = "00000000"
BODIES: dict[str, Any] = {
    "/v1/jobs": {"title": "noop", "recordset": "DS-X", "after": ["{id}"]},
    "/v1/jobs/{id}/state": {"state": "failed"},
    "/v1/jobs/{id}/links": {"target": "result"},
    "/v1/jobs/{id}/actions/resubmit": {},
    "/v1/actions/{action}": {"ids": ["{id}"]},
    "/v1/orphans/sweep": {"reasons": ["unknown"]},
}
OPEN = {"/healthz", "/readyz", "/metrics", "/", "/page/{path}"}
"""All that is to be had without a key, beside the document and its page."""
ENDLESS = {"/v1/events"}  # tests/integration/test_api_live.py
VALUES = {
    "title": "noop",
    "path": "analysis_report.html",
    "container": "results",
    "name": "noop.{id}.zip",
    "number": "1",
    "action": "kill",
}
OPERATIONS = [
    (method.upper(), path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
    if path not in ENDLESS
]


async def complete_job(api: Api) -> Job:
    members = {"analysis_report.html": b"<p>secret", "job.log": b"secret"}
    return await api.complete_job(make_zip(members), title="noop", params={})


def filled(value: Any, job_id: str) -> Any:
    if isinstance(value, dict):
        return {name: filled(one, job_id) for name, one in value.items()}
    if isinstance(value, list):
        return [filled(one, job_id) for one in value]
    return value.replace("{id}", job_id) if isinstance(value, str) else value


async def ask(api: Api, method: str, path: str, operation: Any, job_id: str, by: str | None) -> Reply:
    names = {name: filled(value, job_id) for name, value in VALUES.items()}
    body = filled(BODIES.get(path), job_id) if "requestBody" in operation else None
    more = {} if body is None else {"json": body}
    return await api.call(method, path.format(id=job_id, **names), by=by, **more)


async def state_of(api: Api, job: Job) -> tuple[Any, list[str]]:
    stored = await api.parts.store.get(job.id)
    names = [name async for name in api.storage.names(Container.RESULTS)]
    return stored, names


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS)
def test_every_body_that_a_route_takes_is_tried(method: str, path: str, operation: Any) -> None:
    assert ("requestBody" in operation) == (method != "GET" and path in BODIES)


async def test_without_a_key_nothing_is_open_but_what_is_meant_to_be(api: Api) -> None:
    job = await complete_job(api)
    for method, path, operation in OPERATIONS:
        reply = await ask(api, method, path, operation, job.id, None)
        if path in OPEN:
            assert reply.status in {200, 404}, (method, path)
            assert job.id.encode() not in reply.body, (method, path)
        else:
            assert reply.status == 401, (method, path)
    assert not OPEN - {path for _, path, _ in OPERATIONS}


async def test_nobody_learns_of_or_touches_anothers_job_by_any_route(api: Api) -> None:
    job = await complete_job(api)
    before = await state_of(api, job)
    for method, path, operation in OPERATIONS:
        theirs = await ask(api, method, path, operation, job.id, "ben")
        assert theirs.status < 500, (method, path, theirs.body)
        said = theirs.body.replace(b"noop." + job.id.encode(), b"")
        assert b"secret" not in said, (method, path)
        assert b'"submitter":"ann"' not in said, (method, path)
        if "{id}" in path or path.endswith("{name}"):
            nowhere = await ask(api, method, path, operation, NOWHERE, "ben")
            assert theirs.status in {403, 404}, (method, path, theirs.status)
            assert (theirs.status, theirs.body) == (nowhere.status, nowhere.body), (method, path)
        elif method == "GET":
            assert job.id.encode() not in theirs.body, path
        assert await state_of(api, job) == before, (method, path)


async def test_the_walk_would_notice_for_the_owner_gets_through(api: Api) -> None:
    """Otherwise a wrong address would look like a refusal."""
    for method, path, operation in OPERATIONS:
        if method == "GET" and ("{id}" in path or path.endswith("{name}")):
            job = await complete_job(api)
            reply = await ask(api, method, path, operation, job.id, "ann")
            assert reply.status in {200, 404, 409}, (path, reply.status)
            assert b"There is no such job." not in reply.body, path
            assert reply.status == 200 or "{id}" in path, path


async def test_the_bodies_tried_are_good_ones(api: Api) -> None:
    """Otherwise a refused body would look like a refused caller."""
    for method, path, operation in OPERATIONS:
        if path in BODIES and method != "GET":
            job = await complete_job(api)
            reply = await ask(api, method, path, operation, job.id, "system")
            assert reply.status in {200, 201}, (path, reply.body)
