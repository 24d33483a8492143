"""Writes the report: one page that needs nothing else, its plot inside."""

import html
import json
import pathlib

params = json.loads(pathlib.Path("params.json").read_text())
counts = json.loads(pathlib.Path("work/counts.json").read_text())
field, top = params.get("field", "species"), params.get("top", 20)
shown = counts[:top]
most = max((count for _, count in shown), default=1)
bars = "".join(
    f'<text x="0" y="{22 * row + 15}">{html.escape(value[:40])}</text>'
    f'<rect x="300" y="{22 * row}" width="{400 * count / most:.1f}" height="18"/>'
    f'<text x="{306 + 400 * count / most:.1f}" y="{22 * row + 15}">{count}</text>'
    for row, (value, count) in enumerate(shown)
)
page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Counts by {html.escape(field)}</title>
<style>
body {{ font: 16px sans-serif; margin: 2rem }} rect {{ fill: #4a7fb5 }} text {{ font-size: 13px }}
</style>
</head><body>
<h1>Records by {html.escape(field)}</h1>
<p>{sum(count for _, count in counts)} records with {len(counts)} values; the table is in counts.tsv.</p>
<svg width="780" height="{22 * len(shown)}" role="img" aria-label="Records by value">{bars}</svg>
</body></html>
"""
pathlib.Path("analysis_report.html").write_text(page, encoding="utf-8")
