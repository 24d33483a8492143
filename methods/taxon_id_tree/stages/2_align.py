"""Aligns the sequences (alignment.fasta) and looks for those that do not fit the others."""

from barcode.aligning import align_stage
from barcode.job import run_stage

if __name__ == "__main__":
    run_stage(align_stage)
