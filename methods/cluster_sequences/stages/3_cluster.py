"""Links sequences whose distance is at most the threshold, and compares the clusters found."""

from typing import Any

import numpy as np
from barcode.agreement import agreement
from barcode.estimate import check, pairs_bytes, pairs_seconds
from barcode.groups import Groups, counted
from barcode.job import Job, read_jsonl, run_stage
from barcode.linkage import Linkage
from barcode.nearest import NearestGroups
from barcode.notes import note_undefined, refuse_no_columns
from barcode.rules import rule_of
from barcode.sequences import encode

Records = list[dict[str, Any]]

CURVE = tuple(round(0.1 * step, 1) for step in range(101))  # per cent


def stage(job: Job) -> None:
    chosen = job.parameters
    records = read_jsonl(job.dir / "records_used.jsonl")
    codes = encode(np.load(job.work / "alignment.npy"))
    rows, columns = codes.shape
    what = f"{rows:,} sequences of {columns:,} columns"
    estimate = check(job, what, pairs_bytes(rows, columns) + (64 << 20), 2 * pairs_seconds(rows, columns))
    linkage = Linkage(codes, rule_of(job))
    refuse_no_columns(linkage.codes, codes, records, chosen["deletion"], job)
    threshold = chosen["threshold_percent"] / 100
    half = len(records)
    linkage.run(
        max(threshold, CURVE[-1] / 100),
        lambda done, of: job.progress(done * half // of // 2, half, "linking"),
    )
    if chosen["linkage"] != "single":
        refuse_large_part(job, linkage, threshold)
    names, clusters = numbered(linkage.clusters(threshold, chosen["linkage"]), records)
    found = NearestGroups(codes, Groups(clusters), rule_of(job))
    found.run(lambda done, of: job.progress((half + done) // 2, half, "comparing clusters"))
    job.save("clusters", cluster_rows(found, records))
    job.save("members", clusters)
    place = {name: n for n, name in enumerate(names)}
    numbers = [place[name] for name in clusters]
    for field in ("species", "bin_uri"):
        rows_of = agreement(numbers, [record[field] for record in records])
        job.save(f"agreement_{field}", [agreement_row(row, names) for row in rows_of])
    undefined = note_undefined(job, found.undefined)
    duplicates = len(records) - linkage.first.size
    steps = [[percent, linkage.forest.clusters_at(percent / 100)] for percent in CURVE]
    job.save("curve", steps)
    job.save(
        "results",
        {
            "estimate": estimate,
            "columns_compared": linkage.codes.shape[1],
            "distinct": found.distinct,
            "clusters": len(names),
            "single": int((found.groups.sizes == 1).sum()),
            "alike": duplicates,
            "undefined": undefined,
        },
    )
    if len(names) == 1:
        job.note("note", "All sequences are in one cluster.")


def refuse_large_part(job: Job, linkage: Linkage, threshold: float) -> None:
    """Average and complete linkage hold the matrix of one part at a time."""
    largest = linkage.largest_part(threshold)
    needed = 3 * 8 * largest**2 + pairs_bytes(largest, linkage.codes.shape[1])
    check(job, f"The {largest:,} different sequences of the largest part", needed, largest**2 * 6e-8)


def numbered(found: Any, records: Records) -> tuple[list[str], list[str]]:
    """Names of clusters, the largest first, then the one with the smallest process id; and each record's."""
    groups: dict[int, list[int]] = {}
    for n, cluster in enumerate(found.tolist()):
        groups.setdefault(cluster, []).append(n)

    def order(rows: list[int]) -> tuple[int, str, int]:
        return -len(rows), min(str(records[n]["processid"] or records[n]["record_id"]) for n in rows), rows[0]

    ordered = sorted(groups.values(), key=order)
    width = max(4, len(str(len(ordered))))
    names = [f"OTU{n:0{width}d}" for n in range(1, len(ordered) + 1)]
    of_record = [""] * len(records)
    for name, rows in zip(names, ordered, strict=True):
        for n in rows:
            of_record[n] = name
    return names, of_record


def cluster_rows(found: NearestGroups, records: Records) -> list[dict[str, Any]]:
    within, mean, names = found.within, found.within.mean, found.groups.names
    rows = []
    for n, (members, nearest) in enumerate(zip(found.groups.members(), found.nearest_rows(), strict=True)):
        own = [records[r] for r in members]
        compared = int(within.count[n])
        rows.append(
            {
                "name": names[n],
                "sequences": int(members.size),
                "species": len({r["species"] for r in own if r["species"]}),
                "species_names": counted(own, "species"),
                "without_species": sum(not r["species"] for r in own),
                "bins": len({r["bin_uri"] for r in own if r["bin_uri"]}),
                "bin_names": counted(own, "bin_uri"),
                "mean": float(mean[n]) if compared else None,
                "max": float(within.max[n]) if compared else None,
                "undefined": int(found.undefined_within[n]),
                "nearest": None if np.isnan(found.nearest[n]) else float(found.nearest[n]),
                "nearest_clusters": sorted({names[found.groups.of[r]] for r in nearest}),
                "records": [str(r["record_id"]) for r in own],
            }
        )
    return rows


def agreement_row(row: Any, names: list[str]) -> dict[str, Any]:
    return {
        "name": row.name,
        "records": row.records,
        "clusters": [names[n] for n in row.clusters],
        "others": list(row.others),
        "kind": row.kind,
    }


if __name__ == "__main__":
    run_stage(stage)
