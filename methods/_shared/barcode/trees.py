"""Trees as text and in the order in which they are drawn: Newick, Nexus, midpoint root, ladders."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from .nj import Tree
from .tables import CONTROL

PLAIN = re.compile(r"[A-Za-z0-9.|-]+")


def quoted(label: str) -> str:
    """A Newick label that reads back the same: quoted where it must be, inner quotes doubled."""
    text = CONTROL.sub(" ", label)
    return text if PLAIN.fullmatch(text) else "'" + text.replace("'", "''") + "'"


def newick(tree: Tree, labels: Sequence[str]) -> str:
    """Lengths to 12 significant digits; the root of an unrooted tree has three branches."""
    parts: list[str] = []
    waiting: list[int | str] = [tree.root]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            parts.append(item)
            continue
        end = "" if item == tree.root else f":{tree.length[item] + 0.0:.12g}"
        if item < tree.tips:
            parts.append(quoted(labels[item]) + end)
            continue
        inner: list[int | str] = []
        for child in tree.children[item]:
            inner.extend([",", child])
        parts.append("(")
        waiting.append(")" + end)
        waiting.extend(reversed(inner[1:]))
    return "".join(parts) + ";"


def nexus(tree: Tree, labels: Sequence[str]) -> str:
    """A taxa block and the tree with numbers for labels."""
    taxa = "".join(f"\n    {quoted(label)}" for label in labels)
    names = ",".join(f"\n    {n} {quoted(label)}" for n, label in enumerate(labels, 1))
    text = newick(tree, [str(n) for n in range(1, len(labels) + 1)])
    return (
        f"#NEXUS\nBEGIN TAXA;\n  DIMENSIONS NTAX={len(labels)};\n  TAXLABELS{taxa}\n  ;\nEND;\n"
        f"BEGIN TREES;\n  TRANSLATE{names}\n  ;\n  TREE neighbour_joining = [&U] {text}\nEND;\n"
    )


def drawn(tree: Tree) -> Tree:
    """Rooted in the middle of the longest path, small branches first; negative lengths are taken as 0."""
    around: dict[int, list[tuple[int, float]]] = {node: [] for node in tree.length}
    around[tree.root] = []
    for node, children in tree.children.items():
        for child in children:
            length = max(tree.length[child], 0.0)
            around[node].append((child, length))
            around[child].append((node, length))
    one = farthest(around, 0)[0]
    other, above, distance = farthest(around, one)
    total, node = distance[other], other
    while node != one and distance[above[node]] >= total / 2 and above[node] != one:
        node = above[node]
    return rooted(tree, around, node, above[node], distance[node] - total / 2)


def farthest(
    around: dict[int, list[tuple[int, float]]], start: int
) -> tuple[int, dict[int, int], dict[int, float]]:
    """The tip farthest from start, the node before each, and each one's distance; ties go to the smaller."""
    above, distance, waiting = {start: start}, {start: 0.0}, [start]
    while waiting:
        node = waiting.pop()
        for next_node, length in around[node]:
            if next_node not in above:
                above[next_node], distance[next_node] = node, distance[node] + length
                waiting.append(next_node)
    tips = [node for node in distance if len(around[node]) == 1 and node != start]
    return min(tips, key=lambda node: (-distance[node], node)), above, distance


def rooted(
    tree: Tree, around: dict[int, list[tuple[int, float]]], one: int, other: int, from_one: float
) -> Tree:
    """A root on the branch between two nodes, so far from the first; then sorted by size."""
    root = max(around) + 1
    between = dict(around[one])[other]
    made = Tree(tree.tips, root=root)
    made.children[root] = [one, other]
    made.length = {one: min(max(from_one, 0.0), between), other: max(between - max(from_one, 0.0), 0.0)}
    waiting = [(one, other), (other, one)]
    while waiting:
        node, before = waiting.pop()
        below = [(child, length) for child, length in around[node] if child != before]
        if below:
            made.children[node] = [child for child, _ in below]
        for child, length in below:
            made.length[child] = length
            waiting.append((child, node))
    size: dict[int, int] = {}
    first: dict[int, int] = {}
    for node in reversed(made.preorder()):
        children = made.children.get(node)
        size[node] = sum(size[child] for child in children) if children else 1
        first[node] = min(first[child] for child in children) if children else node
    for children in made.children.values():
        children.sort(key=lambda child: (size[child], first[child]))
    return made


def together(tree: Tree, order: Sequence[int], groups: np.ndarray) -> np.ndarray:
    """For each group whether the smallest branch that holds it holds no tip of another group.

    `groups` has a number for each tip, -1 for none: such a tip speaks against nothing.
    """
    place = {tip: n for n, tip in enumerate(order)}
    low: dict[int, int] = {}
    high: dict[int, int] = {}
    above: dict[int, int] = {}
    for node in reversed(tree.preorder()):
        children = tree.children.get(node)
        low[node] = min(low[child] for child in children) if children else place[node]
        high[node] = max(high[child] for child in children) if children else place[node]
        above.update(dict.fromkeys(children or (), node))
    found = np.zeros(int(groups.max(initial=-1)) + 1, np.bool_)
    of_place = groups[np.array(order, np.int64)]
    for group in range(found.size):
        places = np.flatnonzero(of_place == group)
        node = order[int(places[0])]
        while high[node] < places[-1]:
            node = above[node]
        inside = of_place[low[node] : high[node] + 1]
        found[group] = bool(np.isin(inside, (-1, group)).all())
    return found
