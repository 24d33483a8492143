"""The container of a no-op job by hand, with nothing of ours around it: what jobs are held to."""

from __future__ import annotations

import os
from pathlib import Path

from aiodocker import Docker

from aioanalysis.interfaces import Image, RunSpec
from aioanalysis.methods import load_method
from aioanalysis.runtime.container import container_config
from aioanalysis.runtime.images import image_tag
from tests.bench.deployments import METHODS, RECORDS
from tests.support.parts import BASE_IMAGE


async def run_bare(docker: Docker, folder: Path, name: str) -> None:
    """Created, started, awaited, deleted, in a job directory of its own; its image was built before."""
    method = await load_method(METHODS, "noop", base_image=BASE_IMAGE)
    job_dir = folder / name
    job_dir.mkdir()
    (job_dir / "params.json").write_text("{}")
    (job_dir / "records.jsonl").write_text(RECORDS)
    spec = RunSpec(
        name=name, method=method, job_dir=job_dir, limits=method.method.limits, labels={}, alive_seconds=0
    )
    image = Image(id=image_tag(method), digest=method.digest)
    config = container_config(image, spec, user=(0, 0), host_cpus=os.cpu_count())
    container = await docker.containers.create(config)
    try:
        await container.start()
        ended = await container.wait()
        if ended["StatusCode"]:
            raise RuntimeError(f"the bare container ended with {ended['StatusCode']}")
    finally:
        await container.delete(force=True)
