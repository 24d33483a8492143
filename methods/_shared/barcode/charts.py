"""Lines with bands, points and bars as inline SVG, in the page's colours as `plots` has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor

from .plots import LEFT, RIGHT, TOP, WIDTH, nice_step, number, text, x_tick

HEIGHT, FOOT = 340.0, 42.0
COLOURS = ("c1", "c2", "c3", "c4", "c5", "c6")
MAX_POINTS = 3000
LEGEND_LINE, LEGEND_LETTERS = 18.0, 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A curve, and a band between `low` and `high` where they are given."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Points:
    """Points of one colour; `told` is what each says under the pointer."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    told: Sequence[str] = ()


class Frame:
    """Axes from 0 to what is shown, ticks and their numbers; `at` turns values into places."""

    def __init__(self, x_most: float, y_most: float, labels: Sequence[str]) -> None:
        self.legend = legend_rows(labels) if len(labels) > 1 else []
        self.top = TOP + LEGEND_LINE * len(self.legend)
        self.bottom = self.top + HEIGHT - TOP - FOOT
        self.height = self.bottom + FOOT
        self.x_step, self.y_step = nice_step(x_most, 8), nice_step(y_most, 5)
        self.x_span = x_most * 1.02 if x_most > 0 else 1.0
        self.y_span = self.y_step * max(1, ceil(y_most / self.y_step * 1.02 - 1e-9))

    def at(self, x: float, y: float) -> tuple[float, float]:
        across = LEFT + (WIDTH - LEFT - RIGHT) * x / self.x_span
        return across, self.bottom - (self.bottom - self.top) * y / self.y_span

    def svg(self, inner: Sequence[str], *, x_label: str, y_label: str, told: str) -> str:
        parts = [
            opening(self.height, told),
            *self.ticks(),
            *inner,
            *self.keys(),
            text("label", (LEFT + WIDTH - RIGHT) / 2, self.height - 5, "middle", x_label),
            f'<g transform="translate(13 {(self.top + self.bottom) / 2:g}) rotate(-90)">',
            text("label", 0, 0, "middle", y_label),
            "</g></svg>",
        ]
        return "".join(parts)

    def ticks(self) -> list[str]:
        parts = []
        for tick in range(round(self.y_span / self.y_step) + 1):
            _, y = self.at(0, tick * self.y_step)
            parts.append(f'<path class="grid" d="M{LEFT:g} {y:.2f}H{WIDTH - RIGHT:g}"/>')
            parts.append(text("tick", LEFT - 7, y + 4, "end", number(tick * self.y_step)))
        parts.append(f'<path class="axis" d="M{LEFT:g} {self.bottom:g}H{WIDTH - RIGHT:g}"/>')
        for tick in range(floor(self.x_span / self.x_step + 1e-9) + 1):
            x, _ = self.at(tick * self.x_step, 0)
            parts.append(f'<path class="axis" d="M{x:.2f} {self.bottom:g}v4"/>')
            parts.append(x_tick(x, self.bottom, tick * self.x_step))
        return parts

    def keys(self) -> list[str]:
        parts, place = [], 0
        for row, labels in enumerate(self.legend):
            x, y = LEFT, TOP - 12 + LEGEND_LINE * row
            for label in labels:
                colour = COLOURS[place % len(COLOURS)]
                parts.append(f'<rect class="{colour}" x="{x:.1f}" y="{y - 8:.1f}" width="10" height="10"/>')
                parts.append(text("key", x + 15, y + 1, "start", label))
                x += 15 + 6.6 * (len(label) + 3)
                place += 1
        return parts


def legend_rows(labels: Sequence[str]) -> list[list[str]]:
    rows: list[list[str]] = [[]]
    for label in labels:
        if rows[-1] and sum(len(one) + 5 for one in rows[-1]) + len(label) > LEGEND_LETTERS:
            rows.append([])
        rows[-1].append(label)
    return rows


def opening(height: float, told: str) -> str:
    return (
        f'<svg class="plot" viewBox="0 0 {WIDTH:g} {height:g}" role="img" aria-label="{escape(told)}" '
        'xmlns="http://www.w3.org/2000/svg">'
    )


def clip(label: str, letters: int = 40) -> str:
    """Short, and without characters that a page cannot hold."""
    label = "".join(c if c.isprintable() else " " for c in label)
    return label if len(label) <= letters else f"{label[: letters - 1]}…"


def lines(curves: Sequence[Line], *, x_label: str, y_label: str) -> str:
    """Curves over one pair of axes; each with its band under it."""
    x_most = max((max(one.x, default=0) for one in curves), default=0)
    y_most = max((max([*one.y, *one.high], default=0) for one in curves), default=0)
    labels = [clip(one.label) for one in curves]
    frame = Frame(x_most, y_most, labels)
    parts = []
    for place, one in enumerate(curves):
        colour = COLOURS[place % len(COLOURS)]
        if one.low:
            edge = [*zip(one.x, one.high, strict=True), *reversed(list(zip(one.x, one.low, strict=True)))]
            parts.append(f'<path class="band {colour}" d="{path(frame, edge)}Z"/>')
    for place, one in enumerate(curves):
        colour = COLOURS[place % len(COLOURS)]
        points = list(zip(one.x, one.y, strict=True))
        parts.append(
            f'<path class="line l{colour[1:]}" d="{path(frame, points)}">'
            f"<title>{escape(labels[place])}</title></path>"
        )
        if len(points) == 1:
            x, y = frame.at(*points[0])
            parts.append(f'<circle class="{colour}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>')
    return frame.svg(parts, x_label=x_label, y_label=y_label, told=f"Curves: {', '.join(labels)}; {x_label}")


def path(frame: Frame, points: Sequence[tuple[float, float]]) -> str:
    places = (frame.at(x, y) for x, y in points)
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)


def scatter(groups: Sequence[Points], *, x_label: str, y_label: str, diagonal: bool = False) -> str:
    """Points over one pair of axes from 0; of very many, evenly chosen ones. `diagonal` draws y = x."""
    x_most = max((max(one.x, default=0) for one in groups), default=0)
    y_most = max((max(one.y, default=0) for one in groups), default=0)
    labels = [clip(one.label) for one in groups]
    frame = Frame(x_most, y_most, labels)
    parts = []
    if diagonal:
        most = min(frame.x_span, frame.y_span)
        parts.append(f'<path class="diagonal" d="{path(frame, [(0, 0), (most, most)])}"/>')
    each = max(1, ceil(sum(len(one.x) for one in groups) / MAX_POINTS))
    for place, one in enumerate(groups):
        colour = COLOURS[place % len(COLOURS)]
        for n in range(0, len(one.x), each):
            x, y = frame.at(one.x[n], one.y[n])
            told = f"<title>{escape(one.told[n])}</title>" if one.told else ""
            parts.append(f'<circle class="dot {colour}" cx="{x:.1f}" cy="{y:.1f}" r="3.2">{told}</circle>')
    return frame.svg(parts, x_label=x_label, y_label=y_label, told=f"Points: {', '.join(labels)}; {x_label}")


def bars(counts: Sequence[tuple[str, float]], *, x_label: str) -> str:
    """One bar across for each label, with its number behind it."""
    left, row = 190.0, 26.0
    height = 12 + row * max(len(counts), 1) + 24
    most = max((count for _, count in counts), default=0) or 1
    told = f"Bars: {', '.join(f'{label} {number(count)}' for label, count in counts)}; {x_label}"
    parts = [opening(height, told)]
    for place, (label, count) in enumerate(counts):
        y, wide = 8 + row * place, (WIDTH - left - 80) * count / most
        parts.append(text("label", left - 8, y + 14, "end", clip(label, 28)))
        if count > 0:
            parts.append(f'<rect class="c1" x="{left:g}" y="{y:g}" width="{max(wide, 1):.1f}" height="18"/>')
        parts.append(text("tick", left + max(wide, 0) + 7, y + 14, "start", number(count)))
    parts.append(f'<path class="axis" d="M{left:g} 4V{height - 22:g}"/>')
    parts.append(text("label", (left + WIDTH) / 2, height - 5, "middle", x_label))
    return "".join([*parts, "</svg>"])
