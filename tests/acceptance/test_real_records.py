"""Real records through the whole service: the numbers of the report, worked out a second time."""

from __future__ import annotations

import csv
import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.support.deployment import Deployment

REPOSITORY = Path(__file__).parents[2]
UKBOL = REPOSITORY.parent / "shared" / "domain" / "data" / "ukbol_sample.bcdm.jsonl"


@pytest.mark.skipif(
    not UKBOL.exists(), reason="needs ../shared/domain/data, which is not part of the project"
)
async def test_distance_summary_over_the_ukbol_sample_has_the_right_numbers(whole: Deployment) -> None:
    whole.environment["AIOANALYSIS_METHODS_DIR"] = str(REPOSITORY / "methods")
    shutil.copyfile(UKBOL, whole.recordsets / "UKBOL.jsonl")
    whole.serve()
    whole.worker(sample_interval=2)
    async with whole.client() as client:
        job = await client.submit("distance_summary", recordset="UKBOL")
        done = await client.wait(job["id"], timeout=300)
        assert done["state"] == "complete", done
        assert done["packaged_count"] == 999
        saved = await client.result(job["id"], whole.folder / "result.zip")
        assert saved.verified
        report = (await client.report(job["id"])).decode()
    assert done["usage"] is not None
    assert done["usage"]["samples"] >= 1
    assert done["usage"]["memory_bytes"]["max"] > 0
    with zipfile.ZipFile(saved.path) as package:
        stats = json.loads(package.read("resource_stats.json"))
        used = [json.loads(line) for line in package.read("records_used.jsonl").splitlines()]
        sequences = _fasta(package.read("alignment.fasta").decode())
        table = list(csv.DictReader(package.read("summary.tsv").decode().splitlines(), delimiter="\t"))
    assert stats["samples"] >= 1
    assert len(used) == len(sequences)
    expected = _levels(used, _k2p(sequences))
    for row in table:
        if row["label"] in expected:
            values = expected[row["label"]]
            assert int(row["comparisons"]) == len(values), row["label"]
            for column, value in (("min", values.min()), ("mean", values.mean()), ("max", values.max())):
                assert float(row[f"{column}_distance_percent"]) == pytest.approx(100 * value, abs=1e-7)
    assert {"Within Species", "Within Genus", "Within Family"} <= {row["label"] for row in table}
    assert "Within Species" in report


def _fasta(text: str) -> list[str]:
    return ["".join(entry.splitlines()[1:]) for entry in text.split(">")[1:]]


def _k2p(sequences: list[str]) -> np.ndarray:
    """Kimura's distance of all pairs, pairwise deletion, straight from its formula; NaN where undefined."""
    codes = np.array([[b"ACGT".find(base) for base in s.upper().encode()] for s in sequences], dtype=np.int8)
    distances = np.full((len(codes), len(codes)), np.nan)
    for i in range(len(codes) - 1):
        ours, theirs = codes[i], codes[i + 1 :]
        known = (ours >= 0) & (theirs >= 0)
        differ = known & (ours != theirs)
        transitions = (differ & ((ours ^ theirs) == 2)).sum(axis=1)  # A-G is 0-2, C-T is 1-3
        sites = known.sum(axis=1)
        with np.errstate(all="ignore"):
            p, q = transitions / sites, (differ.sum(axis=1) - transitions) / sites
            inside = np.where((1 - 2 * p - q > 0) & (1 - 2 * q > 0), 1, np.nan)
            distances[i, i + 1 :] = inside * (-0.5 * np.log(1 - 2 * p - q) - 0.25 * np.log(1 - 2 * q))
    return distances


def _levels(used: list[dict[str, object]], distances: np.ndarray) -> dict[str, np.ndarray]:
    """Same species; same genus and another species; same family and another genus."""
    species, genus, family = (
        np.array([str(record.get(rank) or "") for record in used]) for rank in ("species", "genus", "family")
    )

    def pairs(same: np.ndarray, other: np.ndarray | None) -> np.ndarray:
        chosen = (same[:, None] == same) & (same[:, None] != "") & (same != "")
        if other is not None:
            chosen &= (other[:, None] != other) & (other[:, None] != "") & (other != "")
        return distances[chosen & ~np.isnan(distances)]

    return {
        "Within Species": pairs(species, None),
        "Within Genus": pairs(genus, species),
        "Within Family": pairs(family, genus),
    }
