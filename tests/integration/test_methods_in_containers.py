"""Every shipped method in its container, over its sample; over further files where they are named.

`AIOANALYSIS_TRY_RECORDS` names JSON Lines files (separated by :) that each method runs over besides.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aioanalysis.settings import PREFIX

ROOT = Path(__file__).parents[2]
TITLES = sorted(path.parent.name for path in (ROOT / "methods").glob("*/method.json"))
FILES = [Path(name) for name in os.environ.get("AIOANALYSIS_TRY_RECORDS", "").split(":") if name]
# A tree needs every distance; real records have pairs without one.
CHOSEN = {"taxon_id_tree": {"undefined_distances": "drop"}}


@pytest.mark.parametrize("records", [None, *FILES], ids=["sample", *(path.name for path in FILES)])
@pytest.mark.parametrize("title", TITLES)
def test_a_method_runs_in_its_container(
    docker_engine: str, base_image: str, tmp_path: Path, title: str, records: Path | None
) -> None:
    ours = {
        "runtime": "docker",
        "docker_host": docker_engine,
        "base_image": base_image,
        "build_network": "none",
        "methods_dir": str(ROOT / "methods"),
    }
    clean = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    settings = {PREFIX + name.upper(): value for name, value in ours.items()}
    arguments = [] if records is None else [str(records), "--params", json.dumps(CHOSEN.get(title, {}))]
    done = subprocess.run(
        [sys.executable, "-m", "aioanalysis", "methods", "test", title, *arguments, "--json", "-o", "job"],
        cwd=tmp_path, env={**clean, **settings}, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    body = json.loads(done.stdout)
    assert (body["complete"], body["flaws"], len(body["stages"])) == (True, [], 5)
    job = tmp_path / "job"
    run = json.loads((job / "run.json").read_text(encoding="utf-8"))
    counted = run["records"]
    lines = (job / "records.jsonl").read_bytes().splitlines()
    assert counted["read"] == sum(1 for line in lines if line.strip())
    assert 0 < counted["used"] == counted["read"] - sum(counted["left_out"].values())
    assert (job / "analysis_report.html").stat().st_size > 10_000
    assert list(job.glob("*.tsv"))
    assert list(job.glob("*.jsonl"))
