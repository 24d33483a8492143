"""Judges each BIN, the highest rank at which its records disagree, and how species stand to their BINs."""

from collections import Counter
from typing import Any

from barcode.discordance import RANKS, Rule, judge, ranked, relation
from barcode.job import Job, read_jsonl, run_stage


def stage(job: Job) -> None:
    chosen = job.parameters
    rule = Rule(threshold=chosen["threshold"], min_ids=chosen["min_ids"])
    records, bins = read_jsonl(job.dir / "records_used.jsonl"), job.load("bins")
    judged = []
    done = 0
    for uri, members in bins.items():
        verdict = judge([records[n] for n in members], rule)
        done += len(members)
        job.progress(done, len(records), "judging BINs")
        judged.append(
            {
                "bin_uri": uri,
                "members": verdict.members,
                "status": verdict.status,
                "rank_of_conflict": verdict.conflict_rank,
                "concordant_rank": verdict.agreed_rank,
                "concordant_name": verdict.agreed_name,
                "names": {rank: dict(ranked(verdict.names[rank])) for rank in RANKS if verdict.names[rank]},
                "record_ids": [records[n]["record_id"] for n in members],
            }
        )
    judged.sort(key=order)
    job.save("judged", judged)
    job.save("species_bins", species_rows(job.load("species"), judged))
    summarise(job, judged)


def order(row: dict[str, Any]) -> tuple[int, int, int, str]:
    """The gravest conflict first, then BINs that agree, then single records; large ones first."""
    status = ("discordant", "concordant", "singleton").index(row["status"])
    rank = RANKS.index(row["rank_of_conflict"]) if row["rank_of_conflict"] else len(RANKS)
    return status, rank, -row["members"], row["bin_uri"]


def species_rows(species: dict[str, dict[str, int]], judged: list[dict[str, Any]]) -> list[dict[str, Any]]:
    shared = {row["bin_uri"] for row in judged if len(row["names"].get("species", ())) > 1}
    rows = [
        {
            "species": name,
            "records": sum(bins.values()),
            "relation": relation(len(bins), bool(shared & bins.keys())),
            "bins": dict(ranked(Counter(bins))),
            "shared_bins": sorted(shared & bins.keys()),
        }
        for name, bins in species.items()
    ]
    return sorted(rows, key=lambda row: (-len(row["bins"]), row["species"]))


def summarise(job: Job, judged: list[dict[str, Any]]) -> None:
    status = Counter(row["status"] for row in judged)
    conflicts = Counter(row["rank_of_conflict"] for row in judged if row["rank_of_conflict"])
    related = Counter(row["relation"] for row in job.load("species_bins"))
    results = {
        "bins": len(judged),
        **{name: status[name] for name in ("discordant", "concordant", "singleton")},
        "conflicts_by_rank": {rank: conflicts[rank] for rank in RANKS if conflicts[rank]},
        "species_by_relation": {name: related[name] for name in ("match", "split", "merge", "mixture")},
    }
    job.save("results", results)
    print(f"{len(judged):,} BINs: " + ", ".join(f"{name} {count:,}" for name, count in status.items()))
    high = [r["bin_uri"] for r in judged if r["rank_of_conflict"] in RANKS[:4]]
    if high:
        job.note(
            "warning",
            f"BINs whose records disagree at order or above: {len(high)} ({', '.join(high[:10])}): "
            "contaminated or exchanged samples?",
        )
    if status["singleton"] == len(judged):
        job.note("note", "Every BIN has one record only, so there is nothing to compare.")
    if not related:
        job.note("note", "No record with a BIN has a species name; higher ranks are compared only.")


if __name__ == "__main__":
    run_stage(stage)
