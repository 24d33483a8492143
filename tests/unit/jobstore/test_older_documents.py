"""Records that earlier versions wrote: read by this one, refused where a newer one wrote them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aioanalysis.domain.states import State
from aioanalysis.errors import Damaged
from aioanalysis.jobstore.codec import SCHEMA, dump_job, load_job

DOCUMENTS = sorted((Path(__file__).parent / "documents").glob("*.json"))


@pytest.mark.parametrize("path", DOCUMENTS, ids=[path.stem for path in DOCUMENTS])
def test_a_record_that_an_earlier_version_wrote_is_read_and_written_anew(path: Path) -> None:
    job = load_job(path.read_text(), version="1:a")
    assert (job.state, job.submitter, job.source.value, job.retries) == (
        State.FAILED,
        "ada",
        "DS-GULLS",
        1,
    )
    assert [(run.number, run.phase, run.attempt) for run in job.frames] == [
        (1, State.COMPLETE, 1),
        (2, State.FAILED, 2),
    ]
    assert job.error is not None
    assert (job.error.script, job.history[0].event) == ("3_analyse.py", "submitted")
    assert load_job(dump_job(job), version="1:a") == job


def test_there_is_a_record_of_every_schema_so_far() -> None:
    assert {json.loads(path.read_text())["schema"] for path in DOCUMENTS} == set(range(1, SCHEMA + 1))


def test_a_record_of_a_newer_schema_is_refused_and_says_so() -> None:
    document = json.loads(DOCUMENTS[0].read_text()) | {"schema": SCHEMA + 1}
    with pytest.raises(Damaged, match=f"of schema {SCHEMA + 1}, this service reads up to {SCHEMA}"):
        load_job(json.dumps(document), version="1:a")
