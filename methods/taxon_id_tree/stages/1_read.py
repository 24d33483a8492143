"""Reads the records and decides which are used; records_used.jsonl and records_left_out.jsonl say so."""

from barcode.job import Job, RefusalError, run_stage
from barcode.labels import FIELDS, wanted
from barcode.reading import read_stage


def stage(job: Job) -> None:
    fields = wanted(job.parameters["label_fields"])
    if not fields:
        raise RefusalError("label_fields names no field.")
    read_stage(job, needed=3, refusal="No tree can be made", fields=(*FIELDS, *fields))


if __name__ == "__main__":
    run_stage(stage)
