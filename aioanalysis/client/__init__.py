"""The async client of the service: what the command line is built on, and usable from a notebook.

::

    from pathlib import Path
    from aioanalysis.client import open_client

    async with open_client() as client:
        result = await client.run("distance_summary", records=Path("records.jsonl"))
    result.tables["summary.tsv"], result.report
"""

from aioanalysis.client.client import AnalysisClient, JobFailed, Update, open_client
from aioanalysis.client.connection import Connection, find_connection
from aioanalysis.client.downloads import Downloaded
from aioanalysis.client.events import Event
from aioanalysis.client.models import (
    UNFINISHED,
    BlobJson,
    FileJson,
    FrameJson,
    FrameSummaryJson,
    JobJson,
    JobSummaryJson,
    KeptJson,
    LinkJson,
    MethodJson,
    OrphansJson,
    RunUsageJson,
    SessionJson,
    StatisticsJson,
    SweepJson,
    WorkerJson,
)
from aioanalysis.client.results import Result
from aioanalysis.client.transport import ApiProblem, NotReached

__all__ = [
    "UNFINISHED",
    "AnalysisClient",
    "ApiProblem",
    "BlobJson",
    "Connection",
    "Downloaded",
    "Event",
    "FileJson",
    "FrameJson",
    "FrameSummaryJson",
    "JobFailed",
    "JobJson",
    "JobSummaryJson",
    "KeptJson",
    "LinkJson",
    "MethodJson",
    "NotReached",
    "OrphansJson",
    "Result",
    "RunUsageJson",
    "SessionJson",
    "StatisticsJson",
    "SweepJson",
    "Update",
    "WorkerJson",
    "find_connection",
    "open_client",
]
