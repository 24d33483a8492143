"""A method that tries to break out of each isolation of its container, on the real engine."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from aioanalysis.methods import load_method
from aioanalysis.runtime.docker import DockerRuntime
from aioanalysis.runtime.engine import open_engine
from aioanalysis.runtime.images import Images
from tests.support.runs import METHODS, job_directory, run_spec

FACTS = {"status", "interfaces", "processes", "mounts", "root"}


async def test_a_method_that_tries_to_break_out_fails_at_every_wall(
    docker_engine: str, base_image: str, tmp_path: Path
) -> None:
    method = await load_method(METHODS, "breakout", base_image=base_image)
    job_dir = job_directory(tmp_path)
    async with open_engine(docker_engine) as engine:
        images = Images(engine, base_image=base_image, network="none")
        runtime = DockerRuntime(engine, images, user=(65534, 65534))
        run = await runtime.start(await runtime.build(method), run_spec(method, job_dir))
        try:
            async with asyncio.timeout(90):
                ended = await runtime.wait(run)
        finally:
            await runtime.remove(run)
    assert ended.code == 0, ended.output_tail
    told = json.loads((job_dir / "attempts.json").read_text())
    assert {name: text for name, text in told.items() if name not in FACTS and "refused" not in text} == {}
    assert len(told) == 16 + len(FACTS)
    assert int(told["fork bomb"].partition("after ")[2].split()[0]) < 256
    status = told["status"]
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert status["Uid"].split() == ["65534"] * 4
    assert told["interfaces"] == ["lo"]
    assert len(told["processes"]) < 10
    assert str(tmp_path) not in told["root"]
