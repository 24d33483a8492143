"""What tests of runtimes need: methods written on the spot, job directories, run specifications."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aiodocker.exceptions import DockerError

from aioanalysis.domain.method import Limits
from aioanalysis.interfaces import MethodDirectory, RunSpec
from aioanalysis.runtime.engine import Engine

METHODS = Path(__file__).parent / "methods"
LABEL = "aioanalysis.test"

DOCKERFILE = """\
ARG BASE_IMAGE=python:3.12-slim
FROM ${BASE_IMAGE}
COPY . /method
WORKDIR /job
ENTRYPOINT ["python3", "/method/orchestrator.py"]
"""


def write_method(
    methods_dir: Path,
    title: str,
    stages: Mapping[int, str] | None = None,
    *,
    dockerfile: str = DOCKERFILE,
    **definition: Any,
) -> Path:
    """A method directory; `stages` are Python scripts by number, the others print their name."""
    folder = methods_dir / title
    (folder / "stages").mkdir(parents=True, exist_ok=True)
    body: dict[str, Any] = {"label": title, "description": "For one test.", "version": "1"}
    body |= {"parameters": {"type": "object"}, **definition}
    (folder / "method.json").write_text(json.dumps(body))
    (folder / "Dockerfile").write_text(dockerfile)
    for number in range(1, 6):
        script = (stages or {}).get(number, f"print('stage {number}')\n")
        (folder / "stages" / f"{number}_stage.py").write_text(script)
    return folder


def job_directory(parent: Path, params: Mapping[str, Any] | None = None, *, name: str = "") -> Path:
    """A job directory as the worker leaves it before a run."""
    folder = parent / (name or f"job-{uuid.uuid4().hex[:8]}")
    folder.mkdir(parents=True)
    (folder / "params.json").write_text(json.dumps(params or {}))
    (folder / "records.jsonl").write_text('{"processid": "A1"}\n')
    (folder / ".alive").touch()
    return folder


def printed(job_dir: Path, text: str) -> Callable[[], bool]:
    """Whether the run in `job_dir` has printed `text`; for `eventually`."""
    return lambda: (job_dir / "job.log").exists() and text in (job_dir / "job.log").read_text()


def run_spec(
    method: MethodDirectory,
    job_dir: Path,
    *,
    label: str = "",
    name: str = "",
    alive_seconds: float = 60,
    limits: Limits | None = None,
) -> RunSpec:
    return RunSpec(
        name=name or f"aa-test-{uuid.uuid4().hex}",
        labels={LABEL: label or uuid.uuid4().hex},
        job_dir=job_dir,
        method=method,
        limits=limits or method.method.limits,
        alive_seconds=alive_seconds,
    )


async def remove_images(engine: Engine, title: str) -> None:
    """Remove the images of the method `title`; one that another test has built upon stays with that."""
    filters = json.dumps({"label": [f"aioanalysis.title={title}"]})
    for image in await engine.call("GET", "images/json", params={"filters": filters}):
        try:
            await engine.call("DELETE", f"images/{image['Id']}", params={"force": "1"})
        except DockerError as error:
            if error.status not in {404, 409}:
                raise
