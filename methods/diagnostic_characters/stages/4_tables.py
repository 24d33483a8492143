"""Writes groups.tsv and groups.jsonl: how many characters of each kind each group has."""

from barcode.diagnostic import MEANING
from barcode.job import Job, run_stage, write_jsonl
from barcode.tables import write_tsv

COLUMNS = (
    "sequences",
    *(f"{code}_columns" for code in MEANING),
    "no_consensus_columns",
    "pure_columns",
    "D_positions",
    "DP_positions",
)


def stage(job: Job) -> None:
    by = job.parameters["group_by"]
    groups = job.load("groups")
    rows = [
        [
            group["name"],
            group["sequences"],
            *(group["codes"][code] for code in MEANING),
            group["no_consensus"],
            group["pure"],
            ",".join(map(str, group["D"])),
            ",".join(map(str, group["DP"])),
        ]
        for group in groups
    ]
    print(f"groups.tsv: {write_tsv(job.dir / 'groups.tsv', (by, *COLUMNS), rows)} rows")
    write_jsonl(
        job.dir / "groups.jsonl",
        (
            {**dict(zip((by, *COLUMNS[:-2]), row, strict=False)), "D": group["D"], "DP": group["DP"]}
            for row, group in zip(rows, groups, strict=True)
        ),
    )


if __name__ == "__main__":
    run_stage(stage)
