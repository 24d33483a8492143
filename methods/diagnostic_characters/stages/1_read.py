"""Reads the records and decides which are used; records_used.jsonl and records_left_out.jsonl say so."""

from barcode.job import Job, run_stage
from barcode.reading import read_stage


def stage(job: Job) -> None:
    read_stage(job, fields=("order", "country/ocean", "province/state"))


if __name__ == "__main__":
    run_stage(stage)
