"""The OpenAPI document, its page, and the metrics."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012
from typer.testing import CliRunner

from aioanalysis.api import openapi
from aioanalysis.api.app import ENDPOINTS
from aioanalysis.api.context import Gauge
from aioanalysis.api.events import HUB, RETRY_MILLISECONDS
from aioanalysis.cli import app
from aioanalysis.domain.dependencies import Dependency
from aioanalysis.domain.exchange import Container, attempt_name, package_name, progress_name
from aioanalysis.domain.frames import Attempt, Frame
from aioanalysis.domain.job import Split
from aioanalysis.domain.outcomes import JobError, Reason
from aioanalysis.domain.progress import Progress
from aioanalysis.domain.records import Selection
from aioanalysis.domain.states import State
from aioanalysis.domain.usage import Usage
from aioanalysis.errors import Unavailable
from aioanalysis.interfaces import JobProgress
from aioanalysis.storage.directory import DirectoryStorage
from tests.support.apiserver import Api, make_zip, open_api
from tests.support.events import listening

DOCUMENT = openapi.document(ENDPOINTS)


def fits(value: Any, schema: dict[str, Any]) -> None:
    """`value` has nothing but what the schema of the document tells."""
    resource = Resource.from_contents(DOCUMENT, default_specification=DRAFT202012)
    whole = {"$ref": f"urn:api{schema['$ref']}"}
    registry = Registry().with_resource("urn:api", resource)
    Draft202012Validator(whole, registry=registry).validate(value)
    name = schema["$ref"].rpartition("/")[2]
    assert set(value) <= set(DOCUMENT["components"]["schemas"][name]["properties"])


def schema_of(path: str, method: str, status: int) -> dict[str, Any]:
    [content] = DOCUMENT["paths"][path][method]["responses"][str(status)]["content"].values()
    schema: dict[str, Any] = content["schema"]
    return schema


def test_every_endpoint_is_in_the_document() -> None:
    told = {(path, method.upper()) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert told | {("/openapi.json", "GET"), ("/docs", "GET")} == {(e.path, e.method) for e in ENDPOINTS}
    ids = [one["operationId"] for methods in DOCUMENT["paths"].values() for one in methods.values()]
    assert len(ids) == len(set(ids))


def test_every_schema_is_a_schema_and_every_reference_leads_somewhere() -> None:
    text = str(DOCUMENT)
    for name in re.findall(r"#/components/schemas/(\w+)", text):
        assert name in DOCUMENT["components"]["schemas"]
    for schema in DOCUMENT["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


async def test_answers_are_what_the_document_tells(api: Api) -> None:
    usage = Usage.from_json({"samples": 1, "series": [{"at": "2026-01-01T00:00:00+00:00"}]})
    failed = await api.add_job(
        state=State.FAILED,
        error=JobError(reason=Reason.STAGE, message="m", script="1_a.sh", error="x"),
        usage=usage,
        selection=Selection(mode="include", ids=frozenset({"a"})),
    )
    complete = await api.complete_job(make_zip({"job.log": b""}))
    over = Attempt(number=1, ending="failed", usage=usage)
    framed = await api.add_job(
        title="noop",
        params={},
        frames=(Frame(number=1, params={"a": 1}), Frame(number=2, attempts=(over,))),
        after=(Dependency(job=complete.id),),
        split=Split(by="x"),
    )
    running = await api.add_job(state=State.RUNNING)
    name = attempt_name(f"{complete.title}.{complete.id}", 1, ".failed.zip")
    await api.storage.write(Container.RESULTS, name, b"zip", metadata={"uid": complete.uid})
    told = json.dumps({"usage": usage.to_json()}).encode()
    name = progress_name(f"{running.title}.{running.id}")
    await api.storage.write(Container.RESULTS, name, told, metadata={"uid": running.uid})
    await api.storage.write(Container.QUEUE, package_name(f"noop.{failed.id}"), b"tar")
    for path, kind in (
        ("/v1/jobs", "/v1/jobs"),
        (f"/v1/jobs/{failed.id}", "/v1/jobs/{id}"),
        (f"/v1/jobs/{complete.id}", "/v1/jobs/{id}"),
        (f"/v1/jobs/{complete.id}/files", "/v1/jobs/{id}/files"),
        (f"/v1/jobs/{framed.id}", "/v1/jobs/{id}"),
        (f"/v1/jobs/{framed.id}/frames", "/v1/jobs/{id}/frames"),
        (f"/v1/jobs/{framed.id}/frames/2", "/v1/jobs/{id}/frames/{number}"),
        ("/v1/methods", "/v1/methods"),
        ("/v1/methods/noop", "/v1/methods/{title}"),
        ("/v1/packages?container=queue", "/v1/packages"),
        ("/v1/workers", "/v1/workers"),
        ("/v1/statistics", "/v1/statistics"),
        ("/v1/orphans", "/v1/orphans"),
        (f"/v1/jobs/{complete.id}/attempts", "/v1/jobs/{id}/attempts"),
        (f"/v1/jobs/{running.id}/usage", "/v1/jobs/{id}/usage"),
        ("/healthz", "/healthz"),
        ("/readyz", "/readyz"),
    ):
        reply = await api.get(path, by="root")
        assert reply.status == 200
        fits(reply.json(), schema_of(kind, "get", 200))
    posted = await api.call("POST", "/v1/jobs", json={"title": "noop", "recordset": "D"})
    fits(posted.json(), schema_of("/v1/jobs", "post", 201))
    path = f"/v1/jobs/{framed.id}/actions"
    acted = await api.call("POST", f"{path}/block?when=now")
    fits(acted.json(), schema_of("/v1/jobs/{id}/actions/{action}", "post", 200))
    again = await api.call("POST", f"{path}/resubmit", json={"split": None})
    fits(again.json(), schema_of("/v1/jobs/{id}/actions/resubmit", "post", 201))
    many = await api.call("POST", "/v1/actions/interrupt", json={"state": ["all"]})
    fits(many.json(), schema_of("/v1/actions/{action}", "post", 200))
    for body, status in ((b"{", 400), (b"{}", 422), (b'{"title": "noop", "recordset": 1}', 422)):
        headers = {"Content-Type": "application/json"}
        reply = await api.call("POST", "/v1/jobs", data=body, headers=headers)
        assert reply.status == status
        fits(reply.json(), schema_of("/v1/jobs", "post", status))


async def test_the_stream_of_events_answers_as_the_document_says(api: Api) -> None:
    told = DOCUMENT["paths"]["/v1/events"]["get"]
    assert [parameter["name"] for parameter in told["parameters"]] == ["Last-Event-ID"]
    place = {"Last-Event-ID": (await api.parts.events.newest())}
    others = [{"Last-Event-ID": odd} for odd in ("0-1", "", "x", "-1", "9" * 400, "5-5-5", "1-", "\xff")]
    plain = [
        (by, method, headers)
        for by in ("ann", "root")
        for method in ("GET", "HEAD")
        for headers in ({}, place)
    ]
    odd = [("ann", "GET", headers) for headers in others]
    ways: list[tuple[str | None, str, dict[str, str]]] = [
        *plain,
        *odd,
        (None, "GET", {}),
        (None, "GET", {"Authorization": "Bearer nobody's"}),
        ("ann", "GET", {"X-API-Key": "another"}),
        ("ann", "GET", {"If-None-Match": "*"}),
        ("ann", "GET", {"Range": "bytes=0-1"}),
    ]
    seen = {status for by, method, headers in ways for status in [await answered(api, by, method, headers)]}
    api.app[HUB].stopping = True
    seen.add(await answered(api, "ann", "GET", {}))
    assert seen == {"200", "401", "503"}


async def answered(api: Api, by: str | None, method: str, headers: dict[str, str]) -> str:
    """The status of one call of /v1/events, which is as its document says."""
    key = {"Authorization": f"Bearer {api.keys[by]}"} if by else {}
    async with api.session.request(method, f"{api.url}/v1/events", headers={**key, **headers}) as reply:
        responses = DOCUMENT["paths"]["/v1/events"]["get"]["responses"]
        [kind] = responses[str(reply.status)]["content"]
        assert reply.headers["Content-Type"].partition(";")[0] == kind, headers
        if reply.status == 200:
            assert reply.headers["Cache-Control"] == "no-store"
            first = await reply.content.readline()
            assert first == (b"" if method == "HEAD" else f"retry: {RETRY_MILLISECONDS}\n".encode()), headers
        else:
            fits(await reply.json(content_type=kind), schema_of("/v1/events", "get", reply.status))
            assert "Retry-After" in reply.headers or reply.status != 503
        return str(reply.status)


async def test_events_are_named_and_made_as_the_document_says(api: Api) -> None:
    text = DOCUMENT["paths"]["/v1/events"]["get"]["description"]
    async with listening(api, "ann") as events:
        job = await api.add_job(state=State.RUNNING)
        at = datetime.now(UTC)
        progress = Progress(attempt=1, stage=2, stages=5, name="2_x.py", message=None, fraction=None, at=at)
        news = JobProgress(job=job.id, submitter="ann", title=job.title, frame=None, progress=progress)
        await api.parts.progress.post([news])
        heard = dict([await events.next() for _ in range(2)])
    async with listening(api, "ann", "unheard-of") as lost:
        name, _ = await lost.next()
    assert {*heard, name} == {"job", "progress", "reset"}
    assert all(
        f"`{told}`" in text
        for told in (*heard, name, "kind", "stage", "stages", "name", "message", "fraction")
    )
    assert heard["job"]["kind"] == "created"
    assert {"stage", "stages", "name", "message", "fraction"} <= heard["progress"].keys()


async def test_the_document_and_its_page_are_open_and_need_nothing_from_elsewhere(api: Api) -> None:
    assert (await api.get("/openapi.json", by=None)).json() == DOCUMENT
    page = await api.get("/docs", by=None)
    text = page.body.decode()
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert "<script" not in text
    assert "://" not in text
    for path in DOCUMENT["paths"]:
        assert path in text


def test_the_command_prints_the_same_document() -> None:
    assert json.loads(CliRunner().invoke(app, ["openapi"]).stdout) == DOCUMENT


async def test_requests_are_counted_by_route_and_never_by_address(api: Api) -> None:
    job = await api.complete_job(b"x" * 1000)
    for _ in range(3):
        await api.get(f"/v1/jobs/{job.id}")
    await api.get(f"/v1/jobs/{job.id}/result")
    await api.get("/wp-admin/x")
    await api.call("BREW", "/v1/jobs")
    reply = await api.get("/metrics", by=None)
    assert reply.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    text = reply.body.decode()
    lines = text.splitlines()
    assert 'aioanalysis_http_requests_total{method="GET",route="/v1/jobs/{id}",status="200"} 3' in lines
    assert 'aioanalysis_http_requests_total{method="none",route="none",status="404"} 1' in lines
    assert "aioanalysis_http_sent_bytes_total 1000" in lines
    assert 'aioanalysis_http_request_seconds_count{route="/v1/jobs/{id}"} 3' in lines
    assert "aioanalysis_http_downloads 0" in lines
    assert not {job.id, "wp-admin", "BREW"} & set(re.findall(r"[\w-]+", text))
    for line in lines:
        assert re.fullmatch(r"# (HELP|TYPE) \w+ .+|\w+(\{(\w+=\"[^\"]*\",?)+\})? [0-9.e+-]+", line), line
    families = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(families) == len(set(families))


async def test_figures_of_other_parts_are_shown_and_their_failure_hides_nothing(
    redis_url: str, unique: str, tmp_path: Path
) -> None:
    async def gauges() -> list[Gauge]:
        if away:
            raise Unavailable("away")
        return [Gauge("jobs", 4, "Jobs by state.", {"state": 'odd"\\\n'})]

    away = False
    storage = DirectoryStorage(tmp_path / "blobs")
    await storage.prepare()
    async with open_api(storage, redis_url=redis_url, prefix=unique, folder=tmp_path, gauges=gauges) as api:
        assert 'aioanalysis_jobs{state="odd\\"\\\\\\n"} 4\n' in (await api.get("/metrics")).body.decode()
        away = True
        assert "aioanalysis_http_downloads 0" in (await api.get("/metrics")).body.decode()
