"""A job's JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

from aioanalysis.api.responses import JobSummary, JobView, Known, answer, dumps
from aioanalysis.api.runviews import rfc3339
from aioanalysis.domain.frames import Attempt
from aioanalysis.domain.job import Source
from aioanalysis.domain.outcomes import JobError, Reason
from aioanalysis.domain.progress import Progress
from aioanalysis.domain.records import Selection
from aioanalysis.domain.states import State
from aioanalysis.domain.usage import Usage
from aioanalysis.interfaces import JobProgress
from tests.support.jobs import make_job

NOW = datetime(2026, 1, 31, 12, 0, 0, 123_456, tzinfo=UTC)
ERROR = JobError(
    reason=Reason.STAGE, message="container exited with code 3", script="3_x.py", error="x" * 9000
)
USAGE = Usage(
    started_at="2026-01-31T12:00:00+00:00",
    finished_at=None,
    wall_seconds=float("nan"),
    samples=2,
    interval_seconds=10,
    cpu_percent={"mean": 1.5, "max": None},
    memory_bytes={"mean": 1, "max": 2, "limit": 3},
    cpu_seconds=None,
    network_bytes=None,
    block_bytes=5,
    series=({"at": "2026-01-31T12:00:00+00:00", "cpu_percent": None, "memory_bytes": 1},),
)


def whole(**changes: object) -> dict[str, object]:
    body = answer(JobView.of(make_job(submitted_at=NOW, **changes), NOW)).body
    assert isinstance(body, bytes)
    parsed: dict[str, object] = json.loads(body, parse_constant=pytest.fail)
    return parsed


def test_times_are_utc_with_a_z() -> None:
    assert rfc3339(NOW) == "2026-01-31T12:00:00.123Z"
    assert rfc3339(NOW.astimezone(timezone(timedelta(hours=5)))) == "2026-01-31T12:00:00.123Z"
    job = whole(usage=USAGE)
    names = ("submitted_at", "expires_at", "deadline", "last_updated", "state_changed_at")
    assert all(str(job[name]).endswith(".123Z") for name in names)
    assert "+00:00" not in json.dumps(job)


def test_a_job_has_all_that_is_promised_and_nothing_else() -> None:
    assert set(whole()) == {
        *("id", "title", "params", "recordset", "set_token", "attached", "selection", "record_count"),
        *("packaged_count", "tags", "submitter", "state", "submitted_at", "expires_at", "deadline"),
        *("last_updated", "state_changed_at", "error", "usage", "attempt", "recoveries", "why", "history"),
        *("resubmitted_from", "links", "retries", "frames", "holds", "actions", "split", "after"),
        *("wrangled", "attempts", "progress"),
    }


def test_a_running_job_tells_its_stage_and_not_that_of_an_attempt_before() -> None:
    def told(attempt: int) -> object:
        progress = Progress(
            attempt=attempt, stage=2, stages=5, name="2_x.py", message=None, fraction=0.5, at=NOW
        )
        job = make_job(state=State.RUNNING, submitted_at=NOW)
        news = JobProgress(job=job.id, submitter="ann", title=job.title, frame=None, progress=progress)
        return [one.model_dump(mode="json") for one in JobView.of(job, NOW, Known(progress=[news])).progress]

    assert told(1) == [
        {
            "frame": None,
            "stage": 2,
            "stages": 5,
            "name": "2_x.py",
            "message": None,
            "fraction": 0.5,
            "at": "2026-01-31T12:00:00.123Z",
        }
    ]
    assert told(2) == []


def test_a_waiting_job_says_why() -> None:
    why = whole()["why"]
    assert isinstance(why, dict)
    assert set(why) == {"code", "text", "until", "position", "expected_start", "expected_finish"}
    assert whole(state=State.COMPLETE)["why"] is None


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (Source(kind="recordset", value="DS-1"), ("DS-1", None, False)),
        (Source(kind="set_token", value="t"), (None, "t", False)),
        (Source(kind="attached"), (None, None, True)),
    ],
)
def test_the_record_source_is_one_of_three(source: Source, shown: tuple[object, ...]) -> None:
    job = whole(source=source)
    assert (job["recordset"], job["set_token"], job["attached"]) == shown


def test_history_and_selection_are_shown() -> None:
    job = whole(selection=Selection(mode="exclude", ids=frozenset("BA")))
    assert job["selection"] == {"include": None, "exclude": ["A", "B"]}
    assert job["history"] == [
        {
            "at": "2026-01-31T12:00:00.123Z",
            "event": "submit",
            "from": None,
            "to": "waiting",
            "by": "ann",
            "note": None,
        }
    ]


def test_links_lead_only_to_what_there_is() -> None:
    place = f"/v1/jobs/{(job := whole())['id']}"
    assert job["links"] == {"self": place, "result": None, "failed_result": None, "report": None}
    run = Attempt(number=1, ending="failed")
    complete, failed, without_a_run, retried = (
        whole(**changes)["links"]
        for changes in (
            {"state": State.COMPLETE},
            {"state": State.FAILED, "attempts": (run,)},
            {"state": State.FAILED},
            {"state": State.FAILED, "attempts": (run,), "attempt": 2},
        )
    )
    assert isinstance(complete, dict)
    assert isinstance(failed, dict)
    assert isinstance(without_a_run, dict)
    assert isinstance(retried, dict)
    assert complete["result"]
    assert complete["report"]
    assert not complete["failed_result"]
    assert failed["failed_result"]
    assert not failed["result"]
    assert not without_a_run["failed_result"]
    assert not retried["failed_result"]


def test_a_figure_that_json_does_not_know_is_null() -> None:
    usage = whole(usage=USAGE)["usage"]
    assert isinstance(usage, dict)
    assert usage["wall_seconds"] is None
    with pytest.raises(ValueError):
        dumps({"a": float("nan")})


def test_a_list_leaves_out_what_is_long() -> None:
    summary = JobSummary.of(make_job(state=State.FAILED, error=ERROR, usage=USAGE), NOW)
    assert summary.error is not None
    assert len(summary.error.error or "") == 2000
    assert summary.usage is not None
    assert summary.usage.series == ()
    assert not {"history", "selection"} & summary.model_dump().keys()
    job = JobView.of(make_job(state=State.FAILED, error=ERROR, usage=USAGE), NOW)
    assert job.error is not None
    assert len(job.error.error or "") == 9000
    assert job.usage is not None
    assert len(job.usage.series) == 1
