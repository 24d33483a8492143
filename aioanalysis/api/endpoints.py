"""What describes an endpoint: enough to route it, and to write its part of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp.typedefs import Handler
from pydantic import BaseModel


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """One method on one path. Everything under /v1 needs a key (`middlewares.serving`).

    `headers` are the schemas of request headers. `answer` is the model of a good answer's JSON, or its media
    type; None where it has no body. `attached` is the part `job` of a multipart body with attached records.
    """

    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    handler: Handler
    summary: str
    answer: type[BaseModel] | str | None
    status: int = 200
    body: type[BaseModel] | None = None
    attached: type[BaseModel] | None = None
    query: type[BaseModel] | None = None
    headers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    problems: tuple[int, ...] = ()
