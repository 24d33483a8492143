"""Diagnostic characters: what each alignment column tells of each group, in BOLD's codes.

With c the one known base of a group's known members at a column (its consensus), and in every other group h
the members with c, with another base, and with none known:
    I   in no other group is a base known
    U   a group h has c in all its members
    PU  a group h has c or nothing known, and both occur
    P   c occurs in another group
    DP  c occurs in no other group, but some of their members have no known base
    D   c occurs in no other group, and all of their bases are known
The first that holds counts. A group without a consensus has no code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .groups import Groups
from .sequences import AMBIGUOUS, Bytes

Ints = NDArray[np.int64]

CODES = ("", "D", "DP", "P", "PU", "U", "I")
NO_CODE, D, DP, P, PU, U, I = range(7)  # noqa: E741 - the name of the code
MEANING = {
    "D": "diagnostic: the base is in no other group",
    "DP": "diagnostic or partial: as D, but others have unknown bases there",
    "P": "partial: the base is in some records of other groups",
    "PU": "partial or uninformative: another group has this base or an unknown one",
    "U": "uninformative: another group has the base in all its records",
    "I": "invalid: no base is known in any other group",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Characters:
    """Of one group, for each column: its code (a place in CODES) and consensus (a base, or AMBIGUOUS).

    `missing`: members without a known base there; `states` (4 x columns): which bases occur; so of others.
    """

    group: int
    codes: NDArray[np.int8]
    consensus: NDArray[np.int8]
    missing: Ints
    others_missing: Ints
    states: NDArray[np.bool_]
    other_states: NDArray[np.bool_]


class Columns:
    """Counts over groups, made once; then each group's characters in turn."""

    def __init__(self, codes: Bytes, groups: Groups) -> None:
        self.groups = groups
        columns = codes.shape[1]
        self.counts = np.zeros((len(groups.names), 4, columns), np.int32)
        for number, members in enumerate(groups.members()):
            for base in range(4):
                self.counts[number, base] = (codes[members] == base).sum(axis=0)
        self.sizes = groups.sizes.astype(np.int32)
        shape = (4, columns)
        self.having, self.fixed, self.perhaps = (np.zeros(shape, np.int32) for _ in range(3))
        self.totals = np.zeros(shape, np.int64)
        self.missing, self.known = np.zeros(columns, np.int64), np.zeros(columns, np.int32)
        for number in range(len(groups.names)):
            having, fixed, perhaps, missing = self.of_group(number)
            self.having += having
            self.fixed += fixed
            self.perhaps += perhaps
            self.totals += self.counts[number]
            self.missing += missing
            self.known += missing < self.sizes[number]

    def of_group(self, number: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_], Ints]:
        """Whether it has each base, has it alone with none unknown, or with some; and its unknown members."""
        counts = self.counts[number]
        known = counts.sum(axis=0)
        missing = (self.sizes[number] - known).astype(np.int64)
        having = counts > 0
        alone = having & (counts == known)
        return having, alone & (missing == 0), alone & (missing > 0), missing

    def characters(self, number: int) -> Characters:
        having, fixed, perhaps, missing = self.of_group(number)
        counts = self.counts[number]
        columns = np.arange(counts.shape[1])
        valid = having.sum(axis=0) == 1
        base = having.argmax(axis=0)
        others_having = (self.having - having)[base, columns]
        others_fixed = (self.fixed - fixed)[base, columns]
        others_perhaps = (self.perhaps - perhaps)[base, columns]
        others_missing = self.missing - missing
        others_known = self.known - (missing < self.sizes[number])
        code = np.where(others_missing > 0, DP, D)
        code[others_having > 0] = P
        code[others_perhaps > 0] = PU
        code[others_fixed > 0] = U
        code[others_known == 0] = I
        code[~valid] = NO_CODE
        return Characters(
            group=number,
            codes=code.astype(np.int8),
            consensus=np.where(valid, base, AMBIGUOUS).astype(np.int8),
            missing=missing,
            others_missing=others_missing,
            states=having,
            other_states=(self.totals - counts) > 0,
        )

    def all(self, least: int) -> Iterator[Characters]:
        """Of the groups with so many members or more."""
        for number in range(len(self.groups.names)):
            if self.sizes[number] >= least:
                yield self.characters(number)


def pure(one: Characters) -> Ints:
    """Columns where the group and the others both have known bases and share none (Sarkar et al. 2002)."""
    apart = (
        one.states.any(axis=0) & one.other_states.any(axis=0) & ~(one.states & one.other_states).any(axis=0)
    )
    return np.flatnonzero(apart)


def bases(states: NDArray[np.bool_]) -> str:
    return "/".join(base for base, there in zip("ACGT", states.tolist(), strict=True) if there)
