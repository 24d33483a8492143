"""Positions along an alignment as SVG: one line a group, marks where it has a character."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from .charts import clip, opening
from .plots import RIGHT, WIDTH, nice_step, number, text

LEFT, ROW, TOP, FOOT = 220.0, 18.0, 10.0, 40.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Track:
    """Positions count from 1; `second` are drawn in another colour."""

    label: str
    first: Sequence[int]
    second: Sequence[int]


def tracks(rows: Sequence[Track], *, columns: int, x_label: str) -> str:
    height = TOP + ROW * len(rows) + FOOT
    across = (WIDTH - LEFT - RIGHT) / max(columns, 1)
    bottom = TOP + ROW * len(rows)
    parts = [opening(height, f"Positions of characters of {len(rows)} groups; {x_label}")]
    for place, row in enumerate(rows):
        y = TOP + ROW * place
        parts.append(f'<path class="grid" d="M{LEFT:g} {y + ROW / 2:.1f}H{WIDTH - RIGHT:g}"/>')
        parts.append(text("tip", LEFT - 8, y + ROW / 2 + 4, "end", clip(row.label, 34)))
        for positions, colour in ((row.second, "c2"), (row.first, "c1")):
            for position in positions:
                x, wide = LEFT + (position - 1) * across, max(across, 1.6)
                parts.append(
                    f'<rect class="{colour}" x="{x:.1f}" y="{y + 3:.1f}" width="{wide:.1f}" '
                    f'height="{ROW - 6:g}"><title>{escape(clip(row.label))}: {position}</title></rect>'
                )
    parts.append(f'<path class="axis" d="M{LEFT:g} {bottom:g}H{WIDTH - RIGHT:g}"/>')
    step = int(max(1, nice_step(columns, 8)))
    for tick in range(step, columns + 1, step):
        x = LEFT + (tick - 0.5) * across
        parts.append(f'<path class="axis" d="M{x:.1f} {bottom:g}v4"/>')
        parts.append(text("tick", x, bottom + 17, "middle", number(tick)))
    parts.append(text("label", (LEFT + WIDTH) / 2, height - 6, "middle", x_label))
    return "".join([*parts, "</svg>"])
