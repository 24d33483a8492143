"""Sleeps `params.seconds`, printing a line and reporting progress each half second."""

import json
import time
from pathlib import Path

seconds = float(json.loads(Path("params.json").read_text(encoding="utf-8")).get("seconds", 5))
steps = max(1, round(seconds * 2))
for step in range(1, steps + 1):
    time.sleep(seconds / steps)
    print(f"step {step} of {steps}", flush=True)
    beside = Path("progress.stage.json.part")
    beside.write_text(json.dumps({"records_done": step, "records_total": steps}), encoding="utf-8")
    beside.replace("progress.stage.json")
