"""Correlates within each group; pairs.tsv where the list is short enough."""

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from barcode.distances import Rule, common_columns, square
from barcode.geography import correlation, mantel, spanning_tree_km, square_km
from barcode.groups import Groups
from barcode.job import Job, read_jsonl, run_stage
from barcode.rules import rule_of
from barcode.sequences import Bytes, encode
from barcode.size import must_fit
from barcode.tables import write_tsv

PAIR_COLUMNS = ("group", "record_id_a", "record_id_b", "distance_km", "genetic_distance_percent")
BASE_BYTES = 96 << 20
PAIR_BYTES = 110  # two matrices, indices of pairs, permuted values
PAIR_SECONDS = 1.2e-8  # for one pair in one permutation
SHOWN = 400  # points of a group in the plot


def stage(job: Job) -> None:
    records, codes = read_jsonl(job.dir / "records_used.jsonl"), encode(np.load(job.work / "alignment.npy"))
    groups, rule, chosen = Groups.by(records, "group"), rule_of(job), job.parameters
    coordinates = np.array([record["coord"] for record in records])
    pairs = groups.sizes * (groups.sizes - 1) // 2
    total, largest = int(pairs.sum()), int(pairs.max())
    needs = must_fit(
        job,
        f"{len(groups.names):,} groups with {total:,} pairs (the largest {largest:,}) and "
        f"{chosen['permutations']:,} permutations",
        memory_bytes=BASE_BYTES + 2 * codes.size + largest * PAIR_BYTES,
        seconds=total * chosen["permutations"] * PAIR_SECONDS + len(groups.names) * 0.01,
    )
    results: list[dict[str, Any]] = []
    done = 0
    for name, members in zip(groups.names, groups.members(), strict=True):
        one = correlate(name, codes[members], coordinates[members], rule, chosen)
        results.append(one)
        done += members.size
        job.progress(done, len(records), "correlating")
    whole = total <= chosen["pair_list_limit"]
    if whole:
        rows = pair_rows(codes, coordinates, records, groups, rule)
        write_tsv(job.dir / "pairs.tsv", PAIR_COLUMNS, rows)
    else:
        job.note("note", f"There are {total:,} pairs, more than pair_list_limit: they are not listed.")
    job.save("results", results)
    job.save("spread", spread(results, chosen))
    job.save("pairs", {"total": total, "listed": total if whole else 0, "estimate": needs})
    notes(job, results)


def correlate(
    name: str, codes: Bytes, coordinates: np.ndarray[Any, Any], rule: Rule, chosen: dict[str, Any]
) -> dict[str, Any]:
    genetic, km = square(codes, rule), square_km(coordinates)
    found = mantel(genetic, km, chosen["permutations"], random_of(chosen["seed"], name))
    upper = np.triu_indices(len(codes), 1)
    apart, distances = km[upper], genetic[upper]
    defined = ~np.isnan(distances)
    chosen_ones = np.flatnonzero(defined)[:: max(1, int(defined.sum()) // SHOWN)]
    return {
        "group": name,
        "records": len(codes),
        "sites": len(np.unique(coordinates, axis=0)),
        "pairs": found.pairs,
        "undefined": int((~defined).sum()),
        "columns": int(common_columns(codes, rule.deletion).sum()),
        "max_km": apart.max(),
        "mean_km": apart.mean(),
        "spanning_tree_km": spanning_tree_km(coordinates),
        "max_distance": distances[defined].max() if found.pairs else None,
        "mean_distance": distances[defined].mean() if found.pairs else None,
        "r": found.r,
        "p_greater": found.p_greater,
        "p_two_sided": found.p_two_sided,
        "why": found.why,
        "points": [apart[chosen_ones], 100 * distances[chosen_ones]],
    }


def random_of(seed: int, name: str) -> np.random.Generator:
    """A group's own stream, the same whichever other groups there are."""
    return np.random.default_rng([seed, zlib.crc32(name.encode("utf-8", "replace"))])


def spread(results: list[dict[str, Any]], chosen: dict[str, Any]) -> dict[str, Any]:
    """Over groups with a distance: length of the spanning tree of sites against the largest distance."""
    some = [one for one in results if one["max_distance"] is not None]
    values = np.array([one["max_distance"] for one in some], np.float64)
    lengths = np.array([one["spanning_tree_km"] for one in some], np.float64)
    found = correlation(values, lengths, chosen["permutations"], random_of(chosen["seed"], ""))
    return {"groups": found.groups, "r": found.r, "p_two_sided": found.p_two_sided, "why": found.why}


def pair_rows(
    codes: Bytes, coordinates: np.ndarray[Any, Any], records: list[dict[str, Any]], groups: Groups, rule: Rule
) -> Iterator[list[object]]:
    for name, members in zip(groups.names, groups.members(), strict=True):
        genetic, km = square(codes[members], rule), square_km(coordinates[members])
        for a in range(members.size):
            for b in range(a + 1, members.size):
                ids = records[members[a]]["record_id"], records[members[b]]["record_id"]
                yield [name, *ids, float(km[a, b]), float(100 * genetic[a, b])]


def notes(job: Job, results: list[dict[str, Any]]) -> None:
    without: dict[str, list[str]] = {}
    for one in results:
        if one["why"]:
            without.setdefault(one["why"], []).append(one["group"])
    for why, names in without.items():
        told = ", ".join(names[:5]) + (" and more" if len(names) > 5 else "")
        job.note("note", f"Groups without a correlation, {why}: {len(names)} of {len(results)} ({told}).")
    if undefined := sum(one["undefined"] for one in results):
        job.note("warning", f"Pairs without a genetic distance, left out: {undefined:,}.")
    if any(one["records"] < 6 for one in results):
        job.note(
            "note",
            "Small groups have few different orders: with 3 records 6, with 4 24, with 5 120. Their p-values "
            "cannot become small.",
        )


if __name__ == "__main__":
    run_stage(stage)
