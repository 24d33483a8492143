"""The client's types are what the service answers."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest

from aioanalysis.api.attempts import KeptView
from aioanalysis.api.frames import FrameSummary, FrameView
from aioanalysis.api.links import LinkView
from aioanalysis.api.methods import LimitsView, MethodView
from aioanalysis.api.orphans import HoldingView, OrphanList, OrphanView, ReasonView, SweepView
from aioanalysis.api.packages import BlobView
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
from aioanalysis.api.statistics import (
    BucketView,
    FailureView,
    HeldMethodView,
    LoadView,
    Statistics,
    WaitingView,
)
from aioanalysis.api.usage import RunUsage
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
    (models.LimitsJson, LimitsView),
    (models.RunUsageJson, RunUsage),
    (models.KeptJson, KeptView),
    (models.LinkJson, LinkView),
    (models.BlobJson, BlobView),
    (models.OrphansJson, OrphanList),
    (models.OrphanJson, OrphanView),
    (models.HoldingJson, HoldingView),
    (models.OrphanReasonJson, ReasonView),
    (models.SweepJson, SweepView),
    (models.StatisticsJson, Statistics),
    (models.BucketJson, BucketView),
    (models.WaitingJson, WaitingView),
    (models.FailureJson, FailureView),
    (models.LoadJson, LoadView),
    (models.HeldMethodJson, HeldMethodView),
]


@pytest.mark.parametrize(("ours", "view"), PAIRS, ids=[view.__name__ for _, view in PAIRS])
def test_a_type_has_the_fields_of_the_answer(ours: Any, view: type[View]) -> None:
    schema = view.model_json_schema(mode="serialization", by_alias=True)
    assert set(get_type_hints(ours)) == set(schema["properties"])


def test_the_states_are_those_of_the_service() -> None:
    assert set(models.State.__args__) == set(State)  # type: ignore[attr-defined]
    assert set(State) - FINISHED == models.UNFINISHED
