"""The OpenAPI 3.1 document, made from the endpoints and the models that their handlers use; and its page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from html import escape
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from aioanalysis import __version__
from aioanalysis.api.endpoints import Endpoint
from aioanalysis.api.problems import CONTENT_TYPE
from aioanalysis.domain.exchange import Container
from aioanalysis.domain.job import FRAMES_MAX, ID_ALPHABET, ID_LENGTH
from aioanalysis.domain.method import TITLE

PROBLEM_REF: Final = "#/components/schemas/Problem"
ANYWHERE: Final = (500,)
UNDER_KEY: Final = (400, 401, 503)
PARAMETERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "id": {"type": "string", "pattern": f"^[{ID_ALPHABET}]{{{ID_LENGTH}}}$"},
    "title": {"type": "string", "pattern": f"^{TITLE.pattern}$"},
    "container": {"type": "string", "enum": [container.value for container in Container]},
    "number": {"type": "integer", "minimum": 1, "maximum": FRAMES_MAX},
    "action": {"type": "string", "enum": ["block", "unblock", "interrupt", "suspend", "kill", "retry"]},
    "path": {"type": "string", "minLength": 1, "description": "May hold slashes."},
    "name": {"type": "string", "minLength": 1, "description": "May hold slashes."},
}
PROBLEM: Final[Mapping[str, Any]] = {
    "description": "RFC 9457 problem details",
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string", "description": "about:blank, or a urn of this service"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["detail"],
                "properties": {
                    "pointer": {"type": "string", "description": "JSON pointer into the body"},
                    "parameter": {"type": "string", "description": "name in the query"},
                    "detail": {"type": "string"},
                },
            },
        },
        "state": {"type": "string", "description": "the job's present state"},
        "allowed": {"type": "array", "items": {"type": "string"}},
        "checks": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}


def document(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """The whole document; the same for the same endpoints."""
    every = [endpoint for endpoint in endpoints if endpoint.path not in {"/openapi.json", "/docs"}]
    schemas, refs = _schemas(every)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in every:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, refs)
    return {
        "openapi": "3.1.0",
        "info": {"title": "aioanalysis", "version": __version__, "description": _DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": {**schemas, "Problem": PROBLEM},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
    }


_DESCRIPTION: Final = (
    "Jobs of the analysis service. Every GET answers HEAD too. Errors are application/problem+json. "
    "Another user's job is absent (404), never forbidden."
)


def _schemas(endpoints: list[Endpoint]) -> tuple[dict[str, Any], dict[type, str]]:
    wanted: dict[tuple[type[BaseModel], JsonSchemaMode], None] = {}
    for endpoint in endpoints:
        if endpoint.body is not None:
            wanted[endpoint.body, "validation"] = None
        if endpoint.attached is not None:
            wanted[endpoint.attached, "validation"] = None
        if isinstance(endpoint.answer, type):
            wanted[endpoint.answer, "serialization"] = None
    found, whole = models_json_schema(list(wanted), ref_template="#/components/schemas/{model}")
    return whole.get("$defs", {}), {model: schema["$ref"] for (model, _), schema in found.items()}


def _operation(endpoint: Endpoint, refs: Mapping[type, str]) -> dict[str, Any]:
    protected = endpoint.path.startswith("/v1")
    operation: dict[str, Any] = {
        "operationId": _operation_id(endpoint),
        "summary": endpoint.summary,
        "parameters": [
            *_path_parameters(endpoint.path),
            *_query_parameters(endpoint.query),
            *({"name": name, "in": "header", "schema": schema} for name, schema in endpoint.headers.items()),
        ],
        "responses": _responses(endpoint, refs, protected),
    }
    if endpoint.handler.__doc__:
        operation["description"] = " ".join(endpoint.handler.__doc__.split())
    if protected:
        operation["security"] = [{"bearer": []}, {"key": []}]
    if endpoint.body is not None:
        content: dict[str, Any] = {"application/json": {"schema": {"$ref": refs[endpoint.body]}}}
        if endpoint.attached is not None:
            content["multipart/form-data"] = _attached(refs[endpoint.attached])
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _attached(ref: str) -> dict[str, Any]:
    records = {
        "type": "string",
        "contentMediaType": "application/x-ndjson",
        "description": "JSON Lines, plain or gzip; the second part",
    }
    schema = {
        "type": "object",
        "required": ["job", "records"],
        "properties": {"job": {"$ref": ref}, "records": records},
        "additionalProperties": False,
    }
    return {"schema": schema, "encoding": {"job": {"contentType": "application/json"}}}


def _operation_id(endpoint: Endpoint) -> str:
    words = re.findall(r"[a-z]+", endpoint.path.removeprefix("/v1"))
    return "_".join([endpoint.method.lower(), *words])


def _path_parameters(path: str) -> list[dict[str, Any]]:
    names = re.findall(r"\{([a-z]+)\}", path)
    return [{"name": name, "in": "path", "required": True, "schema": PARAMETERS[name]} for name in names]


def _query_parameters(query: type[BaseModel] | None) -> list[dict[str, Any]]:
    if query is None:
        return []
    schema = query.model_json_schema(ref_template="{model}")
    definitions = schema.get("$defs", {})
    found = []
    for name, field in schema["properties"].items():
        flat = _inlined(field, definitions)
        description = flat.pop("description", None)
        parameter = {"name": name, "in": "query", "required": False, "schema": flat}
        found.append({**parameter, **({"description": description} if description else {})})
    return found


def _inlined(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """Definitions put in their place, and null dropped: a query has no null."""
    if isinstance(schema, list):
        return [_inlined(one, definitions) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(definitions[schema["$ref"]], definitions)
    flat = {key: _inlined(value, definitions) for key, value in schema.items() if key != "title"}
    if flat.get("default", 0) is None:
        del flat["default"]
    options = [one for one in flat.get("anyOf", ()) if one != {"type": "null"}]
    if len(options) == 1:
        del flat["anyOf"]
        flat = {**options[0], **flat}
    return flat


def _responses(endpoint: Endpoint, refs: Mapping[type, str], protected: bool) -> dict[str, dict[str, Any]]:
    found = {str(endpoint.status): _good(endpoint, refs)}
    if endpoint.answer is not None and not isinstance(endpoint.answer, type) and protected:
        found["304"] = {"description": "Not Modified"}
        if 416 in endpoint.problems:
            found["206"] = found["200"]
    for status in sorted({*endpoint.problems, *ANYWHERE, *(UNDER_KEY if protected else ())}):
        found[str(status)] = {
            "description": HTTPStatus(status).phrase,
            "content": {CONTENT_TYPE: {"schema": {"$ref": PROBLEM_REF}}},
        }
    return found


def _good(endpoint: Endpoint, refs: Mapping[type, str]) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": HTTPStatus(endpoint.status).phrase}
    if isinstance(endpoint.answer, str):
        answer["content"] = {endpoint.answer: {}}
    elif endpoint.answer is not None:
        answer["content"] = {"application/json": {"schema": {"$ref": refs[endpoint.answer]}}}
    if endpoint.status == HTTPStatus.CREATED:
        answer["headers"] = {"Location": {"required": True, "schema": {"type": "string"}}}
    return answer


def endpoints(others: Iterable[Endpoint]) -> tuple[Endpoint, ...]:
    """The endpoints of the document about `others`, and of its page, which needs nothing from elsewhere."""
    whole = document(others)
    data, html = json.dumps(whole, indent=1).encode(), _page(whole).encode()

    async def show(request: web.Request) -> web.StreamResponse:
        return web.Response(body=data, content_type="application/json")

    async def page(request: web.Request) -> web.StreamResponse:
        policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"
        headers = {"Content-Security-Policy": policy}
        return web.Response(body=html, content_type="text/html", charset="utf-8", headers=headers)

    return (
        Endpoint(
            method="GET", path="/openapi.json", handler=show, summary="OpenAPI", answer="application/json"
        ),
        Endpoint(method="GET", path="/docs", handler=page, summary="The document's page", answer="text/html"),
    )


def _page(whole: Mapping[str, Any]) -> str:
    parts = [
        f"<details><summary><b>{method.upper()}</b> <code>{escape(path)}</code> {escape(one['summary'])}"
        f"</summary>{_details(one)}</details>"
        for path, methods in whole["paths"].items()
        for method, one in methods.items()
    ]
    schemas = [
        f"<details id='{escape(name)}'><summary><code>{escape(name)}</code></summary>"
        f"<pre>{escape(json.dumps(schema, indent=2))}</pre></details>"
        for name, schema in sorted(whole["components"]["schemas"].items())
    ]
    info = whole["info"]
    return _PAGE.format(
        title=escape(f"{info['title']} {info['version']}"),
        description=escape(info["description"]),
        operations="\n".join(parts),
        schemas="\n".join(schemas),
    )


def _details(operation: Mapping[str, Any]) -> str:
    rows = [
        f"<li><code>{escape(one['name'])}</code> ({one['in']}) {escape(one.get('description', ''))}"
        f" <code>{escape(json.dumps(one['schema']))}</code></li>"
        for one in operation["parameters"]
    ]
    if "requestBody" in operation:
        rows.append(f"<li>body: {_links(operation['requestBody']['content'])}</li>")
    for status, one in sorted(operation["responses"].items()):
        rows.append(f"<li>{status} {escape(one['description'])} {_links(one.get('content', {}))}</li>")
    return f"<p>{escape(operation.get('description', ''))}</p><ul>{''.join(rows)}</ul>"


def _links(content: Mapping[str, Any]) -> str:
    found = []
    for kind, one in content.items():
        name = one.get("schema", {}).get("$ref", "").rpartition("/")[2]
        link = f" <a href='#{escape(name)}'>{escape(name)}</a>" if name else ""
        found.append(f"{escape(kind)}{link}")
    return ", ".join(found)


_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark; font-family: system-ui, sans-serif; }}
body {{ max-width: 60rem; margin: 2rem auto; padding: 0 1rem; line-height: 1.5; }}
summary {{ cursor: pointer; padding: .25rem 0; }} b {{ display: inline-block; min-width: 4.5rem; }}
pre {{ overflow: auto; }}
</style></head>
<body><h1>{title}</h1><p>{description} The document itself: <a href="/openapi.json">openapi.json</a>.</p>
<h2>Calls</h2>
{operations}
<h2>Schemas</h2>
{schemas}
</body></html>
"""
