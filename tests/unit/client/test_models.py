"""The client's types are what the service answers."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest

from aioanalysis.api.frames import FrameSummary, FrameView
from aioanalysis.api.methods import MethodView
from aioanalysis.api.responses import (
    FramesView,
    HistoryView,
    JobSummary,
    JobView,
    ProgressView,
    WhyView,
)
from aioanalysis.api.results import FileView
from aioanalysis.api.runviews import AttemptView, ErrorView, UsageView, View
from aioanalysis.api.signin import SessionView
from aioanalysis.api.workers import WorkerView
from aioanalysis.client import models
from aioanalysis.domain.states import FINISHED, State

PAIRS = [
    (models.JobJson, JobView),
    (models.JobSummaryJson, JobSummary),
    (models.FrameJson, FrameView),
    (models.FrameSummaryJson, FrameSummary),
    (models.FramesJson, FramesView),
    (models.MethodJson, MethodView),
    (models.FileJson, FileView),
    (models.SessionJson, SessionView),
    (models.WorkerJson, WorkerView),
    (models.ErrorJson, ErrorView),
    (models.WhyJson, WhyView),
    (models.ProgressJson, ProgressView),
    (models.UsageJson, UsageView),
    (models.AttemptJson, AttemptView),
    (models.HistoryJson, HistoryView),
]


@pytest.mark.parametrize(("ours", "view"), PAIRS, ids=[view.__name__ for _, view in PAIRS])
def test_a_type_has_the_fields_of_the_answer(ours: Any, view: type[View]) -> None:
    schema = view.model_json_schema(mode="serialization", by_alias=True)
    assert set(get_type_hints(ours)) == set(schema["properties"])


def test_the_states_are_those_of_the_service() -> None:
    assert set(models.State.__args__) == set(State)  # type: ignore[attr-defined]
    assert set(State) - FINISHED == models.UNFINISHED
