"""Writes the table that the user downloads."""

import csv
import json
import pathlib

counts = json.loads(pathlib.Path("work/counts.json").read_text())
with pathlib.Path("counts.tsv").open("w", encoding="utf-8", newline="") as file:
    table = csv.writer(file, delimiter="\t", lineterminator="\n")
    table.writerow(("value", "records"))
    table.writerows(counts)
print("counts.tsv:", len(counts), "rows")
