"""A tree as SVG: within a report in the page's colours, or as a file that has its own."""

from __future__ import annotations

from collections.abc import Sequence

from .charts import clip
from .nj import Tree
from .plots import nice_step, number, text
from .report import visible

ROW, LEFT, TREE, LETTER, TOP, FOOT = 15.0, 10.0, 420.0, 6.1, 12.0, 40.0
LABEL_LETTERS = 80
STYLE = (
    "<style>text{font:11px system-ui,'DejaVu Sans',sans-serif;fill:#1c2430}path{fill:none;stroke:#566272}"
    ".apart{fill:#b0541a}@media (prefers-color-scheme:dark){svg{background:#14181e}text{fill:#e4e9ef}"
    "path{stroke:#9aa7b6}.apart{fill:#efa04f}}</style>"
)


def tree_svg(tree: Tree, labels: Sequence[str], apart: Sequence[bool], *, alone: bool) -> str:
    """Branch lengths to scale, tips one below the other; `apart` marks labels; `alone` makes it a file."""
    order = tree.tip_order()
    depth = {tree.root: 0.0}
    for node in tree.preorder():
        for child in tree.children.get(node, ()):
            depth[child] = depth[node] + tree.length[child]
    most = max(depth.values()) or 1.0
    y = {tip: TOP + ROW * (n + 0.5) for n, tip in enumerate(order)}
    for node in reversed(tree.preorder()):
        if children := tree.children.get(node):
            y[node] = (y[children[0]] + y[children[-1]]) / 2

    def x(node: int) -> float:
        return LEFT + TREE * depth[node] / most

    width = LEFT + TREE + 12 + LETTER * max(min(len(label), LABEL_LETTERS) for label in labels)
    height = TOP + ROW * len(order) + FOOT
    parts = [branches(tree, x_of={node: x(node) for node in depth}, y=y)]
    for tip in order:
        mark = "tip apart" if apart[tip] else "tip"
        shown = visible(clip(labels[tip], LABEL_LETTERS))
        parts.append(
            f'<text class="{mark}" x="{x(tip) + 5:.1f}" y="{y[tip] + 3.8:.1f}">{shown}'
            f"<title>{visible(labels[tip])}</title></text>"
        )
    parts.append(scale(most, height))
    size = f' width="{width:.0f}" height="{height:.0f}"' if alone else ""
    return (
        f'<svg class="plot tree" viewBox="0 0 {width:.0f} {height:.0f}"{size} role="img" '
        f'aria-label="Neighbour-joining tree of {len(order)} sequences" xmlns="http://www.w3.org/2000/svg">'
        f"{STYLE if alone else ''}{''.join(parts)}</svg>"
    )


def branches(tree: Tree, *, x_of: dict[int, float], y: dict[int, float]) -> str:
    lines = []
    for node, children in tree.children.items():
        lines.append(f"M{x_of[node]:.1f} {y[children[0]]:.1f}V{y[children[-1]]:.1f}")
        lines.extend(f"M{x_of[node]:.1f} {y[child]:.1f}H{x_of[child]:.1f}" for child in children)
    return f'<path class="axis" d="{"".join(lines)}"/>'


def scale(most: float, height: float) -> str:
    """A bar of a round length, in per cent."""
    step = nice_step(100 * most, 4)
    wide = TREE * step / (100 * most)
    at = height - 22
    label = text("tick", LEFT + wide / 2, at + 15, "middle", f"{number(step)} %")
    return f'<path class="axis" d="M{LEFT:g} {at - 3:.1f}v6m0 -3h{wide:.1f}m0 -3v6"/>{label}'
