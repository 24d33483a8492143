"""BINs whose members bear different names, and species spread over several BINs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

RANKS = ("kingdom", "phylum", "class", "order", "family", "subfamily", "tribe", "genus", "species")
Names = Mapping[str, str | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """A rank is judged where `min_ids` members have a name there; it agrees where one name's share of those
    reaches `threshold` (1: all of them)."""

    threshold: float = 1.0
    min_ids: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """`status` is singleton, concordant or discordant; `names` counts the names at each rank."""

    members: int
    status: str
    conflict_rank: str | None
    agreed_rank: str | None
    agreed_name: str | None
    names: dict[str, Counter[str]]


def judge(members: Sequence[Names], rule: Rule) -> Verdict:
    """Highest rank first; a missing name never conflicts."""
    names = {rank: Counter(name for one in members if (name := one[rank])) for rank in RANKS}
    conflict, agreed, agreed_name = None, None, None
    for rank in RANKS:
        found = names[rank]
        total = found.total()
        if not total or total < rule.min_ids:
            continue
        name, most = ranked(found)[0]
        if most < rule.threshold * total - 1e-9:
            conflict = rank
            break
        agreed, agreed_name = rank, name
    status = "singleton" if len(members) == 1 else "discordant" if conflict else "concordant"
    return Verdict(
        members=len(members),
        status=status,
        conflict_rank=conflict,
        agreed_rank=agreed,
        agreed_name=agreed_name,
        names=names,
    )


def ranked(found: Counter[str]) -> list[tuple[str, int]]:
    """Most frequent first, equal ones by name."""
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))


def counted(found: Counter[str], between: str = "|") -> str:
    """`Aus bus (3)|Aus cus (1)`."""
    return between.join(f"{name} ({count})" for name, count in ranked(found))


def shares(found: Counter[str]) -> str:
    """`Aus bus (0.75)|Aus cus (0.25)`."""
    total = found.total()
    return "|".join(f"{name} ({count / total:.3g})" for name, count in ranked(found))


def relation(bins: int, shared: bool) -> str:
    """How a species stands to its BINs (Ratnasingham and Hebert 2013)."""
    if shared:
        return "mixture" if bins > 1 else "merge"
    return "split" if bins > 1 else "match"
