"""Writes the tables: bins.tsv and bins.jsonl, discordant_records.tsv, species_bins.tsv."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from barcode.discordance import RANKS, counted, shares
from barcode.job import Job, read_jsonl, run_stage, write_jsonl
from barcode.tables import write_tsv

BINS = (
    "bin_uri",
    "status",
    "rank_of_conflict",
    "members",
    "conflicting_names",
    "concordant_rank",
    "concordant_id",
    "discordant_rank",
    "discordant_ids",
    *(f"{rank}_names" for rank in RANKS),
    "record_ids",
)
RECORDS = ("bin_uri", "rank_of_conflict", "record_id", "processid", "sampleid", "name", "name_share")
TAKEN = ("identification", "identified_by", "country", *RANKS)


def bin_row(row: dict[str, Any]) -> list[object]:
    names = {rank: Counter(found) for rank, found in row["names"].items()}
    rank = row["rank_of_conflict"]
    at = names.get(rank, Counter())
    return [
        row["bin_uri"],
        row["status"],
        rank,
        row["members"],
        counted(at) if rank else None,
        row["concordant_rank"],
        row["concordant_name"],
        rank,
        shares(at) if rank else None,
        *(counted(names[r]) if r in names else None for r in RANKS),
        "|".join(row["record_ids"]),
    ]


def record_rows(judged: list[dict[str, Any]], records: dict[str, dict[str, Any]]) -> Iterator[list[object]]:
    """The records of BINs in conflict; within a BIN the rarest name first, as it is wrong most often."""
    for row in judged:
        rank = row["rank_of_conflict"]
        if not rank:
            continue
        names = row["names"][rank]
        total = sum(names.values())
        members = [records[one] for one in row["record_ids"]]
        members.sort(key=lambda one: (names.get(one[rank], total + 1), one[rank] or "", one["line"]))
        for one in members:
            share = names[one[rank]] / total if one[rank] else None
            told = [one["record_id"], one["processid"], one["sampleid"], one[rank], share]
            yield [row["bin_uri"], rank, *told, *(one[field] for field in TAKEN)]


def stage(job: Job) -> None:
    judged, species = job.load("judged"), job.load("species_bins")
    records = {record["record_id"]: record for record in read_jsonl(job.dir / "records_used.jsonl")}
    write_jsonl(job.dir / "bins.jsonl", judged)
    write_tsv(job.dir / "bins.tsv", BINS, map(bin_row, judged))
    write_tsv(job.dir / "discordant_records.tsv", (*RECORDS, *TAKEN), record_rows(judged, records))
    write_tsv(
        job.dir / "species_bins.tsv",
        ("species", "records", "bins", "relation", "bin_uris", "shared_bin_uris"),
        (
            [
                row["species"],
                row["records"],
                len(row["bins"]),
                row["relation"],
                counted(Counter(row["bins"])),
                "|".join(row["shared_bins"]),
            ]
            for row in species
        ),
    )
    print(f"bins.tsv: {len(judged)} rows, species_bins.tsv: {len(species)} rows")


if __name__ == "__main__":
    run_stage(stage)
