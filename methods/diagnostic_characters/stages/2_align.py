"""Aligns the sequences (alignment.fasta); positions of sequences as uploaded are those of the upload."""

from barcode.aligning import align_stage
from barcode.job import Job, run_stage


def stage(job: Job) -> None:
    align_stage(job, keep_empty_columns=True)


if __name__ == "__main__":
    run_stage(stage)
