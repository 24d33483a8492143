"""Reads the records and keeps what the later stages need."""

import json
import pathlib

params = json.loads(pathlib.Path("params.json").read_text())
field = params.get("field", "species")
values = []
with pathlib.Path("records.jsonl").open(encoding="utf-8") as records:
    for line in records:
        if line.strip():
            values.append(json.loads(line).get(field))

if not values:
    raise SystemExit("There are no records.")  # what is printed here is what the user sees
pathlib.Path("work").mkdir(exist_ok=True)
pathlib.Path("work/values.json").write_text(json.dumps(values))
print(len(values), "records read")
