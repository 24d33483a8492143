"""Errors of a job: reasons, and what sidecars of any age say."""

from __future__ import annotations

import json

import pytest

from aioanalysis.domain.outcomes import UNMENDABLE, JobError, Reason


def test_an_error_comes_back_from_its_json():
    for reason in Reason:
        error = JobError(reason=reason, message="m", script="1_x.sh", error="out")
        assert JobError.from_json(error.to_json()) == error


def test_reasons_are_those_of_the_contract():
    assert {reason.value for reason in Reason} == {
        "stage",
        "input",
        "image",
        "method",
        "container",
        "out_of_memory",
        "disk",
        "silent",
        "time_limit",
        "worker_lost",
        "records",
        "dependency",
        "killed",
    }


def test_a_rerun_is_not_tried_for_what_it_cannot_mend():
    assert {reason.value for reason in UNMENDABLE} == {
        "time_limit",
        "killed",
        "dependency",
        "records",
        "input",
        "method",
    }


@pytest.mark.parametrize(
    ("value", "reason", "message"),
    [
        (
            {"script": "3_x.py", "error": "boom", "message": "container exited with code 3"},
            Reason.STAGE,
            None,
        ),
        ({"message": "container exited with code 137"}, Reason.CONTAINER, None),
        ({"reason": "unheard of", "script": "1_x.py"}, Reason.STAGE, "the run failed"),
        ({"reason": None, "message": ""}, Reason.CONTAINER, "the run failed"),
        ({}, Reason.CONTAINER, "the run failed"),
    ],
)
def test_an_older_workers_error_gets_a_reason_and_a_message(
    value: dict[str, str], reason: Reason, message: str | None
):
    error = JobError.from_json(value)
    assert error.reason is reason
    assert error.message == (message or value["message"])
    assert (error.script, error.error) == (value.get("script"), value.get("error"))


def test_text_that_utf8_cannot_carry_is_made_to_fit():
    error = JobError.from_json(json.loads(r'{"reason": "stage", "message": "\ud800", "error": "a\udfffb"}'))
    assert (error.message, error.error) == ("?", "a?b")


def test_what_is_not_text_becomes_text():
    assert JobError.from_json({"error": {"x": 1}}).error == "{'x': 1}"
