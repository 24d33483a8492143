"""Leaves out records without a value."""

import json
import pathlib

values = json.loads(pathlib.Path("work/values.json").read_text())
known = [str(value) for value in values if value not in (None, "")]
pathlib.Path("work/known.json").write_text(json.dumps(known))
print(len(known), "records with a value,", len(values) - len(known), "without")
