"""Identification: statuses, ties, passes, strands, references, numbers of Biopython and spider."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from barcode.distances import Rule
from barcode.identify import Hit, judge
from barcode.library import best_close_match, errors, near_neighbour, nearest, threshold_match
from barcode.reference import UnreadableError, as_json_lines
from barcode.search import Library
from barcode.sequences import encode, read_sequence, reverse_complement
from Bio.Align import PairwiseAligner
from typer.testing import CliRunner

from aioanalysis.cli import app
from tests.methods.conftest import ROOT, MethodRun, Outcome, read_csv, read_fasta
from tests.methods.test_alignment import mutated, random_sequence
from tests.methods.test_distance_summary import refused
from tests.methods.test_distances import MODELS
from tests.methods.test_edges import WHOLE, lines, placed, sound
from tests.support.parts import require

Method = Callable[[str], MethodRun]
OTHER = mutated(WHOLE, 77, 0.12)
SAMPLE = ROOT / "methods" / "identification" / "sample" / "records.jsonl"


def fasta(*entries: tuple[str, str]) -> str:
    return "".join(f">{header}\n{nuc}\n" for header, nuc in entries)


REFERENCE = fasta(
    ("LIB1|Aus bus|COI-5P|BOLD:AAA0001", WHOLE),
    ("LIB2|Aus_bus", mutated(WHOLE, 2, 0.003)),
    ("LIB3 Aus cus voucher 7", OTHER),
)


def done(outcome: Outcome) -> dict[str, dict[str, str]]:
    assert outcome.code == 0, outcome.printed
    sound(outcome)
    return {row["query_record_id"]: row for row in outcome.table("identification.tsv")}


def one(outcome: Outcome) -> dict[str, str]:
    (row,) = done(outcome).values()
    return row


def changed(nuc: str, at: int, letters: int) -> str:
    others = "".join("ACGT"[("ACGT".index(letter) + 1) % 4] for letter in nuc[at : at + letters])
    return nuc[:at] + others + nuc[at + letters :]


MANY = fasta(
    *((f"N{n}|Aus bus", WHOLE[:640] + "ACGT"[n % 4] * (n % 3) + WHOLE[640:]) for n in range(9)),
    *((f"M{n}|Aus bus", changed(WHOLE, n, 1)) for n in range(150)),
    ("OTHER|Aus cus", changed(WHOLE, 300, 3)),
)

# --- statuses ---


def test_a_match_an_ambiguity_and_no_match(method: Method) -> None:
    run = method("identification")
    query = placed(1, nuc=mutated(WHOLE, 5, 0.002))
    found = one(run([query], reference=REFERENCE))
    assert (found["status"], found["name"], found["name_rank"]) == ("match", "Aus bus", "species")
    assert (found["hits_within_threshold"], found["agrees_with_own_species"]) == ("2", "yes")
    twin = fasta(("LIB4|Aus dus", WHOLE))
    found = one(run([query], reference=REFERENCE + twin))
    assert (found["status"], found["name"]) == ("ambiguous", "")
    assert found["names_within_threshold"] == "Aus bus (2)|Aus dus (1)"
    far = one(run([placed(1, nuc=mutated(WHOLE, 6, 0.04))], reference=REFERENCE))
    assert (far["status"], far["suggested_rank"], far["suggested_name"]) == ("no match", "genus", "Aus")
    assert far["pass"] == "2"


def test_no_hit_at_all_is_a_normal_result(method: Method) -> None:
    outcome = method("identification")([placed(1, nuc=random_sequence(99))], reference=REFERENCE)
    found = one(outcome)
    assert (found["status"], found["best_hits"], found["best_identity_percent"]) == ("no match", "0", "")
    assert "No query has any hit" in outcome.notes


def test_no_sequence_and_too_short_are_statuses_too(method: Method) -> None:
    records = [placed(1), placed(2, nuc=None), placed(3, nuc="N" * 300), placed(4, nuc=WHOLE[:150])]
    found = done(method("identification")(records, reference=REFERENCE))
    statuses = {name[:7]: row["status"] for name, row in found.items()}
    assert statuses["TEST002"] == statuses["TEST003"] == "no sequence"
    assert statuses["TEST004"] == "too short"
    assert len(found) == 4


def test_the_threshold_asked_for_is_the_one_in_force(method: Method) -> None:
    query = placed(1, nuc=mutated(WHOLE, 6, 0.04))
    found = one(method("identification")([query], reference=REFERENCE, match_identity_percent=90))
    assert (found["status"], found["name"]) == ("match", "Aus bus")
    low = method("identification")([query], reference=REFERENCE, second_identity_percent=99)
    assert one(low)["best_hits"] == "0"
    assert "Hits below 99 % identity" in low.report


def test_incomplete_taxonomy_still_answers() -> None:
    def hit(**row: Any) -> Hit:
        return Hit(row={"record_id": "x", **row}, sites=600, differences=0, reverse=False)

    assert judge([hit(genus="Aus")], 99).rank == "genus"
    assert judge([hit(genus="Aus"), hit(species="Aus bus", genus="Aus")], 99).names == {"Aus bus": 1}
    assert judge([hit(phylum="Aa")], 99).rank == "phylum"
    assert judge([hit()], 99).status == "no match"
    assert judge([], 99).suggestion is None


def test_ties_have_one_order_and_are_told(method: Method) -> None:
    entries = [(f"L{n}|Aus {name}", WHOLE) for n, name in ((3, "cus"), (1, "bus"), (2, "bus"))]
    outcome = method("identification")([placed(9, nuc=WHOLE)], reference=fasta(*entries))
    found = one(outcome)
    assert (found["best_hits"], found["best_names"]) == ("3", "Aus bus (2)|Aus cus (1)")
    assert [row["record_id"] for row in outcome.table("hits.tsv")] == ["L1", "L2", "L3"]


def test_a_query_is_never_its_own_hit(method: Method) -> None:
    records = [placed(1, nuc=WHOLE), placed(2, nuc=WHOLE), placed(3, "Aus cus", nuc=OTHER)]
    outcome = method("identification")(records)
    found = done(outcome)
    assert [row["status"] for row in found.values()] == ["match", "match", "no match"]
    assert all(row["query_record_id"] != row["record_id"] for row in outcome.table("hits.tsv"))
    refused(method("identification")(records[:1]), "would be its own library")


def test_a_reversed_query_and_one_full_of_ambiguity_are_flagged(method: Method) -> None:
    flipped = reverse_complement(read_sequence(WHOLE)).tobytes().decode()
    vague = WHOLE[:300] + "R" * 20 + WHOLE[320:]
    outcome = method("identification")([placed(1, nuc=flipped), placed(2, nuc=vague)], reference=REFERENCE)
    first, second = done(outcome).values()
    assert (first["status"], first["flags"]) == ("match", "reverse complement")
    assert (second["status"], second["flags"]) == ("match", "ambiguous bases")
    assert {row["strand"] for row in outcome.table("hits.tsv")} == {"reverse", "forward"}


def test_a_reversed_record_is_named_by_the_other_strand_though_it_is_in_the_library_itself(
    method: Method,
) -> None:
    flipped = reverse_complement(read_sequence(mutated(WHOLE, 4, 0.003))).tobytes().decode()
    records = [placed(1, nuc=flipped), placed(2, nuc=WHOLE), placed(3, "Aus cus", nuc=OTHER)]
    first, *_ = done(method("identification")(records)).values()
    assert (first["status"], first["name"], first["flags"]) == ("match", "Aus bus", "reverse complement")


# --- references ---


def test_a_recordset_of_the_job_can_be_the_library(method: Method) -> None:
    records = [
        placed(n, nuc=WHOLE, bold_recordset_code_arr=["DS-LIB"] if n else "['DS-NEW']") for n in range(3)
    ]
    found = done(method("identification")(records, reference_recordset="DS-LIB"))
    assert [name[:7] for name in found] == ["TEST000"]
    refused(method("identification")(records, reference_recordset="DS-NONE"), "The library is empty")


def test_a_library_of_ones_own_goes_with_the_queries_as_the_readme_says(
    method: Method, tmp_path: Path
) -> None:
    readme = (ROOT / "methods" / "identification" / "README.md").read_text(encoding="utf-8")
    (tmp_path / "library.fasta").write_text(
        fasta(("LIB1|Aus bus|BOLD:AAA0001", WHOLE), ("LIB2|Aus cus", OTHER))
    )
    (tmp_path / "queries.fasta").write_text(fasta(("Q1", mutated(WHOLE, 5, 0.002)), ("Q2", OTHER)))
    with contextlib.chdir(tmp_path):
        for line in re.findall(r"^ *aioanalysis (records convert .*)$", readme, re.MULTILINE):
            done_so = CliRunner().invoke(app, line.split(), catch_exceptions=False)
            assert done_so.exit_code == 0, done_so.output
    both = b"".join((tmp_path / name).read_bytes() for name in ("queries.jsonl", "library.jsonl"))
    found = done(method("identification")(both, reference_recordset="MY-LIBRARY"))
    assert [(row["status"], row["name"]) for row in found.values()] == [
        ("match", "Aus bus"),
        ("match", "Aus cus"),
    ]


def test_a_file_in_the_package_can_be_the_library(method: Method) -> None:
    run = method("identification")
    refused(run([placed(1)], reference_file="none.fasta"), "There is no reference file none.fasta")
    refused(run([placed(1)], reference_file="../x"), "the name of one file")
    refused(run([placed(1)], reference_file="records.jsonl"), "the name of one file")
    run.files["lib.jsonl"] = lines([placed(7), placed(8)])
    outcome = run([placed(1)], reference_file="lib.jsonl")
    assert len(done(outcome)) == 1
    assert outcome.json("run.json")["library"]["used"] == 2


def test_a_reference_that_is_neither_fasta_nor_json_lines_is_refused(method: Method) -> None:
    run = method("identification")
    refused(run([placed(1)], reference="<html>"), "The reference cannot be read")
    refused(run([placed(1)], reference=">x\n" + "N" * 400), "The library is empty")
    refused(run([placed(1)], reference=REFERENCE, reference_recordset="X"), "One reference is wanted, not 2")
    refused(run([placed(1), placed(2)], engine="vsearch"), "vsearch is not installed here")


def test_headers_of_fasta_are_read_as_they_come() -> None:
    text = ">A|COI-5P|BOLD:AAA1234|Aus_bus\nAC\nGT\n>B Aus bus isolate 5\nacgt\n\n>C|Aidae\nA\n>\nA\n"
    rows = [json.loads(line) for line in as_json_lines(text.replace("\n", "\r\n").encode(), "16S")]
    assert [row["marker_code"] for row in rows] == ["COI-5P", "16S", "16S", "16S"]
    assert rows[0] | {"nuc": "ACGT"} == rows[0]
    assert [row.get("species") for row in rows] == ["Aus bus", "Aus bus", None, None]
    assert (rows[0]["bin_uri"], rows[2]["identification"], rows[3]["record_id"]) == (
        "BOLD:AAA1234",
        "Aidae",
        "unnamed",
    )
    with pytest.raises(UnreadableError):
        list(as_json_lines(b"ACGT", "COI-5P"))


def test_the_reference_is_not_repeated_in_what_is_left(method: Method) -> None:
    outcome = method("identification")([placed(1)], reference=REFERENCE)
    assert WHOLE not in (outcome.dir / "run.json").read_text(encoding="utf-8")
    assert "SHA-256" in outcome.json("run.json")["library"]["kind"]


# --- numbers ---


def test_identity_and_overlap_are_those_of_a_pairwise_alignment() -> None:
    """Against Biopython's aligner with the same scores, for substitutions, gaps, ragged ends and reversal."""
    aligner = PairwiseAligner(mode="global", match_score=5, mismatch_score=-4)
    aligner.open_internal_gap_score, aligner.extend_internal_gap_score = -30, -3
    aligner.end_gap_score = 0
    random = np.random.default_rng(11)
    pieces = []
    for n in range(30):
        text = mutated(WHOLE, n, 0.02 * (n % 5))
        begin, cut = (
            int(random.integers(0, 60)),
            int(random.integers(200, 400) if n % 2 else random.integers(590, 640)),
        )
        text = text[begin:cut] + text[cut + 3 * (n % 3) :]
        pieces.append(read_sequence(text))
    library, query = Library(pieces), read_sequence(WHOLE[30:])
    hits = library.compare(query, np.arange(30), 1, floor=88)
    assert hits.target.size == 30
    for target, sites, differences in zip(hits.target, hits.sites, hits.differences, strict=True):
        pair = aligner.align(query.tobytes().decode(), pieces[target].tobytes().decode())[0]
        columns = [(a, b) for a, b in zip(pair[0], pair[1], strict=True) if "-" not in (a, b)]
        assert (sites, differences) == (len(columns), sum(a != b for a, b in columns))


def test_more_haplotypes_than_candidates_hide_no_second_name(method: Method) -> None:
    """150 sequences of one species nearer than the one of another, which is within the threshold too."""
    found = one(method("identification")([placed(1, nuc=WHOLE)], reference=MANY))
    assert (found["status"], found["hits_within_threshold"]) == ("ambiguous", "160")


def test_the_second_pass_finds_what_the_first_cannot(method: Method) -> None:
    query = placed(1, nuc=mutated(WHOLE, 8, 0.2))
    found = one(method("identification")([query], reference=REFERENCE))
    assert found["pass"] == "2"
    assert 76 < float(found["best_identity_percent"]) < 84


def folder_of(tmp_path: Path) -> Path:
    folder = tmp_path / "identification"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("engine", ["vsearch", "blastn"])
def test_other_programs_find_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Literal["vsearch", "blastn"]
) -> None:
    """Near hits of records with what real ones lack, some reversed; every status, name and number."""
    require(engine)
    run = MethodRun(folder_of(tmp_path), monkeypatch, "identification")
    records = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
    for one in records[::10]:
        one["nuc"] = reverse_complement(read_sequence(one["nuc"])).tobytes().decode() if one["nuc"] else None
    chosen = {"second_identity_percent": 95, "library_check": False}
    ours, theirs = (run(records, engine=name, **chosen) for name in ("builtin", engine))
    assert engine in theirs.json("run.json")["search"]["engine"]
    assert len(ours.table("hits.tsv")) > 100
    for name in ("identification.tsv", "hits.tsv"):
        assert ours.table(name) == theirs.table(name)


@pytest.mark.parametrize("engine", ["vsearch", "blastn"])
def test_a_program_that_gives_its_most_hides_no_second_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Literal["vsearch", "blastn"]
) -> None:
    require(engine)
    run = MethodRun(folder_of(tmp_path), monkeypatch, "identification")
    found = one(run([placed(1, nuc=WHOLE)], reference=MANY, engine=engine))
    assert (found["status"], found["hits_within_threshold"]) == ("ambiguous", "160")


# --- the library check ---


@pytest.mark.parametrize("name", ["anoteropsis", "streptocephalus_mafft"])
@pytest.mark.parametrize("model", ["raw", "K80"])
@pytest.mark.parametrize("deletion", ["pairwise", "complete"])
def test_the_library_check_is_spiders(reference: Path, name: str, model: str, deletion: str) -> None:
    folder = reference / "reference-numbers" / name
    sequences = read_fasta(folder / "input.fasta")
    names = {row["id"]: row["species"] for row in read_csv(folder / "species.csv")}  # "" is a name to spider
    numbers: dict[str, int] = {}
    species = np.array([numbers.setdefault(names[one], len(numbers)) for one in sequences])
    codes = encode(np.array([read_sequence(nuc) for nuc in sequences.values()]))
    found = nearest(codes, species, Rule(model=MODELS[model], deletion=deletion), lambda done: None)
    verdicts = zip(
        near_neighbour(found), best_close_match(found, 0.01), threshold_match(found, 0.01), strict=True
    )
    rows = {row["id"]: row for row in read_csv(folder / f"spider_{model}_{deletion}.csv")}
    for n, (one, (neighbour, close, within)) in enumerate(zip(sequences, verdicts, strict=True)):
        row = rows[one]
        assert (row["nearNeighbour"] == "TRUE") == (neighbour == "correct")
        assert (row["bestCloseMatch_1pct"], row["threshID_1pct"]) == (close, within)
        for key, value in (("nonConDist", found.other_min), ("maxInDist", found.within_max)):
            expected = float("nan") if row[key] in {"NA", "Inf"} else float(row[key])
            assert value[n] == pytest.approx(expected, abs=1e-9, nan_ok=True)
    for row in read_csv(folder / f"threshOpt_{model}_{deletion}.csv"):
        counts = [
            int(row[key]) for key in ("True neg", "True pos", "False neg", "False pos", "Cumulative error")
        ]
        assert list(errors(found, float(row["Threshold"])).values()) == counts


def test_a_library_of_one_species_is_not_checked_and_says_so(method: Method) -> None:
    outcome = method("identification")([placed(n) for n in range(4)])
    assert "fewer than two species" in outcome.notes
    assert not (outcome.dir / "library_check.tsv").exists()
