"""Distance Summary from records to report: reference numbers, the flaws of real sets, refusals."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.methods.conftest import ROOT, MethodRun, Outcome, read_csv, read_fasta
from tests.methods.test_alignment import mutated, random_sequence
from tests.methods.test_distances import MODELS
from tests.methods.test_report import outline

WHOLE = random_sequence(1)
LEVELS = {"species": "Within Species", "genus": "Within Genus", "family": "Within Family"}
FILES = {
    "params.json", "records.jsonl", "records_used.jsonl", "records_left_out.jsonl", "alignment.fasta",
    "summary.tsv", "species.tsv", "genera.tsv", "families.tsv", "histogram.tsv", "pairs.tsv", "run.json",
    "analysis_report.html",
}  # fmt: skip


def record(number: int, species: str | None = "Aus bus", **values: Any) -> dict[str, Any]:
    genus = species.split()[0] if species else None
    return {
        "processid": f"TEST{number:03d}-26",
        "record_id": f"TEST{number:03d}-26.COI-5P",
        "marker_code": "COI-5P",
        "nuc": mutated(WHOLE, number, 0.03),
        "species": species,
        "genus": genus,
        "family": "Aidae",
        "identification": species or "Aidae",
        "identification_rank": "species" if species else "family",
        **values,
    }


def five() -> list[dict[str, Any]]:
    return [
        record(n, species)
        for n, species in enumerate(["Aus bus", "Aus bus", "Aus cus", "Bus dus", "Bus dus"], 1)
    ]


def row(outcome: Outcome, label: str) -> dict[str, str]:
    return next(row for row in outcome.table("summary.tsv") if row["label"] == label)


def comparisons(outcome: Outcome) -> list[int]:
    return [int(row(outcome, label)["comparisons"]) for label in (*LEVELS.values(), "All pairs")]


def refused(outcome: Outcome, told: str) -> None:
    """A refusal is one plain sentence at the end of what was printed."""
    assert outcome.code > 0
    assert told in outcome.printed.strip().splitlines()[-1]
    assert "Traceback" not in outcome.printed
    assert "fault" not in outcome.printed


def done(outcome: Outcome) -> Outcome:
    assert outcome.code == 0, outcome.printed
    assert "Traceback" not in outcome.printed
    left = {path.name for path in outcome.dir.iterdir()}
    assert left >= FILES - {"pairs.tsv"}
    assert "work" not in left
    outline(outcome.report)
    for name in ("summary.tsv", "species.tsv", "genera.tsv", "families.tsv", "histogram.tsv"):
        for cells in outcome.table(name):
            assert not {"nan", "inf", "-inf", "-0", "None"} & {str(cell) for cell in cells.values()}
    run = outcome.json("run.json")
    assert run["records"]["read"] == run["records"]["used"] + sum(run["records"]["left_out"].values())
    assert run["records"]["used"] == len(outcome.rows("records_used.jsonl"))
    return outcome


# --- numbers ---


def reference_records(folder: Path) -> Iterator[dict[str, Any]]:
    species = {row["id"]: row for row in read_csv(folder / "species.csv")}
    for name, nuc in read_fasta(folder / "input.fasta").items():
        taxa = {rank: species[name][rank] or None for rank in LEVELS}
        yield {"record_id": name, "processid": name, "marker_code": "COI-5P", "nuc": nuc, **taxa}


@pytest.mark.parametrize("name", ["anoteropsis", "streptocephalus_mafft"])
@pytest.mark.parametrize("model", ["raw", "K80"])
@pytest.mark.parametrize("deletion", ["pairwise", "complete"])
def test_the_tables_hold_the_reference_numbers(
    distance_summary: MethodRun, reference: Path, name: str, model: str, deletion: str
) -> None:
    folder = reference / "reference-numbers" / name
    records = list(reference_records(folder))
    outcome = done(
        distance_summary(
            records, alignment="as_uploaded", distance_model=MODELS[model], deletion=deletion, min_length=0
        )
    )
    for expected in read_csv(folder / f"levels_{model}_{deletion}.csv"):
        found = row(outcome, LEVELS[expected["level"]])
        counts = {"sequences": "sequences", "taxa": "taxa", "n": "comparisons", "undefined": "undefined"}
        assert {key: found[key] for key in counts.values()} == {counts[key]: expected[key] for key in counts}
        for key in ("min", "q1", "median", "mean", "q3", "max", "sd", "se"):
            if expected[key] == "NA":
                assert found[f"{key}_distance_percent"] == ""
            else:
                assert float(found[f"{key}_distance_percent"]) == pytest.approx(
                    100 * float(expected[key]), abs=1e-7
                )
    normalised = row(outcome, "Within Species, normalised by species")["mean_distance_percent"]
    species = read_csv(folder / f"levels_{model}_{deletion}.csv")[0]
    assert float(normalised) == pytest.approx(100 * float(species["mean_of_group_means"]), abs=1e-7)
    pairs = outcome.table("pairs.tsv")
    for found, expected in zip(pairs, read_csv(folder / "pairs.csv"), strict=True):
        distance = 100 * float(expected[f"{model}_{deletion}"])
        assert (found["record_id_a"], found["record_id_b"]) == (expected["a"], expected["b"])
        assert float(found["distance_percent"]) == pytest.approx(distance, abs=1e-7)
        assert found["transitions"] == expected[f"TS_{deletion}"]


def test_woodmouse_has_the_numbers_of_the_reference(distance_summary: MethodRun, reference: Path) -> None:
    folder = reference / "reference-numbers" / "woodmouse"
    records = [
        {
            "record_id": name,
            "marker_code": "CYTB",
            "nuc": nuc,
            "species": "Apodemus sylvaticus",
            "genus": "Apodemus",
        }
        for name, nuc in read_fasta(folder / "input.fasta").items()
    ]
    outcome = done(distance_summary(records, marker="CYTB", alignment="as_uploaded"))
    expected = next(
        r
        for r in read_csv(folder / "distance_stats.csv")
        if (r["model"], r["deletion"]) == ("K80", "pairwise")
    )
    for label in ("Within Species", "All pairs"):
        for key in ("min", "q1", "median", "mean", "q3", "max", "sd", "se"):
            found = row(outcome, label)[f"{key}_distance_percent"]
            assert float(found) == pytest.approx(100 * float(expected[key]), abs=1e-7)


def test_real_records_as_uploaded_to_the_portal_give_nearly_the_reference(
    distance_summary: MethodRun, reference: Path
) -> None:
    """Aligned by the built-in aligner, not by MAFFT as the reference was: nearly the same."""
    outcome = done(distance_summary(reference / "data" / "streptocephalus.bcdm.jsonl"))
    folder = reference / "reference-numbers" / "streptocephalus_mafft"
    for expected in read_csv(folder / "levels_K80_pairwise.csv")[:2]:
        found = row(outcome, LEVELS[expected["level"]])
        assert found["comparisons"] == expected["n"]
        assert float(found["mean_distance_percent"]) == pytest.approx(100 * float(expected["mean"]), abs=0.05)


def test_real_records_of_many_families_are_read_whole(distance_summary: MethodRun, reference: Path) -> None:
    outcome = done(distance_summary(reference / "data" / "ukbol_sample.bcdm.jsonl"))
    records = outcome.json("run.json")["records"]
    assert (records["read"], records["used"]) == (999, 994)
    assert records["left_out"] == {"no_marker": 3, "other_marker": 1, "too_short": 1}
    assert records["other_markers"] == {"CYTB": 1}
    assert int(row(outcome, "Within Species")["comparisons"]) == 3959
    assert not (outcome.dir / "pairs.tsv").exists()
    top = outcome.table("pairs_top.tsv")
    assert float(top[0]["distance_percent"]) == float(row(outcome, "Within Species")["max_distance_percent"])


def test_within_species_genus_and_family_count_what_they_say(distance_summary: MethodRun) -> None:
    outcome = done(distance_summary(five()))
    # 2 pairs of one species; 2 of Aus bus with Aus cus; 3 x 2 between the genera
    assert comparisons(outcome) == [2, 2, 6, 10]
    assert [row["level"] for row in outcome.table("pairs.tsv")].count("family") == 6
    assert [(r["species"], r["comparisons"]) for r in outcome.table("species.tsv")] == [
        ("Aus bus", "1"),
        ("Aus cus", "0"),
        ("Bus dus", "1"),
    ]
    assert (
        sum(float(r["within_species_share_normalised_by_species"]) for r in outcome.table("histogram.tsv"))
        == 1
    )
    assert sum(int(r["all_comparisons"]) for r in outcome.table("histogram.tsv")) == 10


# --- the edge list ---


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_records_are_refused(distance_summary: MethodRun, count: int) -> None:
    refused(
        distance_summary(five()[:count]), f"Nothing can be compared: {count} of {count} records can be used"
    )


def test_two_records_are_compared(distance_summary: MethodRun) -> None:
    outcome = done(distance_summary(five()[:2]))
    assert comparisons(outcome) == [1, 0, 0, 1]
    assert row(outcome, "Within Species")["se_distance_percent"] == ""


def test_one_species_only(distance_summary: MethodRun) -> None:
    assert comparisons(done(distance_summary([record(n) for n in range(6)]))) == [15, 0, 0, 15]


def test_single_sequences_only(distance_summary: MethodRun) -> None:
    outcome = done(distance_summary([record(n, f"Aus {'abcdef'[n]}us") for n in range(6)]))
    assert comparisons(outcome) == [0, 15, 0, 15]
    assert row(outcome, "Within Species")["mean_distance_percent"] == ""
    assert "Every species has one sequence only" in outcome.notes


def test_no_species_names_at_all(distance_summary: MethodRun) -> None:
    outcome = done(distance_summary([record(n, None) for n in range(4)]))
    assert comparisons(outcome) == [0, 0, 0, 6]
    assert "No record has a species name" in outcome.notes


def test_no_names_of_any_rank(distance_summary: MethodRun) -> None:
    outcome = done(distance_summary([record(n, None, family=" ") for n in range(4)]))
    assert comparisons(outcome) == [0, 0, 0, 6]
    assert "family 4" in outcome.notes


@pytest.mark.parametrize("nuc", ["N" * 658, "-" * 658])
def test_sequences_without_a_base(distance_summary: MethodRun, nuc: str) -> None:
    refused(distance_summary([record(n, nuc=nuc) for n in range(3)]), "0 of 3 records can be used")
    outcome = done(distance_summary([*five(), record(9, nuc=nuc)], min_length=0))
    assert outcome.json("run.json")["records"]["left_out"] == {"no_known_base": 1}


def test_mixed_markers_and_one_processid_with_two(distance_summary: MethodRun) -> None:
    records = five()
    records.insert(1, {**records[0], "record_id": "TEST001-26.16S", "marker_code": "16S", "nuc": WHOLE[:400]})
    outcome = done(distance_summary(records))
    assert comparisons(outcome)[-1] == 10
    assert "other markers found: 16S (1)" in outcome.notes
    refused(distance_summary(records, marker="matK"), "other markers found: COI-5P (5), 16S (1)")


def test_a_record_id_that_comes_twice(distance_summary: MethodRun) -> None:
    outcome = done(distance_summary([*five(), record(1, nuc=WHOLE)]))
    (left,) = outcome.rows("records_left_out.jsonl")
    assert (left["record_id"], left["reason"], left["line"]) == ("TEST001-26.COI-5P", "duplicate", 6)
    assert "Records that repeat a record_id: 1" in outcome.notes


def test_lengths_that_differ(distance_summary: MethodRun) -> None:
    records = [record(n, nuc=mutated(WHOLE, n, 0.03)[20 * n :]) for n in range(5)]
    assert comparisons(done(distance_summary(records))) == [10, 0, 0, 10]
    refused(distance_summary(records, alignment="as_uploaded"), "5 different widths (578 to 658 columns)")


def test_identical_sequences_only(distance_summary: MethodRun) -> None:
    outcome = done(distance_summary([record(n, nuc=WHOLE) for n in range(5)]))
    found = row(outcome, "Within Species")
    figures = [found[f"{key}_distance_percent"] for key in ("min", "mean", "max", "sd", "se", "median")]
    assert figures == ["0"] * 6
    assert "All sequences are alike" in outcome.notes


def test_no_common_sites(distance_summary: MethodRun) -> None:
    halves = [WHOLE[:300] + "-" * 358, "-" * 300 + WHOLE[300:]]
    records = [record(n, nuc=nuc) for n, nuc in enumerate(halves)]
    outcome = done(distance_summary(records, alignment="as_uploaded"))
    assert comparisons(outcome) == [0, 0, 0, 0]
    assert row(outcome, "Within Species")["undefined"] == "1"
    assert "no_overlap 1" in outcome.notes
    assert outcome.table("pairs.tsv")[0]["undefined"] == "no_overlap"
    refused(
        distance_summary(records, alignment="as_uploaded", deletion="complete"), "choose deletion: pairwise"
    )


def test_too_small_an_overlap_is_no_distance(distance_summary: MethodRun) -> None:
    records = [record(1, nuc=WHOLE[:400] + "-" * 258), record(2, nuc="-" * 250 + WHOLE[250:]), record(3)]
    outcome = done(distance_summary(records, alignment="as_uploaded", min_overlap=200))
    assert comparisons(outcome) == [2, 0, 0, 2]
    assert outcome.json("run.json")["distances"]["undefined"] == {"min_overlap": 1}


def test_saturated_pairs(distance_summary: MethodRun) -> None:
    records = [record(n, nuc=random_sequence(n + 50)) for n in range(4)]
    outcome = done(distance_summary(records, alignment="as_uploaded", distance_model="jc69"))
    defined, undefined = comparisons(outcome)[0], int(row(outcome, "Within Species")["undefined"])
    assert defined + undefined == 6
    assert undefined > 0
    assert f"saturated {undefined}" in outcome.notes
    assert "do not fit the others" in outcome.notes


def test_complete_deletion_says_how_many_sites_it_leaves(distance_summary: MethodRun) -> None:
    records = [*five(), record(7, nuc=WHOLE[:50] + "N" * 608)]
    outcome = done(distance_summary(records, alignment="as_uploaded", deletion="complete", min_length=0))
    assert outcome.json("run.json")["distances"]["columns_compared"] == 50
    assert "Complete deletion leaves 50 sites only" in outcome.notes


def test_names_with_odd_characters(distance_summary: MethodRun) -> None:
    odd = "Aus b'us\" (x): a,b; c|d/é\t<script>alert(1)</script> " + "y" * 300
    records = [record(1, odd), record(2, odd, record_id='R"2\n<b>'), record(3, "Aus \x00bus\u2028cus")]
    outcome = done(distance_summary(records))
    assert comparisons(outcome) == [1, 2, 0, 3]
    assert len(outcome.table("species.tsv")) == 2
    assert "<script>alert" not in outcome.report
    assert "<b>" not in outcome.report
    fasta = (outcome.dir / "alignment.fasta").read_text(encoding="utf-8")
    assert fasta.count(">") - fasta.count("<b>") == 3
    assert len(fasta.splitlines()) == 6


def test_lower_case_and_rna(distance_summary: MethodRun) -> None:
    records = five()
    plain = done(distance_summary(records))
    records = [{**r, "nuc": r["nuc"].lower().replace("t", "u")} for r in records]
    assert (done(distance_summary(records)).dir / "summary.tsv").read_bytes() == (
        plain.dir / "summary.tsv"
    ).read_bytes()


def test_byte_order_mark_windows_line_ends_and_blank_lines(distance_summary: MethodRun) -> None:
    lines = b"\r\n\r\n".join(json.dumps(r).encode() for r in five())
    assert comparisons(done(distance_summary(b"\xef\xbb\xbf" + lines))) == [2, 2, 6, 10]


def test_lines_that_are_no_records(distance_summary: MethodRun) -> None:
    lines = b"\n".join(json.dumps(r).encode() for r in five())
    outcome = done(distance_summary(b'{"half":\n' + lines + b"\n<html>"))
    bad = outcome.rows("records_left_out.jsonl")
    assert [(one["line"], one["reason"]) for one in bad] == [(1, "bad_line"), (7, "bad_line")]
    assert "Lines that are no records: 2" in outcome.notes
    refused(distance_summary(b"<html>\n<body>503</body>\n"), "0 of 2 records can be used")


def test_unknown_keys_odd_coordinates_and_a_field_of_five_megabytes(distance_summary: MethodRun) -> None:
    records = five()
    records[0].update(coord=None, **{"a key of the future": {"x": [1]}})
    records[1].update(coord="[18.677, -88.395]", notes="x" * (5 << 20))
    assert comparisons(done(distance_summary(records))) == [2, 2, 6, 10]


def test_sequences_with_strange_letters_and_breaks(distance_summary: MethodRun) -> None:
    records = five()
    records[0]["nuc"] = records[0]["nuc"][:300] + "\n*?!" + records[0]["nuc"][304:]
    outcome = done(distance_summary(records))
    assert "no nucleotides, read as N: 1." in outcome.notes


def test_ambiguous_sequences_can_be_left_out(distance_summary: MethodRun) -> None:
    records = five()
    records[2]["nuc"] = "N" * 20 + records[2]["nuc"][20:300] + "R" * 40 + records[2]["nuc"][340:]
    assert comparisons(done(distance_summary(records, max_ambiguous_percent=5)))[-1] == 6
    assert comparisons(done(distance_summary(records)))[-1] == 10


def test_interim_names_can_be_left_out(distance_summary: MethodRun) -> None:
    records = [*five(), record(6, "Aus sp. 1"), record(7, "Aus sp. 1")]
    assert comparisons(done(distance_summary(records)))[0] == 3
    assert comparisons(done(distance_summary(records, exclude_interim_names=True)))[0] == 2


def test_a_reversed_sequence_is_told(distance_summary: MethodRun) -> None:
    flipped = WHOLE[::-1].translate(str.maketrans("ACGT", "TGCA"))
    outcome = done(distance_summary([*five(), record(6, nuc=flipped)]))
    assert "The reverse complement fits far better for TEST006-26.COI-5P" in outcome.notes


def test_a_wrong_parameter_is_refused(distance_summary: MethodRun) -> None:
    refused(distance_summary(five(), distance_model="gtr"), "distance_model must be one of k2p, jc69, p")


def test_a_list_of_pairs_that_is_too_long_keeps_the_extremes(distance_summary: MethodRun) -> None:
    records = [record(n, f"Aus {'abcde'[n % 5]}us") for n in range(40)]
    whole = done(distance_summary(records)).table("pairs.tsv")
    cut = done(distance_summary(records, pair_list_limit=60)).table("pairs_top.tsv")
    assert len(cut) == 40
    for level, reverse in (("species", True), ("genus", False)):
        expected = sorted(
            (float(p["distance_percent"]) for p in whole if p["level"] == level), reverse=reverse
        )[:20]
        assert [float(p["distance_percent"]) for p in cut if p["level"] == level] == expected


def test_the_same_records_give_the_same_files(distance_summary: MethodRun) -> None:
    first, second = done(distance_summary(five())), done(distance_summary(five()))
    for name in FILES:
        assert (first.dir / name).read_bytes() == (second.dir / name).read_bytes(), name


# --- size, and the way it runs ---


def test_five_thousand_records(distance_summary: MethodRun) -> None:
    """Few enough different sequences that the test is quick, many enough records that blocks are crossed."""
    random = np.random.default_rng(7)
    species = [mutated(WHOLE, 1000 + n, 0.08) for n in range(40)]
    haplotypes = [
        [mutated(text, 2000 + 10 * n + k, 0.005) for k in range(30)] for n, text in enumerate(species)
    ]
    records = []
    for n in range(5000):
        at = int(random.integers(40))
        name = f"G{'abcd'[at % 4]}us {chr(97 + at // 4)}us"
        records.append(record(n, name, nuc=haplotypes[at][int(random.integers(30))]))
    outcome = done(distance_summary(records))
    assert comparisons(outcome)[-1] == 5000 * 4999 // 2
    assert outcome.json("run.json")["distances"]["different_sequences"] <= 1200


def run_by_orchestrator(job: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "JOB_DIR": str(job),
        "METHOD_DIR": str(ROOT / "methods" / "distance_summary"),
        "PATH": "",  # no MAFFT
        "PYTHONPATH": str(ROOT / "methods" / "_shared"),
    }
    command = [sys.executable, str(ROOT / "aioanalysis" / "orchestrator.py")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


def test_the_sample_runs_under_the_orchestrator(tmp_path: Path) -> None:
    sample = ROOT / "methods" / "distance_summary" / "sample"
    for name in ("params.json", "records.jsonl"):
        (tmp_path / name).write_bytes((sample / name).read_bytes())
    ran = run_by_orchestrator(tmp_path)
    assert ran.returncode == 0, ran.stdout
    status = json.loads((tmp_path / "status.json").read_text())
    assert [stage["exit_code"] for stage in status["stages"]] == [0] * 5
    with (tmp_path / "summary.tsv").open(encoding="utf-8", newline="") as file:
        labels = [row["label"] for row in csv.DictReader(file, delimiter="\t")]
    assert labels[:2] == ["Within Species", "Within Genus"]
    assert {path.name for path in tmp_path.iterdir()} == FILES | {"status.json", "progress.json", "job.log"}


def test_a_refusal_reaches_error_json(tmp_path: Path) -> None:
    (tmp_path / "params.json").write_text("{}")
    (tmp_path / "records.jsonl").write_text(json.dumps(record(1)) + "\n")
    assert run_by_orchestrator(tmp_path).returncode == 1
    error = json.loads((tmp_path / "error.json").read_text())
    assert error["script"] == "1_read.py"
    assert "Nothing can be compared: 1 of 1 records can be used, 2 are needed." in error["error"]


def test_the_sample_is_what_the_script_makes(tmp_path: Path) -> None:
    script = ROOT / "scripts" / "simulate_records"
    made = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for path in made:
        subprocess.run(
            [sys.executable, str(script), "--records", "50", str(path)], check=True, capture_output=True
        )
    assert made[0].read_bytes() == made[1].read_bytes()
    sample = (ROOT / "methods" / "distance_summary" / "sample" / "records.jsonl").read_text(encoding="utf-8")
    records = [json.loads(line) for line in sample.splitlines()]
    assert len(records) == 123
    assert all("SIMULATED" in r["inst"] for r in records)
    assert len({r["record_id"] for r in records}) == 123
