"""What the files in a package of ours are called, wherever it is."""

from __future__ import annotations

from typing import Final

RECORDS_MEMBER: Final = "records.jsonl"
PARAMS_MEMBER: Final = "params.json"
REPORT_MEMBER: Final = "analysis_report.html"
