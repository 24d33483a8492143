"""How clusters agree with names, in the terms of Ratnasingham and Hebert (2013, PLoS One 8:e66213)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

KINDS = {
    "match": "in one cluster, which holds no other name",
    "split": "in several clusters, none of which holds another name",
    "merge": "in one cluster, which holds other names too",
    "mixture": "in several clusters, at least one of which holds other names too",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    name: str
    records: int
    clusters: tuple[int, ...]
    others: tuple[str, ...]
    kind: str


def agreement(clusters: Sequence[int], names: Sequence[str | None]) -> list[Agreement]:
    """One for each name, sorted; records without a name do not count."""
    of_name: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    in_cluster: dict[int, set[str]] = defaultdict(set)
    for cluster, name in zip(clusters, names, strict=True):
        if name:
            of_name[name][cluster] += 1
            in_cluster[cluster].add(name)
    found = []
    for name in sorted(of_name):
        own = of_name[name]
        others = sorted(set().union(*(in_cluster[cluster] for cluster in own)) - {name})
        kind = ("mixture" if others else "split") if len(own) > 1 else ("merge" if others else "match")
        found.append(
            Agreement(
                name=name,
                records=sum(own.values()),
                clusters=tuple(sorted(own)),
                others=tuple(others),
                kind=kind,
            )
        )
    return found
