"""The crates of real runs, complete and failed, judged by roc-validator."""

from __future__ import annotations

import asyncio
import json
import zipfile
from pathlib import Path

from aioanalysis.domain.exchange import Ending
from tests.support.crates import problems
from tests.support.packages import enqueue, make_tar, new_stem, package_meta, zip_of
from tests.support.runs import write_method
from tests.support.workers import worker_parts

ODD_FILES = """
import os
os.makedirs("tables/ä b", exist_ok=True)
open("tables/ä b/100%.tsv", "w").write("a\\tb\\n")
open("ro-crate-metadata.json", "w").write("the method's own")
for number in range(1200):
    open(f"tables/{number}.csv", "w").close()
"""


async def test_the_packages_of_complete_and_failed_runs_are_process_run_crates(tmp_path: Path) -> None:
    methods = tmp_path / "methods"
    write_method(methods, "odd", {5: ODD_FILES})
    write_method(methods, "failing", {3: "raise SystemExit('nothing to compare')\n"})
    write_method(methods, "few")
    folders = {}
    async with worker_parts(tmp_path, methods_dir=methods) as parts:
        for title, ending in {
            "few": Ending.COMPLETE,
            "odd": Ending.COMPLETE,
            "failing": Ending.FAILED,
            "absent": Ending.FAILED,
        }.items():
            stem = new_stem(title)
            data = make_tar(stem)
            await enqueue(parts.storage, stem, data=data, meta=package_meta(data, owner="Ann Ünal"))
            assert await parts.once() == (ending is Ending.FAILED)
            folders[title] = tmp_path / "crates" / title
            package = await zip_of(parts.storage, stem, ending)
            await asyncio.to_thread(package.extractall, folders[title])
            told = {member["name"] for member in json.loads(package.read("manifest.json"))["members"]}
            assert "ro-crate-metadata.json" in told
            _check_content(package, failed=ending is Ending.FAILED)
    assert await asyncio.to_thread(problems, *folders.values()) == []


def _check_content(package: zipfile.ZipFile, *, failed: bool) -> None:
    graph = json.loads(package.read("ro-crate-metadata.json"))["@graph"]
    entities = {entity["@id"]: entity for entity in graph}
    run = entities["#run"]
    assert run["actionStatus"].endswith("FailedActionStatus" if failed else "CompletedActionStatus")
    assert ("error" in run) is failed
    assert entities[run["agent"]["@id"]]["name"] == "Ann Ünal"
    assert {"@id": "records.jsonl"} in run["object"]
    assert len(graph) < 1100
    if "%72o-crate-metadata.json" in package.namelist():
        assert package.read("%72o-crate-metadata.json") == b"the method's own"


def test_the_validator_tells_of_a_crate_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "ro-crate-metadata.json").write_text(
        '{"@context": "https://w3id.org/ro/crate/1.1/context", "@graph": []}'
    )
    assert problems(tmp_path)
