"""Reads the records and decides which are used; records_used.jsonl and records_left_out.jsonl say so."""

from barcode.job import run_stage
from barcode.reading import read_stage

if __name__ == "__main__":
    run_stage(read_stage)
