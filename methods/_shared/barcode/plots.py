"""Plots as inline SVG that takes its colours from the page, so that light, dark and print all work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 760.0, 64.0, 12.0, 26.0, 40.0
MAX_BARS = 120


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """Heights of the bins from 0 on; `colour` is one of the page's colour classes c1, c2, c3."""

    label: str
    heights: Sequence[float]
    colour: str


def nice_step(span: float, steps: int) -> float:
    """A step of 1, 2 or 5 times a power of ten that covers the span in about so many steps."""
    if span <= 0:
        return 1.0
    raw = span / steps
    power = 10.0 ** floor(log10(raw))
    return float(next(factor for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999) * power)


def number(value: float) -> str:
    return f"{value:,.10g}" if abs(value) >= 1000 else f"{value:.6g}"


def rebin(heights: Sequence[float], used: int) -> tuple[list[float], int]:
    """Neighbouring bins added up until no more than MAX_BARS are left, and how many make one."""
    each = max(1, ceil(used / MAX_BARS))
    return [sum(heights[start : min(start + each, used)]) for start in range(0, used, each)], each


def histograms(series: Sequence[Series], *, bin_width: float, x_label: str, y_label: str) -> str:
    """One panel below the other over one x axis; every panel has a y axis of its own."""
    used = max((n + 1 for one in series for n, height in enumerate(one.heights) if height > 0), default=1)
    panels = [(one, *rebin(one.heights, used)) for one in series]
    each = panels[0][2]
    span = len(panels[0][1]) * each * bin_width
    panel_height = 150.0 if len(panels) > 1 else 240.0
    height = TOP + BOTTOM + len(panels) * (panel_height + 34.0) - 34.0
    described = f"Histogram: {', '.join(one.label for one in series)}; {x_label}"
    parts = [
        f'<svg class="plot" viewBox="0 0 {WIDTH:g} {height:g}" role="img" aria-label="{escape(described)}" '
        f'xmlns="http://www.w3.org/2000/svg">'
    ]
    for place, (one, heights, _) in enumerate(panels):
        top = TOP + place * (panel_height + 34.0)
        last = place == len(panels) - 1
        parts.append(panel(one, heights, top, panel_height, span, each * bin_width, numbered=last))
    parts.append(text("label", (LEFT + WIDTH - RIGHT) / 2, height - 6, "middle", x_label))
    turned = f'<g transform="translate(13 {height / 2:g}) rotate(-90)">'
    return "".join([*parts, turned, text("label", 0, 0, "middle", y_label), "</g></svg>"])


def text(kind: str, x: float, y: float, anchor: str, content: str) -> str:
    return f'<text class="{kind}" x="{x:.2f}" y="{y:.2f}" text-anchor="{anchor}">{escape(content)}</text>'


def x_tick(x: float, bottom: float, value: float) -> str:
    """The number below the axis, all of it within the drawing."""
    told = number(value)
    return text("tick", min(x, WIDTH - 3.7 * len(told)), bottom + 17, "middle", told)


def panel(
    one: Series,
    heights: Sequence[float],
    top: float,
    tall: float,
    span: float,
    width: float,
    *,
    numbered: bool,
) -> str:
    highest = max(heights, default=0.0)
    step = nice_step(highest, 4)
    ceiling = step * max(1, ceil(highest / step - 1e-9))
    across = (WIDTH - LEFT - RIGHT) / span
    bottom = top + tall
    parts = [text("name", LEFT, top - 9, "start", one.label)]
    for tick in range(round(ceiling / step) + 1):
        y = bottom - tall * tick * step / ceiling
        parts.append(f'<path class="grid" d="M{LEFT:g} {y:.2f}H{WIDTH - RIGHT:g}"/>')
        parts.append(text("tick", LEFT - 7, y + 4, "end", number(tick * step)))
    for place, value in enumerate(heights):
        if value > 0:
            wide, high = max(width * across - 1, 0.8), max(tall * value / ceiling, 0.6)
            told = f"{number(place * width)} to {number((place + 1) * width)}: {number(value)}"
            x, y = LEFT + place * width * across + 0.5, bottom - high
            place_and_size = f'x="{x:.2f}" y="{y:.2f}" width="{wide:.2f}" height="{high:.2f}"'
            parts.append(f'<rect class="{one.colour}" {place_and_size}><title>{told}</title></rect>')
    if highest <= 0:
        parts.append(text("tick", (LEFT + WIDTH - RIGHT) / 2, top + tall / 2, "middle", "no comparisons"))
    parts.append(f'<path class="axis" d="M{LEFT:g} {bottom:g}H{WIDTH - RIGHT:g}"/>')
    x_step = nice_step(span, 8)
    for tick in range(floor(span / x_step + 1e-9) + 1):
        x = LEFT + tick * x_step * across
        parts.append(f'<path class="axis" d="M{x:.2f} {bottom:g}v4"/>')
        if numbered:
            parts.append(x_tick(x, bottom, tick * x_step))
    return "".join(parts)
