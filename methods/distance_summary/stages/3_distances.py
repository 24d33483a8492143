"""Compares every pair of sequences; keeps summaries, and the list of pairs where it is short enough."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from barcode.distances import REASONS, Rule, all_pairs, group_rows
from barcode.estimate import pairs_seconds
from barcode.job import Job, RefusalError, read_jsonl, run_stage
from barcode.levels import RANKS, Taxa
from barcode.sequences import Bytes, encode
from barcode.size import must_fit
from barcode.summary import ALL, DistanceSummary, Extremes, estimated_bytes
from barcode.tables import write_tsv
from barcode.taxa import Names

Rows = list[dict[str, Any]]

FEW_SITES = 100
SHOWN = 10
PAIR_COLUMNS = (
    "record_id_a",
    "record_id_b",
    "level",
    "sites",
    "transitions",
    "transversions",
    "distance_percent",
    "undefined",
)
LEVEL_NAMES = ("species", "genus", "family", "none")


def stage(job: Job) -> None:
    chosen = job.parameters
    records = read_jsonl(job.dir / "records_used.jsonl")
    codes = encode(np.load(job.work / "alignment.npy"))
    taxa = Taxa([Names(r["species"], r["genus"], r["family"]) for r in records])
    rule = Rule(
        model=chosen["distance_model"], deletion=chosen["deletion"], min_overlap=chosen["min_overlap"]
    )
    limit = chosen["pair_list_limit"]
    total = len(records) * (len(records) - 1) // 2
    whole = total <= limit
    estimate = must_fit(
        job,
        f"{total:,} pairs of {codes.shape[1]:,} columns",
        memory_bytes=estimated_bytes(*codes.shape),
        seconds=pairs_seconds(*codes.shape),
    )
    summary = DistanceSummary(
        codes,
        taxa,
        rule,
        bin_percent=chosen["histogram_bin_percent"],
        extremes=SHOWN if whole else max(SHOWN, limit // 3),
    )
    refuse_nothing_left(summary, codes, records)
    summary.run(lambda done, of: job.progress(done, of, "comparing"))
    kept = extreme_rows(summary, records, limit)
    if whole:
        write_tsv(job.dir / "pairs.tsv", PAIR_COLUMNS, pair_rows(codes, taxa, rule, records))
    else:
        write_tsv(job.dir / "pairs_top.tsv", PAIR_COLUMNS, (row for rows in kept.values() for row in rows))
    job.save("results", results(summary, taxa) | {"estimate": estimate})
    job.save("extremes", {rank: rows[:SHOWN] for rank, rows in kept.items()})
    job.save(
        "pairs", {"total": total, "listed": total if whole else sum(map(len, kept.values())), "whole": whole}
    )
    notes(job, summary, taxa)


def refuse_nothing_left(summary: DistanceSummary, codes: Bytes, records: Rows) -> None:
    """Complete deletion can leave no site at all; say whose sequences cost most."""
    if summary.columns:
        return
    if summary.rule.deletion == "pairwise":
        raise RefusalError("No sequence has a known base in any column.")
    unknown = (codes > 3).sum(axis=1)
    worst = np.argsort(-unknown, kind="stable")[:5]
    told = ", ".join(f"{records[n]['record_id']} ({unknown[n]} of {codes.shape[1]})" for n in worst)
    raise RefusalError(
        "Complete deletion leaves no site: in every column at least one sequence has no known base. "
        f"Most unknown columns: {told}. Leave those records out, or choose deletion: pairwise."
    )


def pair_rows(codes: Bytes, taxa: Taxa, rule: Rule, records: Rows) -> Iterator[tuple[object, ...]]:
    ids = [record["record_id"] for record in records]
    for pairs in all_pairs(codes, rule):
        level = taxa.level(pairs.i, pairs.j)
        for i, j, at, sites, ts, tv, distance, reason in zip(
            pairs.i.tolist(),
            pairs.j.tolist(),
            level.tolist(),
            pairs.sites.tolist(),
            pairs.transitions.tolist(),
            pairs.transversions.tolist(),
            pairs.distance.tolist(),
            pairs.reason.tolist(),
            strict=True,
        ):
            yield (
                ids[i],
                ids[j],
                LEVEL_NAMES[at],
                sites,
                ts,
                tv,
                100 * distance,
                REASONS[reason] if reason else "",
            )


def extreme_rows(summary: DistanceSummary, records: Rows, limit: int) -> dict[str, list[tuple[object, ...]]]:
    """The farthest pairs within species, the nearest within genus and family, as pairs of records."""
    members = summary.records_of()
    each = max(SHOWN, limit // 3)

    def rows(rank: str, extremes: Extremes) -> list[tuple[object, ...]]:
        found: list[tuple[object, ...]] = []
        for distance, i, j, sites, ts, tv in extremes.rows.tolist():
            ones, others = members[int(i)], members[int(j)]
            couples = (
                (min(a, b), max(a, b)) for a in ones.tolist() for b in others.tolist() if i != j or a < b
            )
            for a, b in couples:
                if len(found) == each:
                    return found
                ids = records[a]["record_id"], records[b]["record_id"]
                found.append((*ids, rank, int(sites), int(ts), int(tv), 100 * distance, ""))
        return found

    return {
        "species": rows("species", summary.farthest),
        **{rank: rows(rank, extremes) for rank, extremes in summary.nearest.items()},
    }


def results(summary: DistanceSummary, taxa: Taxa) -> dict[str, object]:
    levels, rows = summary.levels, {}
    for number, name in enumerate((*RANKS, "all")):
        quartiles = summary.quantiles[number].quartiles()
        per_taxon = summary.by_taxon.get(name)
        means = per_taxon.mean[per_taxon.count > 0] if per_taxon is not None else np.zeros(0)
        rows[name] = {
            "sequences": int(taxa.compared(name).sum()) if number != ALL else int(summary.weight.sum()),
            "taxa": int(means.size) if number != ALL else None,
            "comparisons": levels.count[number],
            "undefined": {
                REASONS[n]: int(count) for n, count in enumerate(summary.undefined[number]) if n and count
            },
            "min": levels.min[number],
            "q1": quartiles.q1 if quartiles else None,
            "median": quartiles.median if quartiles else None,
            "q3": quartiles.q3 if quartiles else None,
            "exact_quantiles": quartiles.exact if quartiles else None,
            "mean": levels.mean[number],
            "max": levels.max[number],
            "sd": levels.sd[number],
            "se": levels.se[number],
            "mean_of_taxon_means": means.mean() if means.size else None,
            "sd_of_taxon_means": means.std(ddof=1) if means.size > 1 else None,
        }
    return {
        "levels": rows,
        "taxa": {rank: taxon_rows(summary, taxa, rank) for rank in RANKS},
        "bin_percent": 100 * summary.bin,
        "histogram": summary.histogram,
        "normalised": summary.normalised(),
        "columns_compared": summary.columns,
        "distinct": int(group_rows(summary.codes, [0] * summary.codes.shape[0])[0].size),
    }


def taxon_rows(summary: DistanceSummary, taxa: Taxa, rank: str) -> list[dict[str, object]]:
    per, members = summary.by_taxon[rank], taxa.members(rank)
    mean, sd, se = per.mean, per.sd, per.se
    return [
        {
            "name": name,
            "sequences": members[n],
            "comparisons": per.count[n],
            "undefined": summary.undefined_by_taxon[rank][n],
            "min": per.min[n],
            "mean": mean[n],
            "max": per.max[n],
            "sd": sd[n],
            "se": se[n],
        }
        for n, name in enumerate(taxa.names[rank])
    ]


def notes(job: Job, summary: DistanceSummary, taxa: Taxa) -> None:
    undefined = {REASONS[n]: int(c) for n, c in enumerate(summary.undefined[ALL]) if n and c}
    if undefined:
        told = ", ".join(f"{name} {count:,}" for name, count in undefined.items())
        job.note("warning", f"Pairs without a distance, which are in no other figure: {told}.")
    if not summary.levels.count[ALL]:
        job.note("warning", "No pair of sequences has a distance, so every figure below is empty.")
    elif summary.levels.max[ALL] == 0:
        job.note("note", "All sequences are alike: every distance is 0.")
    if summary.rule.deletion == "complete" and summary.columns < FEW_SITES:
        job.note(
            "warning", f"Complete deletion leaves {summary.columns} sites only; the distances are coarse."
        )
    unnamed = {rank: int((taxa.ids[rank] < 0).sum()) for rank in RANKS}
    missing = ", ".join(f"{rank} {count:,}" for rank, count in unnamed.items() if count)
    if missing:
        job.note(
            "note",
            f"Records without a name, of {len(summary.member):,}: {missing}. A pair that lacks a name at a "
            "rank it needs is in no row of the table by level but All pairs.",
        )
    if not taxa.names["species"]:
        job.note(
            "note", "No record has a species name, so nothing can be compared within species or within genus."
        )
    elif not (taxa.members("species") > 1).any():
        job.note("note", "Every species has one sequence only, so nothing can be compared within species.")


if __name__ == "__main__":
    run_stage(stage)
