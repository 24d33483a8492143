"""Counts, and says how far it is: progress.stage.json is shown to the user while the job runs."""

import collections
import json
import pathlib

known = json.loads(pathlib.Path("work/known.json").read_text())
counts: collections.Counter[str] = collections.Counter()
for number, value in enumerate(known, 1):
    counts[value] += 1
    if number % 10000 == 0 or number == len(known):
        progress = {"records_done": number, "records_total": len(known)}
        pathlib.Path("progress.stage.json").write_text(json.dumps(progress))
pathlib.Path("work/counts.json").write_text(json.dumps(counts.most_common()))
print(len(counts), "different values")
