"""What users report of such tools (DOMAIN 6), by its number: where it is tested, and the rest here."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.methods.conftest import ROOT, MethodRun
from tests.methods.test_alignment import mutated
from tests.methods.test_distance_summary import refused
from tests.methods.test_edges import METHODS, WHOLE, placed
from tests.methods.test_identification import done, fasta, folder_of, one
from tests.support.parts import require

Method = Callable[[str], MethodRun]
HTTP, PORTAL, DATA = (f"contract/test_record_store_{name}" for name in ("http", "bold_portal", "bold_data"))
TABLES, FASTA = "unit/conversion/test_tables", "unit/conversion/test_fasta"

# Number in DOMAIN 6: the tests that hold it.
FAULTS: dict[int, tuple[str, ...]] = {
    1: (f"{DATA}::test_ids_without_records_are_counted_and_named",),
    2: (
        f"{HTTP}::test_a_refusal_fails_the_job_with_the_stores_own_words",
        f"{DATA}::test_ids_go_in_batches_of_five_thousand_each_once",
    ),
    3: (
        f"{HTTP}::test_a_page_or_an_error_with_status_200_is_a_fault_and_never_data",
        f"{PORTAL}::test_a_page_or_an_error_with_status_200_is_no_data",
    ),
    4: (f"{DATA}::test_a_page_that_failed_is_asked_for_again_and_nothing_of_it_is_kept",),
    5: (f"{FASTA}::test_names_in_latin1_are_read_and_told", f"{TABLES}::test_utf8_in_v4_is_read_as_such"),
    6: (f"{TABLES}::test_a_record_split_by_a_newline_and_an_error_within_are_named",),
    7: (f"{TABLES}::test_a_stray_quote_costs_its_own_row_only",),
    8: (f"{HTTP}::test_what_is_passing_is_tried_again", f"{DATA}::test_pauses_grow"),
    9: (
        f"{PORTAL}::test_fewer_than_were_announced_are_a_fault",
        f"{DATA}::test_ids_without_records_are_counted_and_named",
    ),
    10: (
        f"{DATA}::test_a_full_page_is_followed_by_the_next_and_duplicates_across_pages_go",
        f"{PORTAL}::test_more_than_a_download_gives_is_refused_with_the_number",
    ),
    11: ("methods/test_records::test_a_record_is_left_out_for_the_first_reason_that_fits",),
    12: (f"{DATA}::test_an_answer_of_another_shape_is_a_fault",),
    13: ("methods/test_identification::test_no_hit_at_all_is_a_normal_result",),
    14: ("methods/test_identification::test_the_threshold_asked_for_is_the_one_in_force",),
    15: ("methods/test_identification::test_incomplete_taxonomy_still_answers",),
    16: ("methods/test_reported_faults::test_long_and_odd_ids_never_reach_a_search_program",),
    17: ("methods/test_reported_faults::test_no_match_is_the_same_for_every_marker",),
    18: ("methods/test_identification::test_ties_have_one_order_and_are_told",),
    19: ("methods/test_records::test_fillers_are_no_names",),
    20: ("methods/test_reported_faults::test_a_library_without_a_single_name_is_refused",),
    21: ("methods/test_reported_faults::test_padding_with_n_is_padding_with_gaps",),
    22: ("methods/test_reported_faults::test_only_models_that_are_checked_are_offered",),
    23: ("methods/test_distance_summary::test_complete_deletion_says_how_many_sites_it_leaves",),
    24: ("methods/test_reported_faults::test_no_sentinel_is_in_a_mean",),
    25: ("methods/test_distances::test_every_pair_has_the_distance_and_the_counts_of_ape",),
    26: ("methods/test_distances::test_distances_are_those_of_scikit_bio",),
    27: ("methods/test_distance_summary::test_no_common_sites",),
    28: ("methods/test_distance_summary::test_saturated_pairs",),
    29: ("methods/test_taxon_id_tree::test_negative_branches_are_kept_or_set_to_zero",),
    30: ("methods/test_nj::test_odd_labels_are_read_back_by_two_readers",),
    31: (
        "methods/test_taxon_id_tree::test_a_missing_distance_is_refused_with_names_or_the_worst_record_left_out",
    ),
    32: ("methods/test_nj::test_missing_distances_and_too_few_rows_are_refused",),
    33: (
        "methods/test_edges::test_what_cannot_fit_is_refused_with_numbers",
        "methods/test_distances::test_the_size_of_a_block_changes_nothing",
    ),
    34: ("methods/test_records::test_of_records_with_one_id_the_first_is_kept_and_markers_do_not_collide",),
    35: (
        f"{TABLES}::test_quotes_are_characters_and_join_nothing",
        "methods/test_record_export::test_tsv_has_one_line_a_record_and_can_be_read_again",
    ),
    36: ("methods/test_reported_faults::test_a_measure_in_a_table_has_its_unit_in_the_columns_name",),
    37: (
        "methods/test_barcode_gap::test_a_species_with_one_sequence_has_no_distance_within_but_a_neighbour",
    ),
}
# What is no count and ends in none of these is a pure number.
UNITS = ("_percent", "_km", "_kinds", "_bp")
PURE = {"mantel_r", "pearson_r", "p_greater", "p_two_sided", "name_share"}
PURE |= {"within_species_share_normalised_by_species"}


@pytest.mark.parametrize("number", range(1, 38))
def test_every_fault_has_a_test_by_name(number: int) -> None:
    for held in FAULTS[number]:
        module, _, name = held.partition("::")
        tree = ast.parse((ROOT / "tests" / f"{module}.py").read_text(encoding="utf-8"))
        assert name in {getattr(node, "name", None) for node in ast.walk(tree)}, held


def test_long_and_odd_ids_never_reach_a_search_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("vsearch")
    run = MethodRun(folder_of(tmp_path), monkeypatch, "identification")
    name = "a;b|c>d é " + "x" * 300
    found = one(
        run([placed(1, record_id=name)], reference=fasta((f"{name}L|Aus bus", WHOLE)), engine="vsearch")
    )
    assert found["query_record_id"] == name


@pytest.mark.parametrize("marker", ["COI-5P", "16S", "rbcL", "ITS2", "a marker of tomorrow"])
def test_no_match_is_the_same_for_every_marker(method: Method, marker: str) -> None:
    query = placed(1, marker_code=marker, nuc=mutated(WHOLE, 9, 0.3))
    found = one(method("identification")([query], reference=fasta(("L1|Aus bus", WHOLE)), marker=marker))
    assert (found["status"], found["name"], found["hits_within_threshold"]) == ("no match", "", "0")


def test_a_library_without_a_single_name_is_refused(method: Method) -> None:
    run = method("identification")
    nameless = fasta(("A", WHOLE), ("B", mutated(WHOLE, 2, 0.1)))
    refused(run([placed(1, nuc=WHOLE)], reference=nameless), "Not one of the 2 library records has a name")
    unnamed = [placed(n, None, nuc=WHOLE, genus=None, family=None) for n in range(3)]
    outcome = run(unnamed)
    assert "Not one of the 3 library records has a name" in outcome.notes
    assert {row["flags"] for row in done(outcome).values()} == {"hits without a name"}


def test_padding_with_n_is_padding_with_gaps(method: Method) -> None:
    pieces = [mutated(WHOLE, n, 0.02)[: 500 + 20 * n] for n in range(4)]
    tables = []
    for letter in "-N":
        records = [placed(n, nuc=letter * 30 + piece.ljust(658, letter)) for n, piece in enumerate(pieces)]
        outcome = method("distance_summary")(records, max_ambiguous_percent=1)
        assert outcome.code == 0, outcome.printed
        assert {row["ambiguous_percent"] for row in outcome.rows("records_used.jsonl")} == {0.0}
        tables.append(outcome.table("pairs.tsv"))
    assert tables[0] == tables[1]


@pytest.mark.parametrize("title", [*sorted(METHODS), "distance_summary"])
def test_only_models_that_are_checked_are_offered(title: str) -> None:
    schema = json.loads((ROOT / "methods" / title / "method.json").read_text(encoding="utf-8"))["parameters"]
    assert set(schema["properties"].get("distance_model", {}).get("enum", [])) <= {"p", "jc69", "k2p"}


def test_no_sentinel_is_in_a_mean(method: Method) -> None:
    """One of three pairs has no common site; the mean is that of the two others."""
    nucs = [WHOLE[:330] + "-" * 328, "-" * 330 + WHOLE[330:], mutated(WHOLE, 1, 0.05)]
    outcome = method("distance_summary")(
        [placed(n, nuc=nuc) for n, nuc in enumerate(nucs)], alignment="as_uploaded"
    )
    defined = [
        float(row["distance_percent"]) for row in outcome.table("pairs.tsv") if row["distance_percent"]
    ]
    within = next(row for row in outcome.table("summary.tsv") if row["label"] == "Within Species")
    assert (within["comparisons"], within["undefined"], len(defined)) == ("2", "1", 2)
    assert float(within["mean_distance_percent"]) == pytest.approx(sum(defined) / 2, abs=1e-9)


@pytest.mark.parametrize("title", [*sorted(METHODS), "distance_summary"])
def test_a_measure_in_a_table_has_its_unit_in_the_columns_name(method: Method, title: str) -> None:
    chosen: dict[str, Any] = METHODS.get(title, {})
    outcome = method(title)(ROOT / "methods" / title / "sample" / "records.jsonl", **chosen)
    assert outcome.code == 0, outcome.printed
    for path in outcome.dir.glob("*.tsv"):
        if path.name == "export.tsv":  # its cells are the user's
            continue
        for row in outcome.table(path.name):
            bare = {name for name in row if not name.endswith(UNITS)} - PURE
            assert not [name for name in bare if is_fraction(row[name])], path.name


def is_fraction(cell: str) -> bool:
    try:
        return not float(cell).is_integer()
    except ValueError:
        return False
