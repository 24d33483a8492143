"""Every error as RFC 9457 problem+json: the one place where errors become statuses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from aioanalysis.api.responses import dumps
from aioanalysis.errors import (
    AnalysisError,
    Contested,
    Forbidden,
    Invalid,
    Missing,
    NoRoom,
    NotFound,
    Refused,
    RequestError,
    TooLarge,
    Unauthorized,
    Unavailable,
)

CONTENT_TYPE: Final = "application/problem+json"
URN: Final = "urn:aioanalysis:problem:"
RETRY_AFTER: Final = 5.0
ERRORS_MAX: Final = 50

KINDS: Final[tuple[tuple[type[AnalysisError], int, str, str], ...]] = (
    (Invalid, 422, "invalid", "The request holds a wrong value"),
    (Unauthorized, 401, "unauthorized", "A valid key is needed"),
    (Forbidden, 403, "forbidden", "Not allowed"),
    (NotFound, 404, "not-found", "Not found"),
    (Missing, 404, "not-found", "Not found"),
    (Refused, 409, "refused", "The present state does not allow it"),
    (TooLarge, 413, "too-large", "Too large"),
    (RequestError, 400, "bad-request", "The request cannot be done as it stands"),
    (Unavailable, 503, "unavailable", "Not available now"),
    (Contested, 503, "unavailable", "Not available now"),
    (NoRoom, 507, "no-room", "There is no room for it now"),
)
"""Whatever of the tree is not here is our own fault: 500, and nothing of it is told."""


class InvalidQuery(Invalid):
    """A query parameter is wrong; `errors` are (parameter, message) pairs."""


class HttpProblem(Exception):
    """An answer that HTTP itself prescribes and the domain knows nothing of."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        members: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})
        self.members = dict(members or {})


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One problem document; `members` are its extensions."""

    status: int
    title: str
    detail: str
    type: str = "about:blank"
    headers: Mapping[str, str] = field(default_factory=dict)
    members: Mapping[str, Any] = field(default_factory=dict)

    def response(self) -> web.Response:
        body = {"type": self.type, "title": self.title, "status": self.status, "detail": self.detail}
        return web.Response(
            status=self.status,
            body=dumps({**body, **self.members}),
            content_type=CONTENT_TYPE,
            headers={"Cache-Control": "no-store", **self.headers},
        )


def problem_of(error: BaseException) -> Problem:
    """The answer to `error`, whatever it is."""
    if isinstance(error, HttpProblem):
        return _plain(error.status, error.detail, error.headers, error.members)
    if isinstance(error, web.HTTPException):
        return _of_router(error)
    for kind, status, slug, title in KINDS:
        if isinstance(error, kind):
            return Problem(
                status=status,
                title=title,
                detail=_detail(error),
                type=URN + slug,
                headers=_headers(error),
                members=_members(error),
            )
    return _plain(500, "The service met an error of its own; its log tells more under the request's id.")


def _plain(
    status: int,
    detail: str,
    headers: Mapping[str, str] | None = None,
    members: Mapping[str, Any] | None = None,
) -> Problem:
    return Problem(
        status=status,
        title=HTTPStatus(status).phrase,
        detail=detail,
        headers=headers or {},
        members=members or {},
    )


def _of_router(error: web.HTTPException) -> Problem:
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = sorted(error.allowed_methods)
        return _plain(
            405, f"Allowed here: {', '.join(allowed)}.", {"Allow": ", ".join(allowed)}, {"allowed": allowed}
        )
    if error.status == HTTPStatus.NOT_FOUND:
        return _plain(404, "There is nothing at this address.")
    headers = {"Location": error.headers["Location"]} if "Location" in error.headers else {}
    return _plain(error.status, error.reason, headers)


def _detail(error: AnalysisError) -> str:
    if isinstance(error, Missing):
        return "It is not there (any more)."
    if isinstance(error, Contested):
        return "It was changed at the same moment; try again."
    return str(error)


def _headers(error: AnalysisError) -> dict[str, str]:
    if isinstance(error, Unauthorized):
        return {"WWW-Authenticate": 'Bearer realm="aioanalysis"'}
    if isinstance(error, Contested):
        return {"Retry-After": "1"}
    if isinstance(error, Unavailable):
        return {"Retry-After": str(max(1, math.ceil(error.retry_after or RETRY_AFTER)))}
    return {}


def _members(error: AnalysisError) -> dict[str, Any]:
    if isinstance(error, Invalid) and error.errors:
        where = "parameter" if isinstance(error, InvalidQuery) else "pointer"
        return {"errors": [{where: place, "detail": text} for place, text in error.errors[:ERRORS_MAX]]}
    if isinstance(error, Refused):
        state = {"state": error.state} if error.state is not None else {}
        return {**state, "allowed": list(error.allowed)}
    return {}
