"""Errors as problem documents."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web

from aioanalysis import errors
from aioanalysis.api.problems import HttpProblem, InvalidQuery, problem_of


def document(error: BaseException) -> tuple[Any, web.Response]:
    response = problem_of(error).response()
    assert response.content_type == "application/problem+json"
    assert isinstance(response.body, bytes)
    body = json.loads(response.body)
    assert body["status"] == response.status
    assert {"type", "title", "status", "detail"} <= body.keys()
    return body, response


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.Invalid("wrong"), 422),
        (errors.Unauthorized("who?"), 401),
        (errors.Forbidden("no"), 403),
        (errors.NotFound("gone"), 404),
        (errors.Missing("gone"), 404),
        (errors.Refused("not now"), 409),
        (errors.TooLarge("big"), 413),
        (errors.RequestError("other"), 400),
        (errors.Unavailable("away"), 503),
        (errors.Contested("changed"), 503),
        (errors.LeaseLost("lost"), 503),
        (errors.Damaged("broken"), 500),
        (errors.Misconfigured("set up"), 500),
        (errors.SystemFault("ours"), 500),
        (errors.AnalysisError("what"), 500),
        (errors.JobFailure("records", "none"), 500),
        (ValueError("bug"), 500),
        (TimeoutError(), 500),
        (HttpProblem(415, "no"), 415),
        (web.HTTPNotFound(), 404),
        (web.HTTPMethodNotAllowed("PUT", ["GET", "HEAD"]), 405),
    ],
)
def test_every_error_has_its_status(error: BaseException, status: int) -> None:
    body, response = document(error)
    assert response.status == status
    assert response.headers["Cache-Control"] == "no-store"
    assert body["title"]


def test_every_class_of_the_error_tree_is_answered() -> None:
    def walk(kind: type[BaseException]) -> list[type[BaseException]]:
        return [kind, *(sub for child in kind.__subclasses__() for sub in walk(child))]

    for kind in walk(errors.AnalysisError):
        if kind.__module__ == errors.__name__:
            error = kind.__new__(kind, "x")
            Exception.__init__(error, "x")
            for name in ("errors", "allowed"):
                setattr(error, name, ())
            error.state = error.retry_after = None  # type: ignore[attr-defined]
            document(error)


@pytest.mark.parametrize(
    "error", [ValueError("sk-secret"), errors.Damaged("sk-secret"), errors.Misconfigured("sk-secret")]
)
def test_our_own_faults_tell_nothing_of_themselves(error: BaseException) -> None:
    body, _ = document(error)
    assert "sk-secret" not in json.dumps(body)


def test_wrong_places_of_a_body_are_pointers_and_of_a_query_parameters() -> None:
    body, _ = document(errors.Invalid("wrong", [("/a/0", "is not")]))
    assert body["errors"] == [{"pointer": "/a/0", "detail": "is not"}]
    body, _ = document(InvalidQuery("wrong", [("limit", "is not")]))
    assert body["errors"] == [{"parameter": "limit", "detail": "is not"}]


def test_a_refusal_says_which_state_and_what_is_allowed() -> None:
    body, _ = document(errors.Refused("no", state="running", allowed=["force", "override"]))
    assert body["state"] == "running"
    assert body["allowed"] == ["force", "override"]


@pytest.mark.parametrize(("seconds", "header"), [(None, "5"), (0.2, "1"), (2.5, "3"), (60, "60")])
def test_what_is_away_says_when_to_come_back(seconds: float | None, header: str) -> None:
    _, response = document(errors.Unavailable("away", retry_after=seconds))
    assert response.headers["Retry-After"] == header


def test_a_wrong_method_says_which_are_right() -> None:
    body, response = document(web.HTTPMethodNotAllowed("PUT", ["HEAD", "GET"]))
    assert response.headers["Allow"] == "GET, HEAD"
    assert body["allowed"] == ["GET", "HEAD"]


def test_a_missing_key_is_asked_for() -> None:
    _, response = document(errors.Unauthorized("who?"))
    assert response.headers["WWW-Authenticate"].startswith("Bearer ")
