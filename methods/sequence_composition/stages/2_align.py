"""Aligns the sequences (alignment.fasta), so that columns have codon positions; doubtful ones are named."""

from barcode.aligning import align_stage
from barcode.job import Job, run_stage


def stage(job: Job) -> None:
    """Columns that are empty in all count for the reading frame of an alignment as uploaded."""
    align_stage(job, keep_empty_columns=True)


if __name__ == "__main__":
    run_stage(stage)
